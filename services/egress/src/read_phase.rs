//! Tells what a connection's own body says of it from what the peer says.
//!
//! hyper tells the driver whenever a chunk of a response's body is taken, so that it reads the next one,
//! and does so after the last chunk too. Then there is nothing to read, and a connection that was told so
//! would look as if its peer had closed it or had sent something unasked.

use std::{cell::Cell, pin::Pin, task::Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;

use crate::exchange::noop_context;

/// What polling a body gives.
pub(crate) type PolledFrame = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

thread_local! {
    /// What this thread does with a body now.
    static PHASE: Cell<ReadPhase> = const { Cell::new(ReadPhase::Idle) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadPhase {
    Idle,
    ReadingFrame,
    /// And hyper wanted the driver woken.
    DriverWoken,
}

/// Ends the taking, also when the body panics.
struct PhaseGuard;

/// Takes what there is of `body`, and whether the driver has to look for more.
pub(crate) fn poll_frame(body: &mut Incoming) -> (PolledFrame, bool) {
    PHASE.set(ReadPhase::ReadingFrame);
    let guard = PhaseGuard;
    let frame = Pin::new(&mut *body).poll_frame(&mut noop_context());
    let is_driver_woken = PHASE.get() == ReadPhase::DriverWoken;
    drop(guard);
    (frame, is_driver_woken && !body.is_end_stream())
}

/// Whether this thread takes a frame now, which then is all that a connection is told of.
pub(crate) fn suppress_wake() -> bool {
    if PHASE.get() == ReadPhase::Idle {
        return false;
    }
    PHASE.set(ReadPhase::DriverWoken);
    true
}

impl Drop for PhaseGuard {
    fn drop(&mut self) {
        PHASE.set(ReadPhase::Idle);
    }
}
