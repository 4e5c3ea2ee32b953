//! Messages of replicas, for each of their readers.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::Notify;
use vmcp_core::lock;

use crate::SessionEvent;

/// Source of a replica's messages, with a queue for each reader.
///
/// A queue has each message at most once, so it is limited by the number of sessions, and loses none.
#[derive(Debug, Default)]
pub struct SessionEvents {
    queues: Mutex<Vec<Weak<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    pending: Mutex<Pending>,
    added: Notify,
}

/// Unread messages, in order. The set has the same ones.
#[derive(Debug, Default)]
struct Pending {
    events: VecDeque<SessionEvent>,
    known: HashSet<SessionEvent>,
}

impl SessionEvents {
    /// Adds a message for all readers.
    pub fn add(&self, event: SessionEvent) {
        lock(&self.queues).retain(|queue| {
            let Some(queue) = queue.upgrade() else { return false };
            let mut pending = lock(&queue.pending);
            if pending.known.insert(event) {
                pending.events.push_back(event);
                queue.added.notify_one();
            }
            true
        });
    }

    /// Returns the messages from now on.
    #[must_use]
    pub fn subscribe(&self) -> BoxStream<'static, SessionEvent> {
        let queue = Arc::new(Queue::default());
        lock(&self.queues).push(Arc::downgrade(&queue));
        stream::unfold(queue, |queue| async move {
            let event = queue.next().await;
            Some((event, queue))
        })
        .boxed()
    }
}

impl Queue {
    async fn next(&self) -> SessionEvent {
        loop {
            if let Some(event) = self.pop() {
                return event;
            }
            // A message that was added since has left a permit.
            self.added.notified().await;
        }
    }

    fn pop(&self) -> Option<SessionEvent> {
        let mut pending = lock(&self.pending);
        let event = pending.events.pop_front()?;
        pending.known.remove(&event);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;

    #[tokio::test]
    async fn each_reader_gets_unread_message_once() {
        let events = SessionEvents::default();
        let [first, second] = [(); 2].map(|()| SessionId::random().unwrap());
        let mut readers = [events.subscribe(), events.subscribe()];
        drop(events.subscribe());
        for id in [first, second, first] {
            events.add(SessionEvent::Changed(id));
        }
        for reader in &mut readers {
            assert_eq!(reader.next().await, Some(SessionEvent::Changed(first)));
            events.add(SessionEvent::Changed(first));
            assert_eq!(reader.next().await, Some(SessionEvent::Changed(second)));
            assert_eq!(reader.next().await, Some(SessionEvent::Changed(first)));
        }
        assert_eq!(lock(&events.queues).len(), 2);
    }
}
