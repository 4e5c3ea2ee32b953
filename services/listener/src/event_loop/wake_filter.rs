//! Suppresses needless wake-ups of connection tasks.
//!
//! hyper wakes a connection's task whenever a chunk of a request's body is read, even after the last one, so that the
//! task reads the next chunk from the socket. Here the same task reads the body, so each request would pass through the
//! run queue and all layers a second time without effect.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Body, Frame, SizeHint};

thread_local! {
    /// State of the current body read on this thread.
    static READ_STATE: Cell<ReadState> = const { Cell::new(ReadState::Idle) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Idle,
    Reading,
    /// hyper requested a wake-up during the read.
    Woken,
}

/// Guard that resets the state, even if the body panics.
struct ReadGuard;

/// The waker of a connection.
#[derive(Debug, Default)]
pub(crate) struct FilteringWaker(AtomicWaker);

/// Body of a request, whose last chunk wakes the connection's task only once.
#[derive(Debug)]
pub struct QuietBody<B>(pub B);

/// Drives a connection whose requests have [`QuietBody`] bodies, until it ends or, between two polls, `must_close` says so.
pub(crate) async fn drive<F: Future>(
    task_waker: &Arc<FilteringWaker>,
    must_close: impl Fn() -> bool,
    connection: F,
) -> Option<F::Output> {
    let waker = Waker::from(Arc::clone(task_waker));
    let mut connection = pin!(connection);
    poll_fn(move |cx| {
        // Before `must_close` is asked: who makes that true wakes this waker afterwards.
        task_waker.0.register(cx.waker());
        if must_close() {
            return Poll::Ready(None);
        }
        match connection.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if must_close() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

impl FilteringWaker {
    /// Wakes the connection's task.
    pub(crate) fn wake_task(&self) {
        self.0.wake();
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        READ_STATE.set(ReadState::Idle);
    }
}

impl Wake for FilteringWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match READ_STATE.get() {
            ReadState::Idle => self.0.wake(),
            ReadState::Reading | ReadState::Woken => READ_STATE.set(ReadState::Woken),
        }
    }
}

impl<B> Body for QuietBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        READ_STATE.set(ReadState::Reading);
        let taken = ReadGuard;
        let frame = Pin::new(&mut self.0).poll_frame(cx);
        let is_woken = READ_STATE.get() == ReadState::Woken;
        drop(taken);
        let is_last = matches!(frame, Poll::Ready(Some(Ok(_)))) && self.0.is_end_stream();
        if is_woken && !is_last {
            cx.waker().wake_by_ref();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// As many frames as this says. As hyper does, it tells its task of each.
    struct Frames(usize);

    impl Body for Frames {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            cx.waker().wake_by_ref();
            let left = self.0.checked_sub(1);
            self.0 = left.unwrap_or(0);
            Poll::Ready(left.map(|_| Ok(Frame::data(Bytes::from_static(b"x")))))
        }

        fn is_end_stream(&self) -> bool {
            self.0 == 0
        }
    }

    /// Polls a connection that takes one frame and then waits.
    fn take_one(body: &mut QuietBody<Frames>, cx: &mut Context<'_>) -> bool {
        let task_waker = Arc::default();
        let serving = pin!(drive(&task_waker, || false, async {
            assert!(body.frame().await.is_some());
            std::future::pending::<()>().await;
        }));
        serving.poll(cx).is_pending()
    }

    #[test]
    fn does_not_wake_task_for_last_frame() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = &mut Context::from_waker(&waker);
        let mut body = QuietBody(Frames(2));
        assert!(take_one(&mut body, cx));
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "there is more to read");
        assert!(take_one(&mut body, cx));
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "there is not");
    }

    #[test]
    fn passes_other_wakeups_through() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = &mut Context::from_waker(&waker);
        let task_waker = Arc::default();
        let mut serving = pin!(drive(&task_waker, || false, async {
            assert!(QuietBody(Frames(1)).frame().await.is_some());
            tokio::task::yield_now().await;
        }));
        assert!(serving.as_mut().poll(cx).is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(serving.poll(cx).is_ready());
    }

    #[test]
    fn stops_polling_ended_connection() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = &mut Context::from_waker(&waker);
        let (task_waker, must_close) = (Arc::new(FilteringWaker::default()), Cell::new(false));
        let mut serving =
            pin!(drive(&task_waker, || must_close.get(), std::future::pending::<()>()));
        assert!(serving.as_mut().poll(cx).is_pending());
        must_close.set(true);
        task_waker.wake_task();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(serving.poll(cx), Poll::Ready(None));
    }
}
