//! Suppression of wake-ups that reading a body causes.
//!
//! hyper wakes the driver whenever a chunk of a response body is read, so that it reads the next
//! one, also after the last chunk. Then there is nothing to read, and the connection would appear
//! to be closed by its peer or to have unexpected data.

use std::{
    cell::Cell,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;

/// Result of polling a body.
pub(crate) type PolledFrame = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

thread_local! {
    /// Current phase of this thread.
    static PHASE: Cell<ReadPhase> = const { Cell::new(ReadPhase::Idle) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadPhase {
    Idle,
    ReadingFrame,
    /// hyper woke the driver while the frame was read.
    DriverWoken,
}

/// Guard that resets the phase, also after a panic of the body.
struct PhaseGuard;

/// Returns the available frame of `body`, and whether the driver has to read more.
pub(crate) fn poll_frame(body: &mut Incoming) -> (PolledFrame, bool) {
    PHASE.set(ReadPhase::ReadingFrame);
    let guard = PhaseGuard;
    let frame = Pin::new(&mut *body).poll_frame(&mut noop_context());
    let is_driver_woken = PHASE.get() == ReadPhase::DriverWoken;
    drop(guard);
    (frame, is_driver_woken && !body.is_end_stream())
}

/// Returns whether this thread is reading a frame, and records the wake-up instead.
pub(crate) fn suppress_wake() -> bool {
    if PHASE.get() == ReadPhase::Idle {
        return false;
    }
    PHASE.set(ReadPhase::DriverWoken);
    true
}

/// Returns a context that wakes nothing.
pub(crate) fn noop_context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Drop for PhaseGuard {
    fn drop(&mut self) {
        PHASE.set(ReadPhase::Idle);
    }
}
