//! Timeout for the head of a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt;
use tokio::time::{Instant, Sleep, sleep_until};

use super::activity::Activity;
use vmcp_core::lock;

/// Timer of one connection, for hyper.
///
/// hyper creates a deadline for each request and drops it when the head has arrived. All deadlines of a connection share
/// one entry of the runtime's timer. The entry is moved only when it fires too early, not for each request.
#[derive(Clone)]
pub(crate) struct HeadTimer {
    /// Timer entry that all deadlines of the connection share. Uncontended: only the connection's task polls deadlines.
    entry: Entry,
    /// `true` until hyper waits for the head of the first request. Relaxed: only the connection's task reads and clears it.
    is_new: Arc<AtomicBool>,
    activity: Activity,
}

type Entry = Arc<Mutex<Option<Pin<Box<Sleep>>>>>;

/// Time limit for the head of a request, and for an idle connection.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// Time limit for the head of a connection's first request, which clients send immediately.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Deadline of a connection. At most one exists at a time; while it exists, the connection is idle.
struct Deadline {
    at: Instant,
    entry: Entry,
    activity: Activity,
}

impl HeadTimer {
    /// Creates the timer of a new connection.
    pub(crate) fn new(activity: Activity) -> Self {
        Self { entry: Entry::default(), is_new: Arc::new(AtomicBool::new(true)), activity }
    }

    fn deadline(&self, at: Instant) -> Pin<Box<dyn rt::Sleep>> {
        // hyper starts to wait now; `at` avoids another read of the clock.
        self.activity.set_idle_since(at.checked_sub(HEAD_TIMEOUT).unwrap_or(at));
        let is_first = self.is_new.swap(false, Ordering::Relaxed);
        let at = if is_first { at.min(Instant::now() + FIRST_HEAD_TIMEOUT) } else { at };
        Box::pin(Deadline { at, entry: Arc::clone(&self.entry), activity: self.activity.clone() })
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.activity.set_busy();
    }
}

#[expect(clippy::disallowed_types, reason = "hyper's deadlines are of the system's type")]
impl rt::Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.deadline(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        self.deadline(deadline.into())
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

impl rt::Sleep for Deadline {}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut entry = lock(&self.entry);
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

    fn timer() -> HeadTimer {
        HeadTimer::new(Activity::new(Instant::now()))
    }

    fn fired(sleep: &mut Pin<Box<dyn rt::Sleep>>) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_later_deadline_after_dropped_earlier_one() {
        let timer = timer();
        timer.is_new.store(false, Ordering::Relaxed);
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
    async fn first_head_has_shorter_timeout() {
        let (timer, minute) = (timer(), Duration::from_mins(1));
        let mut first = timer.sleep(minute);
        tokio::time::timeout(FIRST_HEAD_TIMEOUT + Duration::from_millis(1), &mut first)
            .await
            .unwrap();
        let mut second = timer.sleep(minute);
        let early = tokio::time::timeout(FIRST_HEAD_TIMEOUT * 2, &mut second).await;
        assert!(early.is_err(), "connections are idle for longer");
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_earlier_deadline() {
        let timer = timer();
        timer.is_new.store(false, Ordering::Relaxed);
        let mut late = timer.sleep(Duration::from_secs(10));
        assert!(!fired(&mut late));
        drop(late);
        let mut early = timer.sleep(Duration::from_secs(1));
        tokio::time::timeout(Duration::from_millis(1001), &mut early).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_while_a_head_is_awaited() {
        let timer = timer();
        advance(Duration::from_secs(1)).await;
        let deadline = timer.sleep(HEAD_TIMEOUT);
        let first = timer.activity.idle_since().unwrap();
        drop(deadline);
        assert_eq!(timer.activity.idle_since(), None);
        advance(Duration::from_secs(1)).await;
        let _deadline = timer.sleep(HEAD_TIMEOUT);
        assert!(timer.activity.idle_since().unwrap() > first);
    }
}
