//! The settings of the aggregating service before the outgoing stacks are put together: what measures in them
//! is there only when it has been started.

use std::time::Duration;

use http::Uri;
use vmcp_aggregate::settings::{Advice, Around, BackendSettings, Settings, Sharing, Transport};
use vmcp_core::Backend;
use vmcp_telemetry::ClientTelemetryLayer;
use vmcp_telemetry_export::Telemetry;

use crate::stack::{self, Outgoing};

/// See the module.
#[derive(Clone, Debug)]
pub struct Unstacked {
    /// Without backends.
    pub(super) settings: Settings,
    pub(super) backends: Vec<Unreached>,
}

/// A backend without what reaches it.
#[derive(Clone, Debug)]
pub(super) struct Unreached {
    pub(super) backend: Backend,
    pub(super) uri: Uri,
    pub(super) transport: Transport,
    pub(super) catalog: Sharing,
    pub(super) advice: Advice,
    pub(super) answer_within: Duration,
    pub(super) fingerprint: u64,
    pub(super) tuning: u64,
    pub(super) outgoing: Outgoing,
}

impl Unstacked {
    /// The settings, with stacks in which `telemetry` measures, if anything does.
    #[must_use]
    pub fn stacked(self, telemetry: Option<&Telemetry>) -> Settings {
        let Self { settings, backends } = self;
        let stacked = |backend: Unreached| backend.stacked(telemetry.map(Telemetry::outgoing));
        Settings { backends: backends.into_iter().map(stacked).collect(), ..settings }
    }
}

impl Unreached {
    fn stacked(self, telemetry: Option<ClientTelemetryLayer>) -> BackendSettings {
        let Self {
            backend,
            uri,
            transport,
            catalog,
            advice,
            answer_within,
            fingerprint,
            tuning,
            outgoing,
        } = self;
        let breaker = outgoing.breaker.clone();
        let (telemetry, around) = match (transport, telemetry) {
            // A post of HTTP+SSE says nothing of the answer, which comes by the stream.
            (Transport::Sse, Some(layer)) => {
                let around = move |service| stack::measured(service, layer.clone());
                (None, Around::new(around))
            }
            (_, telemetry) => (telemetry, Around::default()),
        };
        // Nor does it say anything to the circuit, which stands where the answers are seen.
        let inner = breaker.clone().filter(|_| transport != Transport::Sse);
        let service = Outgoing { telemetry, breaker: inner, ..outgoing }.stack();
        BackendSettings {
            backend,
            uri,
            transport,
            catalog,
            service,
            around,
            breaker,
            advice,
            answer_within,
            fingerprint,
            tuning,
        }
    }
}
