//! Bounded queues of messages with one reader.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use vmcp_core::lock;

/// Maximum number of queued messages.
const MAX_QUEUED_MESSAGES: usize = 64;

/// Maximum number of bytes in queued messages, not counting the last one.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// Bounded message queue with one reader.
#[derive(Debug, Default)]
pub(crate) struct MessageQueue(Mutex<State>);

/// Queued message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedMessage {
    pub(crate) message: Bytes,
    /// `true` if no message follows.
    pub(crate) last: bool,
}

/// Handling of a message when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The oldest message of this priority is dropped.
    Droppable,
    /// The new message is rejected.
    Required,
}

/// Reader of a queue. A second reader ends the first.
#[derive(Debug)]
pub(crate) struct QueueReader {
    queue: Arc<MessageQueue>,
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<(QueuedMessage, Priority)>,
    bytes: usize,
    ended: bool,
    reader: u64,
    read: bool,
    waker: Option<Waker>,
}

impl MessageQueue {
    /// Adds a message. Returns `false` if the queue is full or has ended.
    pub(crate) fn enqueue(&self, message: Bytes, priority: Priority) -> bool {
        let mut state = self.lock();
        if state.ended {
            return false;
        }
        while state.pending.len() >= MAX_QUEUED_MESSAGES
            || state.bytes + message.len() > MAX_QUEUED_BYTES
        {
            if !state.evict() {
                return false;
            }
        }
        state.bytes += message.len();
        state.pending.push_back((QueuedMessage { message, last: false }, priority));
        state.wake();
        true
    }

    /// Adds the last message.
    pub(crate) fn finish(&self, message: Bytes) {
        let mut state = self.lock();
        if !state.ended {
            state.pending.push_back((QueuedMessage { message, last: true }, Priority::Required));
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
    pub(crate) fn read(self: &Arc<Self>) -> QueueReader {
        let mut state = self.lock();
        state.reader += 1;
        state.read = true;
        state.wake();
        QueueReader { queue: Arc::clone(self), number: state.reader }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    fn evict(&mut self) -> bool {
        let oldest = self.pending.iter().position(|(_, priority)| *priority == Priority::Droppable);
        let gone = oldest.and_then(|index| self.pending.remove(index));
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

impl QueueReader {
    /// Returns the next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<QueuedMessage> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<QueuedMessage>> {
        let mut state = self.queue.lock();
        if state.reader != self.number {
            return Poll::Ready(None);
        }
        if let Some((item, _)) = state.pending.pop_front() {
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

impl QueueReader {
    /// Detaches this reader, unless a newer one has replaced it.
    pub(crate) fn leave(&self) {
        let mut state = self.queue.lock();
        if state.reader == self.number {
            state.read = false;
            state.waker = None;
        }
    }
}

impl Drop for QueueReader {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn next(reading: &mut QueueReader) -> Poll<Option<QueuedMessage>> {
        reading.next().now_or_never().map_or(Poll::Pending, Poll::Ready)
    }

    fn message(reading: &mut QueueReader) -> Bytes {
        let Poll::Ready(Some(item)) = next(reading) else { panic!("nothing waits") };
        item.message
    }

    #[test]
    fn evicts_droppable_and_rejects_required_messages_when_full() {
        let queue = Arc::new(MessageQueue::default());
        for number in 0..MAX_QUEUED_MESSAGES {
            assert!(queue.enqueue(number.to_string().into(), Priority::Droppable));
        }
        assert!(queue.enqueue("question".into(), Priority::Required));
        let mut reading = queue.read();
        assert_eq!(message(&mut reading), "1");
        let full = Arc::new(MessageQueue::default());
        for _ in 0..MAX_QUEUED_MESSAGES {
            assert!(full.enqueue("question".into(), Priority::Required));
        }
        assert!(!full.enqueue("question".into(), Priority::Required));
        assert!(!full.enqueue("progress".into(), Priority::Droppable));
        full.finish("answer".into());
        let mut reading = full.read();
        let all: Vec<_> = std::iter::from_fn(|| match next(&mut reading) {
            Poll::Ready(item) => item,
            Poll::Pending => panic!("it has ended"),
        })
        .collect();
        assert_eq!(all.last(), Some(&QueuedMessage { message: "answer".into(), last: true }));
        assert_eq!(all.len(), MAX_QUEUED_MESSAGES + 1);
    }

    #[test]
    fn limits_queued_bytes() {
        let queue = Arc::new(MessageQueue::default());
        let large = Bytes::from(vec![b'x'; MAX_QUEUED_BYTES - 1]);
        assert!(queue.enqueue(large.clone(), Priority::Droppable));
        assert!(queue.enqueue("next".into(), Priority::Droppable));
        let mut reading = queue.read();
        assert_eq!(message(&mut reading), "next");
        assert!(!queue.enqueue(vec![b'x'; MAX_QUEUED_BYTES + 1].into(), Priority::Droppable));
        assert!(queue.enqueue(large, Priority::Required));
    }

    #[test]
    fn newer_reader_ends_older_reader() {
        let queue = Arc::new(MessageQueue::default());
        let mut first = queue.read();
        assert_eq!(next(&mut first), Poll::Pending);
        let mut second = queue.read();
        assert_eq!(next(&mut first), Poll::Ready(None));
        drop(first);
        assert!(queue.is_read());
        queue.enqueue("message".into(), Priority::Required);
        assert_eq!(message(&mut second), "message");
        queue.end();
        assert_eq!(next(&mut second), Poll::Ready(None));
        assert!(!queue.enqueue("late".into(), Priority::Required));
    }
}
