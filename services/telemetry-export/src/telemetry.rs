//! Telemetry: the providers, built once and shut down once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::sync::oneshot;
use vmcp_telemetry::{ClientTelemetryLayer, Recorder, ServerTelemetryLayer, TelemetryOptions};

use crate::{Scrape, Settings};

mod build;
mod observe;

pub use self::build::{BuildError, Builder};
pub use self::observe::{EXPORT_FAILURES, METRICS};

const SCOPE: &str = "vmcp";

/// Time limit to send pending data after the last clone is dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// Exporters with the layers that feed them. Clones share the exporters. When the last one is dropped, pending data is sent
/// in the background.
///
/// Disabled signals cost nothing: without tracing no tracer provider exists, and without metrics no
/// instrument records.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    providers: Providers,
    /// `true` if a reader of metrics is registered. Instruments cannot be created without one.
    has_reader: bool,
    recorder: Recorder,
    service_name: String,
    scrape: Option<Scrape>,
}

/// Providers of the SDK. Dropping the last clone of a provider sends pending data and waits up to 5 s for the collector, so
/// that a shutdown always runs on a thread of its own.
struct Providers {
    /// `None` without tracing.
    tracer: Option<SdkTracerProvider>,
    meter: SdkMeterProvider,
    /// Set once, by the first shutdown. Relaxed: it guards no other memory.
    is_shut_down: AtomicBool,
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
        let meter = SdkMeterProvider::default();
        let providers = Providers { tracer: None, meter, is_shut_down: AtomicBool::new(false) };
        Self(Arc::new(Inner {
            providers,
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
        self.0.providers.meter.meter(SCOPE)
    }

    /// Returns a tracer for additional spans; `None` while tracing is off.
    #[must_use]
    pub fn tracer(&self) -> Option<SdkTracer> {
        self.0.providers.tracer.as_ref().map(|provider| provider.tracer(SCOPE))
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
        let ended = self.0.providers.shutdown(limit);
        let ended = ended.map_err(|error| ShutdownError::Failed(error.to_string()))?;
        match tokio::time::timeout(limit, ended).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(ShutdownError::Failed(error.to_string())),
            Ok(Err(_)) | Err(_) => Err(ShutdownError::Elapsed(limit)),
        }
    }
}

impl Providers {
    /// Shuts down on a thread of its own, because the call blocks: a thread of the runtime could not run the tasks that the
    /// exporters wait for. Returns a channel for the outcome.
    fn shutdown(&self, limit: Duration) -> io::Result<oneshot::Receiver<OTelSdkResult>> {
        self.is_shut_down.store(true, Ordering::Relaxed);
        let (tracer, meter) = (self.tracer.clone(), self.meter.clone());
        let (done, ended) = oneshot::channel();
        std::thread::Builder::new().name("telemetry-end".into()).spawn(move || {
            let spans = tracer.map_or(Ok(()), |tracer| tracer.shutdown_with_timeout(limit));
            let metrics = meter.shutdown_with_timeout(limit);
            // The receiver is gone if the time limit has elapsed or if no task waits.
            _ = done.send(spans.and(metrics));
        })?;
        Ok(ended)
    }
}

impl Drop for Providers {
    fn drop(&mut self) {
        if !self.is_shut_down.load(Ordering::Relaxed) {
            // Without a thread, the providers shut down on this one as the SDK drops them.
            _ = self.shutdown(DROP_TIMEOUT);
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("service_name", &self.0.service_name)
            .field("traces", &self.0.providers.tracer.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
