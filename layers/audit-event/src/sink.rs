//! What takes the events.

use std::pin::Pin;

use crate::Event;

/// Takes events: a log, a queue, a test. A closure `Fn(Event)` is one.
///
/// What events hold of requests and answers has its secrets still ([`PayloadExcerpt`](crate::Data)).
pub trait AuditSink: Send + Sync + 'static {
    /// Takes an event. Called while requests are under way: it must not wait.
    fn record(&self, event: Event);

    /// What an answer has to wait for before it goes out, so that its event is not lost. `None`: for
    /// nothing.
    fn reserve(&self) -> Option<Capacity> {
        None
    }
}

/// Is over when there is room for another event.
pub type Capacity = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Fn(Event) + Send + Sync + 'static> AuditSink for F {
    fn record(&self, event: Event) {
        self(event);
    }
}
