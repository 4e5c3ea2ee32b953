//! Which events are made, and how much is in them.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use vmcp_core::Clock;

use crate::{AuditSink, Capacity, Event, EventFilter, EventSource, EventType, source};

/// The most that is taken of one request or answer, whatever the settings say.
pub const MAX_DATA_SIZE: usize = 1 << 20;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Which events.
    pub events: EventFilter,
    /// Whether the beginning of a 2xx answer is searched for an error.
    pub detect_application_errors: bool,
    /// Whether events hold what was asked.
    pub include_request_data: bool,
    /// Whether events hold what was answered.
    pub include_response_data: bool,
    /// The most bytes of one request or answer that are recorded; more than 1 MiB counts as 1 MiB.
    pub max_data_size: usize,
    /// How many proxies in front are trusted to have added themselves to `X-Forwarded-For`. With 0 the
    /// header means nothing; with 1, its last address is the client's.
    pub trusted_proxies: usize,
}

/// Hands those events that are wanted to a [`AuditSink`]. A clone is the same auditor.
#[derive(Clone, Debug)]
pub struct Auditor(Arc<Inner>);

struct Inner {
    sink: Box<dyn AuditSink>,
    settings: AuditSettings,
    clock: Clock,
}

// === impl Settings ===

impl Default for AuditSettings {
    /// All events, errors detected, no data, 1,024 bytes of it if there were any, no trusted proxy.
    fn default() -> Self {
        Self {
            events: EventFilter::ALL,
            detect_application_errors: true,
            include_request_data: false,
            include_response_data: false,
            max_data_size: 1024,
            trusted_proxies: 0,
        }
    }
}

// === impl Auditor ===

impl Auditor {
    /// An auditor that hands events to `record`.
    pub fn new(settings: AuditSettings, sink: impl AuditSink) -> Self {
        Self::with_clock(settings, sink, Clock::system())
    }

    /// [`new`](Self::new) with another clock for the time of events.
    pub fn with_clock(mut settings: AuditSettings, sink: impl AuditSink, clock: Clock) -> Self {
        settings.max_data_size = settings.max_data_size.min(MAX_DATA_SIZE);
        Self(Arc::new(Inner { sink: Box::new(sink), settings, clock }))
    }

    /// Whether events of this type are recorded: to be asked before one is put together.
    #[must_use]
    pub fn is_enabled(&self, kind: EventType) -> bool {
        self.0.settings.events.contains(kind)
    }

    /// Now, for [`Event::new`].
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.0.clock.now()
    }

    /// Takes an event, without waiting. One that is not wanted is passed over, and data that is not
    /// wanted is left out.
    pub fn record(&self, mut event: Event) {
        if !self.is_enabled(event.kind) {
            return;
        }
        let settings = self.settings();
        for (data, is_included) in [
            (&mut event.request, settings.include_request_data),
            (&mut event.response, settings.include_response_data),
        ] {
            *data = data
                .take()
                .filter(|_| is_included)
                .map(|data| data.truncate(settings.max_data_size));
        }
        self.0.sink.record(event);
    }

    /// Where a request came from, as the layer sees it.
    #[must_use]
    pub fn source<B>(&self, request: &http::Request<B>) -> EventSource {
        source::from_request(request, self.settings().trusted_proxies)
    }

    pub(crate) fn settings(&self) -> &AuditSettings {
        &self.0.settings
    }

    pub(crate) fn reserve(&self) -> Option<Capacity> {
        self.0.sink.reserve()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}
