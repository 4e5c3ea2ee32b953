//! The time left until the next frame.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::Hold;
use crate::layer::Shared;

/// Starts running when first polled, and again at each [`Clock::restart`].
#[derive(Debug)]
pub(crate) struct Clock {
    limit: Duration,
    hold: Option<Hold>,
    deadline: Option<Instant>,
    /// Taken when something is awaited for the first time: most frames are there at once.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Where it is taken from.
    shared: Arc<Shared>,
}

impl Clock {
    pub(crate) fn new(limit: Duration, hold: Option<Hold>, shared: Arc<Shared>) -> Self {
        Self { limit, hold, deadline: None, sleep: None, shared }
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Something came: the whole time is left again.
    pub(crate) fn restart(&mut self) {
        self.deadline = None;
    }

    /// Ready when the time has run out.
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let limit = self.limit;
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + limit);
            let sleep = self.sleep.get_or_insert_with(|| self.shared.idle.take(deadline));
            if sleep.is_elapsed() || sleep.deadline() > deadline {
                sleep.as_mut().reset(deadline);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // The timer may stand at an earlier deadline: moving it at each frame would cost more
            // than one idle wake-up.
            if Instant::now() < deadline {
                sleep.as_mut().reset(deadline);
                continue;
            }
            if !self.hold.as_ref().is_some_and(Hold::held) {
                return Poll::Ready(());
            }
            self.deadline = None;
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        if let Some(sleep) = self.sleep.take() {
            self.shared.idle.give(sleep);
        }
    }
}
