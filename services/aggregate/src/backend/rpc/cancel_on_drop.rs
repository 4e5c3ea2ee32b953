//! Sends `notifications/cancelled` for a request that the gateway gives up.

use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use http_body_util::Full;
use tracing::Instrument;
use vmcp_core::{BoxError, McpOperation};

use super::BackendHandle;
use crate::backend::cancellation::{cancellation, reason};
use crate::backend::collect::drain_body;
use crate::backend::request::SESSION;
use crate::backend::sse_transport::ChannelHandle;

/// Guard of a request in a stateful session. Cancels the request if dropped before the response.
pub(super) struct CancelOnDrop<'a> {
    backend: &'a BackendHandle,
    id: &'a str,
    /// Target of the cancellation; `None` if there is nothing to cancel.
    sent: Option<Box<(Uri, HeaderMap, Extensions)>>,
}

impl<'a> CancelOnDrop<'a> {
    pub(super) fn new(
        backend: &'a BackendHandle,
        request: &Request<Full<Bytes>>,
        id: &'a str,
    ) -> Self {
        let (headers, extensions) = (request.headers(), request.extensions());
        // `initialize` has no session yet and must not be cancelled.
        let is_in_session =
            headers.contains_key(SESSION) || extensions.get::<ChannelHandle>().is_some();
        let sent = || Box::new((request.uri().clone(), headers.clone(), extensions.clone()));
        Self { backend, id, sent: is_in_session.then(sent) }
    }

    /// Records the outcome of the request.
    pub(super) fn record_outcome<T>(&mut self, answered: &Result<T, BoxError>) {
        match answered.as_ref().err().and_then(reason) {
            Some(reason) => self.cancel(&reason),
            None => self.sent = None,
        }
    }

    fn cancel(&mut self, reason: &str) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Some(sent) = self.sent.take() else { return };
        let (uri, headers, extensions) = *sent;
        let message = cancellation(self.id.as_bytes(), reason);
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        *request.extensions_mut() = extensions;
        let operation = McpOperation::new("notifications/cancelled");
        let operation =
            match request.extensions().get::<McpOperation>().and_then(McpOperation::client_request)
            {
                Some(request_context) => operation.with_client_request(request_context.clone()),
                None => operation,
            };
        request.extensions_mut().insert(operation);
        let sending = self.backend.begin(request);
        let cancelling = async move {
            if let Ok(response) = sending.await {
                drain_body(response).await;
            }
        };
        runtime.spawn(cancelling.in_current_span());
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.cancel("the gateway dropped the request");
    }
}
