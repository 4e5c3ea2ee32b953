//! Responses built from the events of a call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Frame;
use tokio::sync::mpsc;
use vmcp_core::{Body, BoxError, Rejection, Reservation};
use vmcp_wire::{scan_prefix, sse};

use crate::backend::error::BackendError;
use crate::bridge::stateless_to_stateless::purpose;
use crate::bridge::suspended_calls::{CallEvent, Handle};
use crate::call::{Call, CallTarget};
use crate::catalog::define_literal;
use crate::event_stream::{event_stream, next_piece};
use crate::response::{self, ExpectedResponse};

/// Builds the response from the first events of a call.
pub(super) async fn respond(
    call: &Arc<Call>,
    target: &Arc<CallTarget>,
    mut outs: mpsc::Receiver<CallEvent>,
    expected: ExpectedResponse,
) -> Result<Response<Body>, Rejection> {
    match outs.recv().await {
        Some(CallEvent::Message(first, _, count)) => {
            let final_message =
                FinalMessage { call: Arc::clone(call), target: Arc::clone(target), expected };
            let encoder = Some(sse::Encoder::new(first));
            let body = CallEventBody { encoder, count, outs, final_message, over: false };
            Ok(event_stream(Body::wrap(body)))
        }
        Some(CallEvent::Refused(rejection)) => Err(rejection),
        last => {
            let final_message =
                FinalMessage { call: Arc::clone(call), target: Arc::clone(target), expected };
            let (status, message) = final_message.message(last)?;
            Ok(response::response(status, Body::from(message)))
        }
    }
}

/// Message that ends a response.
struct FinalMessage {
    call: Arc<Call>,
    target: Arc<CallTarget>,
    expected: ExpectedResponse,
}

impl FinalMessage {
    fn message(&self, last: Option<CallEvent>) -> Result<(StatusCode, Bytes), Rejection> {
        let failed = |error: &BoxError| self.target.rejection(error);
        match last {
            Some(CallEvent::Answer(message, count)) => {
                if let Some(count) = count {
                    self.call.hold(count);
                }
                self.answer(message).map_err(|error| failed(&error))
            }
            Some(CallEvent::Questions(handle, server_requests)) => self
                .server_requests(handle, &server_requests)
                .map(|message| (StatusCode::OK, message))
                .map_err(|error| failed(&error)),
            Some(CallEvent::Failed(error)) => Err(failed(&error)),
            Some(CallEvent::Refused(rejection)) => Err(rejection),
            Some(CallEvent::Message(..)) | None => Err(failed(&BackendError::Ended.into())),
        }
    }

    fn answer(&self, message: Bytes) -> Result<(StatusCode, Bytes), BoxError> {
        let found = scan_prefix(&message)?;
        let code = response::error_code(&found).and_then(|code| i32::try_from(code).ok());
        let status = code.map_or(StatusCode::OK, response::status_of);
        Ok((status, response::translate(message, &found, &self.expected)?))
    }

    fn server_requests(
        &self,
        handle: Handle,
        server_requests: &[(String, Bytes)],
    ) -> Result<Bytes, BoxError> {
        let context = &self.call.context;
        let text = handle.to_text(context.replicas.own_handle().as_deref());
        let sealed = context.seal.seal(&text, purpose(&self.call, &self.target))?;
        let mut out = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
        out.extend_from_slice(&self.expected.client_id);
        out.extend_from_slice(
            b",\"result\":{\"resultType\":\"input_required\",\"inputRequests\":{",
        );
        for (index, (key, server_request)) in server_requests.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&define_literal(key));
            out.push(b':');
            out.extend_from_slice(server_request);
        }
        out.extend_from_slice(b"},\"requestState\":");
        out.extend_from_slice(&define_literal(&sealed));
        out.extend_from_slice(b"}}");
        Ok(out.into())
    }
}

/// Body of notifications followed by the final message.
struct CallEventBody {
    /// Message that is being sent.
    encoder: Option<sse::Encoder>,
    /// Its reservation, held until the next message is sent.
    count: Option<Reservation>,
    outs: mpsc::Receiver<CallEvent>,
    final_message: FinalMessage,
    over: bool,
}

impl http_body::Body for CallEventBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.encoder.is_none() {
            if this.over {
                return Poll::Ready(None);
            }
            let message = match ready!(this.outs.poll_recv(cx)) {
                Some(CallEvent::Message(message, permit, count)) => {
                    // Release the share, so the next message can arrive while the client reads this one.
                    drop(permit);
                    this.count = count;
                    message
                }
                last => {
                    // The reservation of the response is held by the call.
                    (this.over, this.count) = (true, None);
                    let ended = this.final_message.message(last).map(|(_, message)| message);
                    ended.unwrap_or_else(|rejection| this.final_message.call.failure(&rejection))
                }
            };
            this.encoder = Some(sse::Encoder::new(message));
        }
        Poll::Ready(next_piece(&mut this.encoder).map(Ok))
    }
}
