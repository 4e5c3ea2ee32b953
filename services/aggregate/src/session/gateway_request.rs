//! Requests of the gateway itself to the client of a session.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{PendingServerRequest, ServerRequestId, Session};
use crate::backend::cancellation::cancellation;
use crate::stream::{MessageClass, Stream};

/// Cancellation reason for a request whose response is not needed any more.
const WITHDRAWN: &str = "the call that needs the response has ended or timed out";

/// Server request of the gateway that waits for the client's response. Dropping it without a response withdraws it from the client
/// (MCP 2025-11-25, Cancellation).
#[derive(Debug)]
pub(crate) struct GatewayRequest<'a> {
    session: &'a Session,
    stream: &'a Stream,
    id: ServerRequestId,
    response: oneshot::Receiver<Bytes>,
    is_answered: bool,
}

/// Error of a request that could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayRequestError {
    /// The client has as many open server requests as it may.
    TooMany,
    /// The queue of messages for the client is full.
    QueueFull,
}

impl<'a> GatewayRequest<'a> {
    /// Sends a request. `method` and `params` are JSON.
    pub(crate) fn send(
        session: &'a Session,
        stream: &'a Stream,
        method: &[u8],
        params: &[u8],
    ) -> Result<Self, GatewayRequestError> {
        let (sender, response) = oneshot::channel();
        let id = session.streams().register(PendingServerRequest::Call(sender));
        let id = id.ok_or(GatewayRequestError::TooMany)?;
        let start = br#"{"jsonrpc":"2.0","id":"#;
        let message =
            [&start[..], id.to_json(), br#","method":"#, method, br#","params":"#, params, b"}"];
        if stream.push(message.concat().into(), MessageClass::Required) {
            Ok(Self { session, stream, id, response, is_answered: false })
        } else {
            session.streams().cancel(&id);
            Err(GatewayRequestError::QueueFull)
        }
    }

    /// Waits for the response, which is the whole message; `None` if the client does not respond in time.
    pub(crate) async fn response(mut self) -> Option<Bytes> {
        let response = (&mut self.response).await.ok();
        self.is_answered = response.is_some();
        response
    }
}

impl Drop for GatewayRequest<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.session.streams().cancel(&self.id);
            let message = cancellation(self.id.to_json(), WITHDRAWN);
            self.stream.push(message, MessageClass::Required);
        }
    }
}
