//! Tells what a connection's own body says of it from what the peer says.
//!
//! hyper tells the driver whenever a chunk of a response's body is taken, so that it reads the next one,
//! and does so after the last chunk too. Then there is nothing to read, and a connection that was told so
//! would look as if its peer had closed it or had sent something unasked.

use std::{cell::Cell, pin::Pin, task::Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;

use crate::exchange::silent;

/// What polling a body gives.
pub(crate) type Polled = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

thread_local! {
    /// What this thread does with a body now.
    static TAKING: Cell<Taking> = const { Cell::new(Taking::Nothing) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    Nothing,
    Frame,
    /// And hyper wanted the driver woken.
    FrameHeard,
}

/// Ends the taking, also when the body panics.
struct Taken;

/// Takes what there is of `body`, and whether the driver has to look for more.
pub(crate) fn take(body: &mut Incoming) -> (Polled, bool) {
    TAKING.set(Taking::Frame);
    let taken = Taken;
    let frame = Pin::new(&mut *body).poll_frame(&mut silent());
    let heard = TAKING.get() == Taking::FrameHeard;
    drop(taken);
    (frame, heard && !body.is_end_stream())
}

/// Whether this thread takes a frame now, which then is all that a connection is told of.
pub(crate) fn hears() -> bool {
    if TAKING.get() == Taking::Nothing {
        return false;
    }
    TAKING.set(Taking::FrameHeard);
    true
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKING.set(Taking::Nothing);
    }
}
