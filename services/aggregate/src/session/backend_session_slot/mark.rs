//! Mark of results that tell the client of a new session at a backend.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use vmcp_core::{Body, BoxError, lock};
use vmcp_wire::{Envelope, Outcome, Splice, find_span, scan};

use super::BackendSessionSlot;
use crate::stream::Stream;

/// Member of a result's `_meta` that marks a new session at the backend.
const NEW_SESSION: &str = "vmcp.dev/backendSession";
const NEW_SESSION_VALUE: &[u8] = br#""new""#;
const NEW_SESSION_META: &[u8] = br#"{"vmcp.dev/backendSession":"new"}"#;

/// Returns a response with the mark, if it has a result.
fn marked(message: &Bytes) -> Option<Bytes> {
    let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(message) else {
        return None;
    };
    let mut splice = Splice::new(message);
    match find_span(message, result, "_meta") {
        Some(meta) => splice.set_member(meta, NEW_SESSION, NEW_SESSION_VALUE),
        None => splice.set_member(result, "_meta", NEW_SESSION_META),
    };
    Some(splice.finish())
}

/// Slots of one call whose backend sessions the client has yet to hear of.
#[derive(Debug, Default)]
pub(crate) struct PendingMarks(Mutex<Vec<Arc<BackendSessionSlot>>>);

/// Body of a marked response. A response that is dropped unread leaves its marks to the next one.
struct MarkedBody {
    body: Body,
    marks: PendingMarks,
}

impl BackendSessionSlot {
    /// Marks the first result of the backend session as that of a new one.
    pub(crate) fn with_mark(self) -> Self {
        self.require_mark();
        self
    }

    pub(super) fn require_mark(&self) {
        self.needs_mark.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the next result has to be marked.
    pub(crate) fn needs_mark(&self) -> bool {
        self.needs_mark.load(Ordering::Relaxed)
    }
}

impl PendingMarks {
    /// Returns the mark of a slot's backend session, if the client has yet to hear of it.
    pub(crate) fn of(slot: &Arc<BackendSessionSlot>) -> Self {
        let marks = Self::default();
        marks.add(slot);
        marks
    }

    /// Adds the mark of a slot's backend session, if the client has yet to hear of it.
    pub(crate) fn add(&self, slot: &Arc<BackendSessionSlot>) {
        let mut slots = lock(&self.0);
        if slot.needs_mark() && !slots.iter().any(|known| Arc::ptr_eq(known, slot)) {
            slots.push(Arc::clone(slot));
        }
    }

    /// Returns the message with the mark, if there is one to set.
    fn set(&self, message: &Bytes) -> Option<Bytes> {
        let mut slots = lock(&self.0);
        // The client may have heard of them with another result.
        slots.retain(|slot| slot.needs_mark());
        if slots.is_empty() { None } else { marked(message) }
    }

    /// Marks a message, and returns a function of the response with it.
    pub(crate) fn apply(
        self,
        message: Bytes,
    ) -> (Bytes, impl FnOnce(Response<Body>) -> Response<Body>) {
        let marked = self.set(&message);
        let marks = marked.is_some().then_some(self);
        let attach = move |response: Response<Body>| match marks {
            Some(marks) => response.map(|body| Body::wrap(MarkedBody { body, marks })),
            None => response,
        };
        (marked.unwrap_or(message), attach)
    }

    /// Finishes a stream with a message, which is marked. A client that is away may never read it, so the next result has the
    /// marks again.
    pub(crate) fn finish(
        &self,
        stream: &Stream,
        message: Bytes,
        finish: impl FnOnce(Bytes) -> bool,
    ) -> bool {
        let Some(marked) = self.set(&message) else { return finish(message) };
        let is_kept = finish(marked);
        if is_kept && stream.connected() {
            self.delivered();
        }
        is_kept
    }

    /// Records that the client has the marks.
    fn delivered(&self) {
        for slot in lock(&self.0).drain(..) {
            slot.needs_mark.store(false, Ordering::Relaxed);
        }
    }
}

impl http_body::Body for MarkedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(_))) = &polled {
            self.marks.delivered();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
