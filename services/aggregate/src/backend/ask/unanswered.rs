//! `notifications/cancelled` for a request of the gateway's own that it gives up.

use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use http_body_util::Full;
use vmcp_core::{BoxError, Operation};

use super::{Link, drain};
use crate::backend::channel::Lease;
use crate::backend::request::SESSION;
use crate::call::{cancellation, reason};

/// A request in a session of a stateful backend. Dropped before it is answered, it is cancelled.
pub(super) struct Unanswered<'a> {
    link: &'a Link,
    id: &'a str,
    /// What the request was sent with; `None` when there is nothing to cancel.
    sent: Option<Box<(Uri, HeaderMap, Extensions)>>,
}

impl<'a> Unanswered<'a> {
    pub(super) fn new(link: &'a Link, request: &Request<Full<Bytes>>, id: &'a str) -> Self {
        let (headers, extensions) = (request.headers(), request.extensions());
        // `initialize`, which belongs to no session, is not to be cancelled.
        let is_in_session = headers.contains_key(SESSION) || extensions.get::<Lease>().is_some();
        let sent = || Box::new((request.uri().clone(), headers.clone(), extensions.clone()));
        Self { link, id, sent: is_in_session.then(sent) }
    }

    /// Notes what became of it.
    pub(super) fn note<T>(&mut self, answered: &Result<T, BoxError>) {
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
        let operation = Operation::new("notifications/cancelled");
        let operation = match request.extensions().get::<Operation>().and_then(Operation::cause) {
            Some(trail) => operation.caused_by(trail.clone()),
            None => operation,
        };
        request.extensions_mut().insert(operation);
        let sending = self.link.begin(request);
        runtime.spawn(async move {
            if let Ok(response) = sending.await {
                drain(response).await;
            }
        });
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.cancel("the gateway gave up");
    }
}
