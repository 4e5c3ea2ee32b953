//! From settings to providers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Instrument, InstrumentKind, MeterProviderBuilder, SdkMeterProvider, Stream,
};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanProcessor, TracerProviderBuilder};
use vmcp_metrics::{MAX_SERIES, names};
use vmcp_telemetry::{Options, Recorder, Spans};

use super::observe::MAX_VALUES;
use super::{Inner, SCOPE, Telemetry};
use crate::ids::Ids;
use crate::spans::Tracing;
use crate::{Scrape, Settings, SettingsError, resource};

type LookUp = Box<dyn Fn(&str) -> Option<String> + Send>;

/// Builds a [`Telemetry`].
#[must_use]
pub struct Builder {
    pub(crate) settings: Settings,
    pub(crate) environment: LookUp,
    pub(crate) tracer: TracerProviderBuilder,
    pub(crate) meter: MeterProviderBuilder,
    /// Whether spans have somewhere to go.
    pub(crate) spans_go: bool,
    /// Whether metrics have.
    pub(crate) metrics_go: bool,
    pub(crate) failures: Arc<AtomicU64>,
}

/// Why there is no [`Telemetry`].
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Something is to be sent, and no client was given to send it with.
    #[error("traces or metrics are to be sent to the collector, but there is no client for it")]
    NoClient,
    /// The exporter does not take its settings, or a variable `OTEL_*` of the environment.
    #[error("the exporter: {0}")]
    Exporter(String),
    /// Sending needs a tokio runtime.
    #[error("telemetry has to be built within a tokio runtime")]
    NoRuntime,
}

impl Builder {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            environment: Box::new(|_| None),
            tracer: SdkTracerProvider::builder(),
            meter: SdkMeterProvider::builder(),
            spans_go: false,
            metrics_go: false,
            failures: Arc::default(),
        }
    }

    /// Where variables are looked up: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
    /// `OTEL_EXPORTER_OTLP_PROTOCOL`, and [`Settings::environment_variables`]. Without this they
    /// count as not set.
    pub fn environment(
        mut self,
        look_up: impl Fn(&str) -> Option<String> + Send + 'static,
    ) -> Self {
        self.environment = Box::new(look_up);
        self
    }

    /// Another destination for spans; nothing goes there while tracing is off.
    pub fn span_processor(mut self, processor: impl SpanProcessor + 'static) -> Self {
        self.tracer = self.tracer.with_span_processor(processor);
        self.spans_go = true;
        self
    }

    /// Another destination for metrics, whatever [`Settings::metrics`] says.
    pub fn metric_reader(mut self, reader: impl MetricReader) -> Self {
        self.meter = self.meter.with_reader(reader);
        self.metrics_go = true;
        self
    }

    /// The providers and layers.
    ///
    /// # Errors
    /// Something is to be sent, and there is no endpoint or no client.
    pub fn build(self) -> Result<Telemetry, BuildError> {
        let wants_spans = self.settings.sampling.is_some() && !self.spans_go;
        let wants_metrics = self.settings.metrics && !self.metrics_go;
        if wants_spans || wants_metrics {
            return Err(match self.settings.endpoint {
                Some(_) => BuildError::NoClient,
                None => SettingsError::NoEndpoint.into(),
            });
        }
        let (this, scrape) = self.with_scrape()?;
        let Self { settings, environment, tracer, meter, spans_go: _, metrics_go, failures } = this;
        let (resource, service_name) = resource::resource(&settings, &*environment);
        let variables = resource::variables(&settings, &*environment);
        let meter = meter.with_resource(resource.clone()).with_view(bounds).build();
        let tracer = settings.sampling.map(|ratio| {
            let root = Sampler::TraceIdRatioBased(ratio.get());
            let provider = tracer
                .with_resource(resource)
                .with_id_generator(Ids::default())
                .with_sampler(Sampler::ParentBased(Box::new(root)))
                .build();
            (provider, ratio)
        });
        let spans = tracer.as_ref().map(|(provider, ratio)| -> Arc<dyn Spans> {
            Arc::new(Tracing::new(provider.tracer(SCOPE), *ratio, variables))
        });
        let recorder = Recorder::new(Options {
            server: service_name.clone(),
            meter: metrics_go.then(|| meter.meter(SCOPE)),
            spans,
            legacy_attributes: settings.legacy_attributes,
        });
        let tracer = tracer.map(|(provider, _)| provider);
        let inner = Inner { tracer, meter, is_read: metrics_go, recorder, service_name, scrape };
        let telemetry = Telemetry(Arc::new(inner));
        telemetry.observe(&names::EXPORT_FAILURES, move || failures.load(Ordering::Relaxed));
        Ok(telemetry)
    }

    fn with_scrape(self) -> Result<(Self, Option<Scrape>), BuildError> {
        if !self.settings.prometheus {
            return Ok((self, None));
        }
        let (scrape, reader) = Scrape::new()?;
        Ok((self.metric_reader(reader), Some(scrape)))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How many sets of labels each instrument may have. Room for them is set aside.
fn bounds(instrument: &Instrument) -> Option<Stream> {
    let most = match instrument.kind() {
        InstrumentKind::Counter | InstrumentKind::Histogram => MAX_SERIES,
        _ => MAX_VALUES,
    };
    Stream::builder().with_cardinality_limit(most).build().ok()
}
