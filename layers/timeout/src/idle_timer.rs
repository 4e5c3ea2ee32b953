//! The time left until the next frame.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::TimeoutControl;
use crate::layer::LayerState;

/// Starts running when first polled, and again at each [`IdleTimer::restart`].
#[derive(Debug)]
pub(crate) struct IdleTimer {
    limit: Duration,
    control: Option<TimeoutControl>,
    deadline: Option<Instant>,
    /// How long the time had been stopped when the deadline was set: pauses after that move it.
    paused: Duration,
    /// Whether the deadline has passed during a pause: the timer is not looked at again before the end of that.
    deadline_passed: bool,
    /// Taken when something is awaited for the first time: most frames are there at once.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Where it is taken from.
    state: Arc<LayerState>,
}

impl IdleTimer {
    pub(crate) fn new(
        limit: Duration,
        control: Option<TimeoutControl>,
        state: Arc<LayerState>,
    ) -> Self {
        Self {
            limit,
            control,
            deadline: None,
            paused: Duration::ZERO,
            deadline_passed: false,
            sleep: None,
            state,
        }
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Something came: the whole time is left again.
    pub(crate) fn restart(&mut self) {
        (self.deadline, self.deadline_passed) = (None, false);
    }

    /// Ready when the time has run out.
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let deadline = self.deadline.unwrap_or_else(|| self.start());
            if !self.deadline_passed {
                let sleep = self.sleep.get_or_insert_with(|| self.state.timer_pool.take(deadline));
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
                self.deadline_passed = true;
            }
            let Some(control) = &self.control else { return Poll::Ready(()) };
            let Some(paused) = control.poll_resumed(cx) else { return Poll::Pending };
            let stopped = paused.saturating_sub(self.paused);
            if stopped.is_zero() {
                return Poll::Ready(());
            }
            (self.deadline, self.paused) = (Some(deadline + stopped), paused);
            self.deadline_passed = false;
        }
    }

    fn start(&mut self) -> Instant {
        self.paused = self.control.as_ref().map(TimeoutControl::paused).unwrap_or_default();
        *self.deadline.insert(Instant::now() + self.limit)
    }
}

impl Drop for IdleTimer {
    fn drop(&mut self) {
        if let Some(sleep) = self.sleep.take() {
            self.state.timer_pool.put(sleep);
        }
    }
}
