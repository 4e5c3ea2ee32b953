//! Where events are given to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tokio::sync::oneshot;
use vmcp_core::Clock;

use crate::event::Event;
use crate::queue::Queue;
use crate::writer::Writer;
use crate::{EventType, Selection, Sink};

/// The most that is taken of one request or answer, whatever the settings say.
const MAX_DATA: usize = 1 << 20;

/// What is written, and how much may wait to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `component` of the events; `None` is `vmcp-server` for requests and `vmcp-composer` for what the
    /// gateway does itself.
    pub component: Option<Box<str>>,
    /// Which events are written.
    pub events: Selection,
    /// Whether the beginning of a 2xx answer is searched for an error.
    pub detect_application_errors: bool,
    /// Whether requests are recorded, without their secrets.
    pub include_request_data: bool,
    /// Whether answers are recorded, without their secrets.
    pub include_response_data: bool,
    /// The most bytes of one request or answer that are recorded; more than 1 MiB counts as 1 MiB.
    pub max_data_size: usize,
    /// What happens when the writer does not keep up.
    pub overflow: Overflow,
    /// The most bytes of events that may wait for the writer. An event takes about one KiB and its data.
    pub queue_bytes: usize,
    /// How many proxies in front are trusted to have added themselves to `X-Forwarded-For`. With 0 the
    /// header means nothing; with 1, its last address is the client's.
    pub trusted_proxies: usize,
}

/// What happens when events come faster than they can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Events are dropped and counted; so are those of a failed write. No request ever waits.
    #[default]
    Drop,
    /// Answers wait until there is room, and lines that could not be written are tried again each second:
    /// while the disk is full, nothing is answered. Calls that nobody waits for cannot be held up; beyond
    /// twice the queue, their events are dropped and counted.
    Wait,
}

/// Takes events and hands them to the [`Writer`]. A clone is the same auditor.
#[derive(Clone, Debug)]
pub struct Auditor(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    queue: Arc<Queue>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
}

/// What became of the events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Written.
    pub written: u64,
    /// Never tried to be written: the queue was full, or the writer was gone.
    pub dropped: u64,
    /// Lost because writing failed.
    pub failed: u64,
}

// === impl Settings ===

impl Default for Settings {
    /// All events, errors detected, no data, 1,024 bytes of it if there were any, 16 MiB of queue that
    /// drops, no trusted proxy.
    fn default() -> Self {
        Self {
            component: None,
            events: Selection::ALL,
            detect_application_errors: true,
            include_request_data: false,
            include_response_data: false,
            max_data_size: 1024,
            overflow: Overflow::Drop,
            queue_bytes: 16 << 20,
            trusted_proxies: 0,
        }
    }
}

// === impl Auditor ===

impl Auditor {
    /// An auditor, and the writer that has to [run](Writer::run) for anything to be written to `sink`.
    pub fn new<S: Sink>(settings: Settings, sink: S) -> (Self, Writer<S>) {
        Self::with_clock(settings, sink, Clock::system())
    }

    /// [`new`](Self::new) with another clock for `logged_at`.
    pub fn with_clock<S: Sink>(mut settings: Settings, sink: S, clock: Clock) -> (Self, Writer<S>) {
        settings.max_data_size = settings.max_data_size.min(MAX_DATA);
        let queue = Arc::new(Queue::new(settings.queue_bytes));
        let writer = Writer::new(
            queue.clone(),
            settings.overflow,
            settings.component.clone(),
            settings.max_data_size,
            sink,
        );
        (Self(Arc::new(Shared { queue, settings, clock })), writer)
    }

    /// Whether events of this type are written: to be asked before one is put together.
    #[must_use]
    pub fn wants(&self, kind: EventType) -> bool {
        self.0.settings.events.contains(kind)
    }

    /// Now, for [`Event::new`].
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.0.clock.now()
    }

    /// Takes an event, without waiting. One that is not wanted is passed over.
    pub fn record(&self, mut event: Event) {
        let Settings {
            component: _,
            events,
            detect_application_errors: _,
            include_request_data,
            include_response_data,
            max_data_size,
            overflow,
            queue_bytes: _,
            trusted_proxies: _,
        } = &self.0.settings;
        if !events.contains(event.kind) {
            return;
        }
        for (data, wanted) in [
            (&mut event.request, *include_request_data),
            (&mut event.response, *include_response_data),
        ] {
            if !wanted {
                *data = None;
            } else if let Some(data) = data
                && data.start.len() > *max_data_size
            {
                data.start.truncate(*max_data_size);
                data.start.shrink_to_fit();
                data.cut = true;
            }
        }
        let slack = match overflow {
            Overflow::Drop => 1,
            Overflow::Wait => 2,
        };
        self.0.queue.push(event, slack);
    }

    /// Opens the log anew before the next line: somebody has renamed the file. A failure is logged, and
    /// writing goes on to the old one.
    pub fn reopen(&self) {
        self.0.queue.order(|orders| orders.reopen = true);
    }

    /// Waits until the events so far are written, or have failed to be.
    pub async fn flush(&self) {
        let (flushed, done) = oneshot::channel();
        self.0.queue.order(|orders| orders.flushed.push(flushed));
        // The sender says nothing; it is dropped.
        _ = done.await;
    }

    /// Takes no more events. [`Writer::run`] ends when what is here is written.
    pub fn close(&self) {
        self.0.queue.order(|orders| orders.close = true);
    }

    /// What became of the events so far, for metrics.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Queue { written, dropped, failed, .. } = &*self.0.queue;
        Counts { written: get(written), dropped: get(dropped), failed: get(failed) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// What an answer has to wait for before it goes out, if it has to.
    pub(crate) fn room(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        if self.0.settings.overflow == Overflow::Drop || self.0.queue.has_room() {
            return None;
        }
        let queue = self.0.queue.clone();
        Some(async move { queue.room().await })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.order(|orders| orders.close = true);
    }
}
