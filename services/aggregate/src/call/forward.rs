//! Calls that another replica has.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use vmcp_core::{Body, BoxError, MediaType, Rejection};
use vmcp_peer::ReplicaHandle;
use vmcp_wire::sse;

use super::Call;
use crate::event_stream::next_piece;
use crate::replicas::{ForwardKind, call_rejection, unresponsive};

/// End of an event.
const EVENT_END: [u8; 2] = *b"\n\n";

/// Forwards a call to the replica that has it. `repeatable` marks calls that have no additional effect when repeated.
pub(crate) async fn forward_call(
    call: &Call,
    kind: ForwardKind,
    replica: &ReplicaHandle,
    repeatable: bool,
) -> Result<Response<Body>, Rejection> {
    let response = call.context.replicas.forward(kind, replica, call.forwarded()).await;
    let response = response.map_err(|error| call_rejection(&error, repeatable))?;
    if MediaType::of(response.headers()) != MediaType::EventStream {
        return Ok(response);
    }
    let failure = unresponsive(repeatable).to_json(Some(&call.id()));
    Ok(response.map(|events| {
        Body::wrap(ForwardedEvents { events, last: EVENT_END, failure, ending: None, over: false })
    }))
}

/// Events of a call. If the replica no longer responds, an error message is the last one.
struct ForwardedEvents {
    events: Body,
    /// Last bytes of the events.
    last: [u8; 2],
    /// Message that ends the events in place of the replica's.
    failure: Bytes,
    /// Message that is being sent.
    ending: Option<sse::Encoder>,
    over: bool,
}

impl http_body::Body for ForwardedEvents {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(next_piece(&mut this.ending).map(Ok));
        }
        match ready!(Pin::new(&mut this.events).poll_frame(cx)) {
            Some(Ok(frame)) => {
                this.last = match frame.data_ref().map(Bytes::as_ref) {
                    Some([.., first, second]) => [*first, *second],
                    Some([byte]) => [this.last[1], *byte],
                    _ => this.last,
                };
                Poll::Ready(Some(Ok(frame)))
            }
            // Another event cannot follow an incomplete one.
            Some(Err(error)) if this.last != EVENT_END => Poll::Ready(Some(Err(error))),
            Some(Err(error)) => {
                tracing::warn!(%error, "a replica no longer sends the events of a call");
                this.over = true;
                this.ending = Some(sse::Encoder::new(this.failure.clone()));
                Poll::Ready(next_piece(&mut this.ending).map(Ok))
            }
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        if self.over { self.ending.is_none() } else { self.events.is_end_stream() }
    }
}
