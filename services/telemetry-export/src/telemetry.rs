//! The providers, built once and shut down once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use vmcp_telemetry::{IncomingLayer, Options, OutgoingLayer, Recorder};

use crate::{Scrape, Settings};

mod build;
mod observe;

pub use self::build::{BuildError, Builder};

const SCOPE: &str = "vmcp";

/// Where spans and metrics go. A clone is the same.
///
/// What is switched off costs nothing: while tracing is off there is no tracer provider, and without
/// metrics no instrument records.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    tracer: Option<SdkTracerProvider>,
    meter: SdkMeterProvider,
    /// Whether anything reads metrics. Without it, instruments cannot be made.
    has_reader: bool,
    recorder: Recorder,
    service_name: String,
    scrape: Option<Scrape>,
}

/// Why not everything was sent before the end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    /// The time was over. What was not sent is lost.
    #[error("traces and metrics could not be sent within {0:?}: the rest is lost")]
    Elapsed(Duration),
    /// The collector did not take it.
    #[error("traces and metrics could not be sent: {0}")]
    Failed(String),
}

impl Telemetry {
    /// Begins to build what `settings` ask for.
    pub fn builder(settings: Settings) -> Builder {
        Builder::new(settings)
    }

    /// Nothing is measured or recorded; traces of clients are still passed on.
    #[must_use]
    pub fn disabled() -> Self {
        let recorder = Recorder::new(Options::default());
        Self(Arc::new(Inner {
            tracer: None,
            meter: SdkMeterProvider::default(),
            has_reader: false,
            recorder,
            service_name: String::new(),
            scrape: None,
        }))
    }

    /// Has names of tools and prompts summed up in metrics from now on: for metrics that more people read than may know
    /// all names.
    pub fn hide_names(&self) {
        self.0.recorder.hide_names();
    }

    /// Around the gateway, outermost but for what catches panics.
    #[must_use]
    pub fn incoming(&self) -> IncomingLayer {
        self.0.recorder.incoming()
    }

    /// Around endpoints that do not speak MCP.
    #[must_use]
    pub fn endpoints(&self) -> IncomingLayer {
        self.0.recorder.endpoints()
    }

    /// Around the way to a backend, outermost.
    #[must_use]
    pub fn outgoing(&self) -> OutgoingLayer {
        self.0.recorder.outgoing()
    }

    /// For metrics of one's own. [`Telemetry::observe`] is simpler where it suffices.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.0.meter.meter(SCOPE)
    }

    /// For spans of one's own; `None` while tracing is off.
    #[must_use]
    pub fn tracer(&self) -> Option<SdkTracer> {
        self.0.tracer.as_ref().map(|provider| provider.tracer(SCOPE))
    }

    /// `service.name`, as it was resolved.
    #[must_use]
    pub fn service_name(&self) -> &str {
        &self.0.service_name
    }

    /// The metrics as text; `None` unless [`Settings::prometheus`] is set.
    #[must_use]
    pub fn scrape(&self) -> Option<Scrape> {
        self.0.scrape.clone()
    }

    /// Sends what is left, for at most `limit`, and ends. What is recorded afterwards is dropped.
    ///
    /// # Errors
    /// Not everything could be sent.
    pub async fn shutdown(&self, limit: Duration) -> Result<(), ShutdownError> {
        let inner = Arc::clone(&self.0);
        let (done, ended) = tokio::sync::oneshot::channel();
        // A thread of its own, since it blocks: one of the runtime's would keep that from ending.
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
