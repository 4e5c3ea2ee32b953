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
    /// How long the time had been stopped when the deadline was set: pauses after that move it.
    paused: Duration,
    /// Whether the deadline has passed during a pause: the timer is not looked at again before the end of that.
    ran_out: bool,
    /// Taken when something is awaited for the first time: most frames are there at once.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Where it is taken from.
    shared: Arc<Shared>,
}

impl Clock {
    pub(crate) fn new(limit: Duration, hold: Option<Hold>, shared: Arc<Shared>) -> Self {
        Self {
            limit,
            hold,
            deadline: None,
            paused: Duration::ZERO,
            ran_out: false,
            sleep: None,
            shared,
        }
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Something came: the whole time is left again.
    pub(crate) fn restart(&mut self) {
        (self.deadline, self.ran_out) = (None, false);
    }

    /// Ready when the time has run out.
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let deadline = self.deadline.unwrap_or_else(|| self.start());
            if !self.ran_out {
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
                // A timer that is set to a time in the past wakes at once, again and again.
                self.ran_out = true;
            }
            let Some(hold) = &self.hold else { return Poll::Ready(()) };
            let Some(paused) = hold.poll_running(cx) else { return Poll::Pending };
            let stopped = paused.saturating_sub(self.paused);
            if stopped.is_zero() {
                return Poll::Ready(());
            }
            (self.deadline, self.paused) = (Some(deadline + stopped), paused);
            self.ran_out = false;
        }
    }

    fn start(&mut self) -> Instant {
        self.paused = self.hold.as_ref().map(Hold::paused).unwrap_or_default();
        *self.deadline.insert(Instant::now() + self.limit)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        if let Some(sleep) = self.sleep.take() {
            self.shared.idle.give(sleep);
        }
    }
}
