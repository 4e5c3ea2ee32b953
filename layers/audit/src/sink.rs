//! Receivers of events.

use std::pin::Pin;

use crate::Event;

/// Receiver of events: a log, a queue, a test. Implemented by closures `Fn(Event)`.
///
/// Events contain unredacted excerpts of requests and responses ([`PayloadExcerpt`](crate::PayloadExcerpt)).
pub trait AuditSink: Send + Sync + 'static {
    /// Records an event. Called while requests are in flight: must not block.
    fn record(&self, event: Event);

    /// Returns a future that a response must await, so that its event is not lost; `None` if there is capacity.
    fn reserve(&self) -> Option<Capacity> {
        None
    }
}

/// Future that resolves when there is capacity for another event.
pub type Capacity = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Fn(Event) + Send + Sync + 'static> AuditSink for F {
    fn record(&self, event: Event) {
        self(event);
    }
}
