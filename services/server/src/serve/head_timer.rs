//! The time that the head of a request may take.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt;
use tokio::time::{Instant, Sleep, sleep_until};

/// hyper's timer of one connection.
///
/// hyper begins a deadline with each request and gives it up when the head is there. All of a
/// connection's deadlines share one entry of the runtime's timer, which is moved when it fires too
/// early and not with each request.
#[derive(Clone, Default)]
pub(super) struct HeadTimer(Arc<Mutex<Option<Pin<Box<Sleep>>>>>);

/// One deadline. There is one at a time.
struct Deadline {
    at: Instant,
    timer: HeadTimer,
}

#[expect(clippy::disallowed_types, reason = "hyper's deadlines are of the system's type")]
impl rt::Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Deadline { at: Instant::now() + duration, timer: self.clone() })
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Deadline { at: deadline.into(), timer: self.clone() })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

impl rt::Sleep for Deadline {}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut entry = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sleep = entry.get_or_insert_with(|| Box::pin(sleep_until(self.at)));
        loop {
            if sleep.deadline() > self.at {
                sleep.as_mut().reset(self.at);
            }
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= self.at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(self.at);
        }
    }
}

impl fmt::Debug for HeadTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeadTimer")
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hyper::rt::Timer;
    use tokio::time::advance;

    use super::*;

    fn fired(sleep: &mut Pin<Box<dyn rt::Sleep>>) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_deadline_is_kept_although_the_timer_stands_at_an_earlier_one() {
        let timer = HeadTimer::default();
        let ten = Duration::from_secs(10);
        let mut first = timer.sleep_until(timer.now() + ten);
        assert!(!fired(&mut first));
        advance(ten / 2).await;
        drop(first);
        let mut second = timer.sleep(ten);
        assert!(!fired(&mut second));
        advance(ten / 2).await;
        assert!(!fired(&mut second));
        tokio::time::timeout(ten / 2 + Duration::from_millis(1), &mut second).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_deadline_is_kept_too() {
        let timer = HeadTimer::default();
        let mut late = timer.sleep(Duration::from_secs(10));
        assert!(!fired(&mut late));
        drop(late);
        let mut early = timer.sleep(Duration::from_secs(1));
        tokio::time::timeout(Duration::from_millis(1001), &mut early).await.unwrap();
    }
}
