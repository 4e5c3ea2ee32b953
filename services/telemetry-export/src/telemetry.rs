//! Telemetry: the providers, built once and shut down once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use vmcp_telemetry::{ClientTelemetryLayer, Recorder, ServerTelemetryLayer, TelemetryOptions};

use crate::{Scrape, Settings};

mod build;
mod observe;

pub use self::build::{BuildError, Builder};

const SCOPE: &str = "vmcp";

/// Exporters with the layers that feed them. Clones share the exporters.
///
/// Disabled signals cost nothing: without tracing no tracer provider exists, and without metrics no
/// instrument records.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    tracer: Option<SdkTracerProvider>,
    meter: SdkMeterProvider,
    /// `true` if a reader of metrics is registered. Instruments cannot be created without one.
    has_reader: bool,
    recorder: Recorder,
    service_name: String,
    scrape: Option<Scrape>,
}

/// Error of a shutdown: not all data was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    /// The time limit elapsed. Unsent data is lost.
    #[error("failed to send pending traces and metrics within {0:?}; unsent data is lost")]
    Elapsed(Duration),
    /// The collector rejected the data.
    #[error("failed to send pending traces and metrics: {0}")]
    Failed(String),
}

impl Telemetry {
    /// Returns a builder for `settings`.
    pub fn builder(settings: Settings) -> Builder {
        Builder::new(settings)
    }

    /// Returns a telemetry without exporters. Trace context of clients is still propagated.
    #[must_use]
    pub fn disabled() -> Self {
        let recorder = Recorder::new(TelemetryOptions::default());
        Self(Arc::new(Inner {
            tracer: None,
            meter: SdkMeterProvider::default(),
            has_reader: false,
            recorder,
            service_name: String::new(),
            scrape: None,
        }))
    }

    /// Aggregates tool and prompt names in metrics from now on, for metrics whose readers may not
    /// know all names. Series with names are no longer in [`Scrape::text`]; a collector, which has them already,
    /// still gets them.
    pub fn hide_names(&self) {
        self.0.recorder.hide_names();
        if let Some(scrape) = &self.0.scrape {
            scrape.hide_names();
        }
    }

    /// Returns the layer for the gateway, outermost except for the one that catches panics.
    #[must_use]
    pub fn incoming(&self) -> ServerTelemetryLayer {
        self.0.recorder.server_layer()
    }

    /// Returns the layer for endpoints that do not speak MCP.
    #[must_use]
    pub fn endpoints(&self) -> ServerTelemetryLayer {
        self.0.recorder.endpoint_layer()
    }

    /// Returns the layer for requests to a backend, outermost.
    #[must_use]
    pub fn outgoing(&self) -> ClientTelemetryLayer {
        self.0.recorder.client_layer()
    }

    /// Returns a meter for additional metrics. [`Telemetry::observe`] is simpler where it suffices.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.0.meter.meter(SCOPE)
    }

    /// Returns a tracer for additional spans; `None` while tracing is off.
    #[must_use]
    pub fn tracer(&self) -> Option<SdkTracer> {
        self.0.tracer.as_ref().map(|provider| provider.tracer(SCOPE))
    }

    /// Returns the resolved `service.name`.
    #[must_use]
    pub fn service_name(&self) -> &str {
        &self.0.service_name
    }

    /// Returns the metrics as text; `None` unless [`Settings::prometheus`] is set.
    #[must_use]
    pub fn scrape(&self) -> Option<Scrape> {
        self.0.scrape.clone()
    }

    /// Sends pending data within `limit` and shuts down. Data that is recorded afterwards is
    /// dropped.
    ///
    /// # Errors
    /// Not all data was sent.
    pub async fn shutdown(&self, limit: Duration) -> Result<(), ShutdownError> {
        let inner = Arc::clone(&self.0);
        let (done, ended) = tokio::sync::oneshot::channel();
        // A separate thread, because the call blocks: on a thread of the runtime it would block its
        // shutdown.
        let spawned = std::thread::Builder::new().name("telemetry-end".into()).spawn(move || {
            let spans = inner.tracer.as_ref().map(|tracer| tracer.shutdown_with_timeout(limit));
            let metrics = inner.meter.shutdown_with_timeout(limit);
            _ = done.send(spans.unwrap_or(Ok(())).and(metrics));
        });
        spawned.map_err(|error| ShutdownError::Failed(error.to_string()))?;
        match tokio::time::timeout(limit, ended).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(ShutdownError::Failed(error.to_string())),
            Ok(Err(_)) | Err(_) => Err(ShutdownError::Elapsed(limit)),
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("service_name", &self.0.service_name)
            .field("traces", &self.0.tracer.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
