//! Bounded queues of messages with one reader.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// Maximum number of queued messages.
const MOST: usize = 64;

/// Maximum number of bytes in queued messages, not counting the last one.
const MOST_BYTES: usize = 4 << 20;

/// Bounded message queue with one reader.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<State>);

/// Queued message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) message: Bytes,
    /// `true` if no message follows.
    pub(crate) last: bool,
}

/// Handling of a message when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// The oldest message of this priority is dropped.
    Little,
    /// The new message is rejected.
    Much,
}

/// Reader of a queue. A second reader ends the first.
#[derive(Debug)]
pub(crate) struct Reading {
    inbox: Arc<Inbox>,
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Item, Worth)>,
    bytes: usize,
    ended: bool,
    reader: u64,
    read: bool,
    waker: Option<Waker>,
}

impl Inbox {
    /// Adds a message. Returns `false` if the queue is full or has ended.
    pub(crate) fn offer(&self, message: Bytes, worth: Worth) -> bool {
        let mut state = self.lock();
        if state.ended {
            return false;
        }
        while state.waiting.len() >= MOST || state.bytes + message.len() > MOST_BYTES {
            if !state.make_room() {
                return false;
            }
        }
        state.bytes += message.len();
        state.waiting.push_back((Item { message, last: false }, worth));
        state.wake();
        true
    }

    /// Adds the last message.
    pub(crate) fn finish(&self, message: Bytes) {
        let mut state = self.lock();
        if !state.ended {
            state.waiting.push_back((Item { message, last: true }, Worth::Much));
            state.ended = true;
            state.wake();
        }
    }

    /// Ends the queue.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.wake();
    }

    /// Returns `true` if the queue has a reader.
    pub(crate) fn is_read(&self) -> bool {
        self.lock().read
    }

    /// Starts to read queued and later messages.
    pub(crate) fn read(self: &Arc<Self>) -> Reading {
        let mut state = self.lock();
        state.reader += 1;
        state.read = true;
        state.wake();
        Reading { inbox: Arc::clone(self), number: state.reader }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn make_room(&mut self) -> bool {
        let oldest = self.waiting.iter().position(|(_, worth)| *worth == Worth::Little);
        let gone = oldest.and_then(|index| self.waiting.remove(index));
        if let Some((item, _)) = &gone {
            self.bytes -= item.message.len();
        }
        gone.is_some()
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Reading {
    /// Returns the next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut state = self.inbox.lock();
        if state.reader != self.number {
            return Poll::Ready(None);
        }
        if let Some((item, _)) = state.waiting.pop_front() {
            if !item.last {
                state.bytes -= item.message.len();
            }
            return Poll::Ready(Some(item));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Reading {
    /// Detaches this reader, unless a newer one has replaced it.
    pub(crate) fn leave(&self) {
        let mut state = self.inbox.lock();
        if state.reader == self.number {
            state.read = false;
            state.waker = None;
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn next(reading: &mut Reading) -> Poll<Option<Item>> {
        reading.next().now_or_never().map_or(Poll::Pending, Poll::Ready)
    }

    fn message(reading: &mut Reading) -> Bytes {
        let Poll::Ready(Some(item)) = next(reading) else { panic!("nothing waits") };
        item.message
    }

    #[test]
    fn what_is_worth_little_makes_room_and_what_is_worth_much_is_refused() {
        let inbox = Arc::new(Inbox::default());
        for number in 0..MOST {
            assert!(inbox.offer(number.to_string().into(), Worth::Little));
        }
        assert!(inbox.offer("question".into(), Worth::Much));
        let mut reading = inbox.read();
        assert_eq!(message(&mut reading), "1");
        let full = Arc::new(Inbox::default());
        for _ in 0..MOST {
            assert!(full.offer("question".into(), Worth::Much));
        }
        assert!(!full.offer("question".into(), Worth::Much));
        assert!(!full.offer("progress".into(), Worth::Little));
        full.finish("answer".into());
        let mut reading = full.read();
        let all: Vec<_> = std::iter::from_fn(|| match next(&mut reading) {
            Poll::Ready(item) => item,
            Poll::Pending => panic!("it has ended"),
        })
        .collect();
        assert_eq!(all.last(), Some(&Item { message: "answer".into(), last: true }));
        assert_eq!(all.len(), MOST + 1);
    }

    #[test]
    fn bytes_are_bounded_as_messages_are() {
        let inbox = Arc::new(Inbox::default());
        let large = Bytes::from(vec![b'x'; MOST_BYTES - 1]);
        assert!(inbox.offer(large.clone(), Worth::Little));
        assert!(inbox.offer("next".into(), Worth::Little));
        let mut reading = inbox.read();
        assert_eq!(message(&mut reading), "next");
        assert!(!inbox.offer(vec![b'x'; MOST_BYTES + 1].into(), Worth::Little));
        assert!(inbox.offer(large, Worth::Much));
    }

    #[test]
    fn a_newer_reader_ends_the_older_one() {
        let inbox = Arc::new(Inbox::default());
        let mut first = inbox.read();
        assert_eq!(next(&mut first), Poll::Pending);
        let mut second = inbox.read();
        assert_eq!(next(&mut first), Poll::Ready(None));
        drop(first);
        assert!(inbox.is_read());
        inbox.offer("message".into(), Worth::Much);
        assert_eq!(message(&mut second), "message");
        inbox.end();
        assert_eq!(next(&mut second), Poll::Ready(None));
        assert!(!inbox.offer("late".into(), Worth::Much));
    }
}
