//! The timer between two frames.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::TimeoutControl;
use crate::layer::LayerState;

/// Timer that starts at the first poll, and again at the first poll after each [`restart`](Self::restart).
#[derive(Debug)]
pub(crate) struct IdleTimer {
    limit: Duration,
    control: Option<TimeoutControl>,
    deadline: Option<Instant>,
    /// Duration of all pauses when the deadline was set. Later pauses move the deadline.
    paused: Duration,
    /// Set if the deadline passed during a pause. The timer is not polled until the pause ends.
    deadline_passed: bool,
    /// Taken from the pool at the first wait: most frames are ready at once.
    sleep: Option<Pin<Box<Sleep>>>,
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

    /// Grants the whole timeout to the next frame.
    pub(crate) fn restart(&mut self) {
        (self.deadline, self.deadline_passed) = (None, false);
    }

    /// Returns `Ready` after the timeout.
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
                // The timer may be set to an earlier deadline: moving it at each frame would cost more than
                // one spurious wake-up.
                if Instant::now() < deadline {
                    sleep.as_mut().reset(deadline);
                    continue;
                }
                // A timer set to the past would wake the task in a loop.
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
        self.paused = self.control.as_ref().map_or(Duration::ZERO, TimeoutControl::paused);
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
