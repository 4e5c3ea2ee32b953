//! Audit settings, and the filter in front of the sink.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use vmcp_core::Clock;

use crate::{AuditSink, Capacity, Event, EventFilter, EventSource, EventType, source};

/// Upper bound of [`AuditSettings::max_data_size`].
pub const MAX_DATA_SIZE: usize = 1 << 20;

/// Audit settings.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Types of events to record.
    pub events: EventFilter,
    /// Detects errors in the first bytes of 2xx responses.
    pub detect_application_errors: bool,
    /// Includes an excerpt of the request in events.
    pub include_request_data: bool,
    /// Includes an excerpt of the response in events.
    pub include_response_data: bool,
    /// Maximum size of an excerpt in bytes; at most 1 MiB.
    pub max_data_size: usize,
    /// Number of trusted reverse proxies; selects the client address from `X-Forwarded-For`. With 0 the header is
    /// ignored; with 1 its last address is the client's.
    pub trusted_proxies: usize,
}

/// Passes selected events to an [`AuditSink`]. Clones share the sink.
#[derive(Clone, Debug)]
pub struct Auditor(Arc<Inner>);

struct Inner {
    sink: Box<dyn AuditSink>,
    settings: AuditSettings,
    clock: Clock,
}

// === impl AuditSettings ===

impl Default for AuditSettings {
    /// All events, errors detected, no excerpts (1,024 bytes if enabled), no trusted proxy.
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
    /// Creates an auditor that passes events to `sink`.
    pub fn new(settings: AuditSettings, sink: impl AuditSink) -> Self {
        Self::with_clock(settings, sink, Clock::system())
    }

    /// Like [`new`](Self::new), with a clock for the times of events.
    pub fn with_clock(mut settings: AuditSettings, sink: impl AuditSink, clock: Clock) -> Self {
        settings.max_data_size = settings.max_data_size.min(MAX_DATA_SIZE);
        Self(Arc::new(Inner { sink: Box::new(sink), settings, clock }))
    }

    /// Returns `true` if events of this type are recorded. Check this before building an expensive event.
    #[must_use]
    pub fn is_enabled(&self, kind: EventType) -> bool {
        self.0.settings.events.contains(kind)
    }

    /// Returns the current time, for [`Event::new`].
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.0.clock.now()
    }

    /// Records an event without blocking. Drops the event if its type is not selected, and the excerpts that are
    /// disabled.
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

    /// Returns the origin of a request, as the layer records it.
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
