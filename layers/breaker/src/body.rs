//! The response body, which records the outcome at its end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use vmcp_core::{BoxError, MediaType};
use vmcp_wire::scan_prefix;
use vmcp_wire::sse::Reader;

use crate::service::OutcomeSource;
use crate::{CallResult, Classifier, Outcome, Permit};

/// Inspected bytes of each message in an event stream. A longer one is taken for the response.
const MAX_EVENT_PREFIX: usize = 16 << 10;

pin_project! {
    /// Response body of [`CircuitBreaker`](crate::CircuitBreaker). Records the outcome at the end and forwards
    /// frames and size hint unchanged.
    pub struct ResponseBody<B, C> {
        #[pin]
        inner: B,
        recorder: Option<OutcomeRecorder<C>>,
    }
}

struct OutcomeRecorder<C> {
    permit: Permit,
    classify: C,
    /// Reader for an event stream that must carry the response.
    reader: Option<Box<Reader>>,
    source: OutcomeSource,
}

impl<B: Body, C> ResponseBody<B, C> {
    pub(crate) fn new(
        inner: B,
        headers: &HeaderMap,
        source: OutcomeSource,
        recorded_permit: Option<(Permit, C)>,
    ) -> Self {
        let Some((permit, classify)) = recorded_permit else {
            return Self { inner, recorder: None };
        };
        let stream = MediaType::of(headers) == MediaType::EventStream;
        if inner.is_end_stream() || !stream && source == OutcomeSource::Stream {
            let success = source == OutcomeSource::Response;
            permit.record(if success { Outcome::Success } else { Outcome::Neutral });
            return Self { inner, recorder: None };
        }
        let permit = if stream && permit.is_trial() {
            // A call may take long; other requests need not wait for its end, since the backend responds again.
            permit.record_success_keep_body()
        } else {
            Some(permit)
        };
        let reader = stream.then(|| Box::new(Reader::new(MAX_EVENT_PREFIX)));
        Self {
            inner,
            recorder: permit.map(|permit| OutcomeRecorder { permit, classify, reader, source }),
        }
    }
}

impl<C> OutcomeRecorder<C> {
    /// Returns `true` once the response has passed.
    fn contains_response(&mut self, piece: &Bytes) -> bool {
        let Some(reader) = &mut self.reader else { return false };
        reader.push(piece.clone());
        reader.any(|event| match event {
            Ok(event) => scan_prefix(&event.data).is_ok_and(|head| head.outcome.is_some()),
            Err(_) => true,
        })
    }

    /// Records the outcome of a body that ended without an error.
    fn end(self) {
        let outcome = match self.reader {
            None => Outcome::Success,
            // An event id means that the server may end the stream for the client to resume (MCP 2025-11-25,
            // Streamable HTTP, Sending Messages to the Server).
            Some(reader) if reader.last_id().is_some() => Outcome::Neutral,
            Some(_) if self.source == OutcomeSource::Stream => Outcome::Neutral,
            Some(_) => Outcome::Failure,
        };
        self.permit.record(outcome);
    }
}

impl<B, C> Body for ResponseBody<B, C>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
    C: Classifier,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        let frame = frame.map(|frame| frame.map_err(Into::into));
        let Some(mut recorder) = this.recorder.take() else { return Poll::Ready(frame) };
        match &frame {
            Some(Ok(piece)) => {
                if piece.data_ref().is_some_and(|piece| recorder.contains_response(piece)) {
                    recorder.permit.record(Outcome::Success);
                } else if this.inner.is_end_stream() {
                    recorder.end();
                } else {
                    *this.recorder = Some(recorder);
                }
            }
            Some(Err(_)) if recorder.source == OutcomeSource::Stream => {
                recorder.permit.record(Outcome::Neutral);
            }
            Some(Err(error)) => {
                let outcome = recorder.classify.classify(CallResult::Error(&**error));
                recorder.permit.record(outcome);
            }
            None => recorder.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: fmt::Debug, C> fmt::Debug for ResponseBody<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody")
            .field("inner", &self.inner)
            .field("is_recording", &self.recorder.is_some())
            .finish()
    }
}
