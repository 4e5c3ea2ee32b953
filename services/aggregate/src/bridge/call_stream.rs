//! Stream of a stateful client's call: messages precede the response, and the client can resume it.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use vmcp_core::{Body, BoxError, LATEST_STATEFUL, Rejection, cause_ref};

use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::call::{Call, CallTarget, Origin};
use crate::event_stream::event_stream;
use crate::session::ActiveCallGuard;
use crate::stream::{Opening, Stream};

/// Returns the next message for `stream`. An incomplete one counts toward the buffer of a disconnected client.
pub(crate) async fn next(
    events: &mut EventReader,
    stream: &Stream,
) -> Option<Result<Bytes, BoxError>> {
    loop {
        if let Some(event) = events.buffered() {
            return Some(event.map(|event| event.data));
        }
        if !stream.may_buffer(events.buffered_bytes()) {
            return Some(Err(BackendError::MESSAGES_OVER_BUFFER.into()));
        }
        stream.pace().await;
        if let Err(error) = events.chunk().await? {
            return Some(Err(error));
        }
    }
}

/// Ends the stream of a call with its failure.
pub(crate) fn finish_failed(call: &Call, target: &CallTarget, stream: &Stream, failure: &BoxError) {
    if let Some(BackendError::Detached { .. }) = cause_ref(failure.as_ref()) {
        call.context.budgets.detached.count_ended();
        tracing::debug!(backend = target.backend.name(), error = %failure, "detached call ended");
    }
    stream.finish(target.failure(call, failure), None);
}

/// Waits until the call of a stream has to end without a response, and returns the failure for its client. The reader of a step
/// is its run, which does not return once it has left.
pub(crate) async fn abandoned(call: &Call, stream: &Stream) -> Option<BackendError> {
    if call.origin == Origin::Step {
        stream.disconnected().await;
        return None;
    }
    Some(stream.abandoned(call.context.detached_timeout).await.into())
}

/// Creates a stream for a call of a session, and the response that connects the client to it. Clients cannot resume the stream
/// of a step, so it does not count as one of the session.
pub(crate) fn answering_stream(
    call: &Call,
    running: &ActiveCallGuard,
) -> Result<(Arc<Stream>, Response<Body>), Rejection> {
    let session = running.session();
    if call.origin == Origin::Step {
        let stream = Stream::unnumbered(call.account().as_ref());
        let response = event_stream(Body::wrap(stream.connect(None, Opening::Plain)));
        running.set_response_stream(&stream);
        return Ok((stream, response));
    }
    let Some(stream) = session.streams().open_stream(session.account(&call.context.budgets)) else {
        return Err(Rejection::overloaded("too many streams of this session are open", 1));
    };
    let opening =
        if session.revision == LATEST_STATEFUL { Opening::Primed } else { Opening::Plain };
    let response = event_stream(Body::wrap(stream.connect(None, opening)));
    running.set_response_stream(&stream);
    Ok((stream, response))
}
