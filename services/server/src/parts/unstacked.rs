//! Settings of the aggregating service before the outgoing stacks are built, which need the started telemetry.

use std::time::Duration;

use http::Uri;
use vmcp_aggregate::settings::{
    Advice, BackendSettings, ServiceWrapper, Settings, Sharing, Transport,
};
use vmcp_core::Backend;
use vmcp_telemetry::ClientTelemetryLayer;
use vmcp_telemetry_export::Telemetry;

use crate::stack::{self, OutgoingLayers};

/// Settings of the aggregating service without outgoing stacks.
#[derive(Clone, Debug)]
pub struct PendingSettings {
    /// Settings without backends.
    pub(super) settings: Settings,
    pub(super) backends: Vec<PendingBackend>,
}

/// Backend without its outgoing stack.
#[derive(Clone, Debug)]
pub(super) struct PendingBackend {
    pub(super) backend: Backend,
    pub(super) uri: Uri,
    pub(super) transport: Transport,
    pub(super) catalog: Sharing,
    pub(super) advice: Advice,
    pub(super) message_timeout: Duration,
    pub(super) fingerprint: u64,
    pub(super) service_revision: u64,
    pub(super) outgoing: OutgoingLayers,
}

impl PendingSettings {
    /// Returns the settings with complete stacks. They report to `telemetry`, if enabled.
    #[must_use]
    pub fn with_stacks(self, telemetry: Option<&Telemetry>) -> Settings {
        let Self { settings, backends } = self;
        let with_stacks =
            |backend: PendingBackend| backend.with_stacks(telemetry.map(Telemetry::outgoing));
        Settings { backends: backends.into_iter().map(with_stacks).collect(), ..settings }
    }
}

impl PendingBackend {
    fn with_stacks(self, telemetry: Option<ClientTelemetryLayer>) -> BackendSettings {
        let Self {
            backend,
            uri,
            transport,
            catalog,
            advice,
            message_timeout,
            fingerprint,
            service_revision,
            outgoing,
        } = self;
        let breaker = outgoing.breaker.clone();
        let (telemetry, around) = match (transport, telemetry) {
            // In HTTP+SSE, the response to a POST does not carry the result, which arrives on the stream.
            (Transport::Sse, Some(layer)) => {
                let around = move |service| stack::with_client_telemetry(service, layer.clone());
                (None, ServiceWrapper::new(around))
            }
            (_, telemetry) => (telemetry, ServiceWrapper::default()),
        };
        // The circuit breaker is around the stream instead, where results are seen.
        let inner = breaker.clone().filter(|_| transport != Transport::Sse);
        let service = OutgoingLayers { telemetry, breaker: inner, ..outgoing }.stack();
        BackendSettings {
            backend,
            uri,
            transport,
            catalog,
            service,
            around,
            breaker,
            advice,
            message_timeout,
            fingerprint,
            service_revision,
        }
    }
}
