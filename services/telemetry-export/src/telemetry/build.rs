//! Builder of the providers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Instrument, InstrumentKind, MeterProviderBuilder, PeriodicReader, SdkMeterProvider, Stream,
};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, Sampler, SdkTracerProvider, SpanProcessor, TracerProviderBuilder,
};
use vmcp_telemetry::metrics::MAX_SERIES;
use vmcp_telemetry::{Recorder, SpanRecorder, TelemetryOptions};

use super::observe::MAX_VALUES;
use super::{Inner, Providers, SCOPE, Telemetry};
use crate::id_generator::PresetIdGenerator;
use crate::spans::SdkSpanRecorder;
use crate::{Scrape, Settings, SettingsError, resource};

type LookupVariable = Box<dyn Fn(&str) -> Option<String> + Send>;

/// Builder of a [`Telemetry`].
#[must_use]
pub struct Builder {
    pub(crate) settings: Settings,
    pub(crate) environment: LookupVariable,
    pub(crate) tracer: TracerProviderBuilder,
    pub(crate) meter: MeterProviderBuilder,
    /// `true` if a processor for spans is registered.
    pub(crate) has_span_processor: bool,
    /// `true` if a reader of metrics is registered.
    pub(crate) has_metric_reader: bool,
    /// Exporters to the collector. Their threads start with [`Builder::build`], so that a builder can be dropped.
    pub(crate) span_exporter: Option<SpanExporter>,
    pub(crate) metric_exporter: Option<MetricExporter>,
    pub(crate) failures: Arc<AtomicU64>,
}

/// Error of building a [`Telemetry`].
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A setting is invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A signal is enabled, but the builder has no HTTP client for the collector.
    #[error("traces and metrics need an HTTP client for the collector; call Builder::otlp")]
    MissingClient,
    /// The exporter rejected its settings, or an `OTEL_*` environment variable.
    #[error("failed to set up the exporter: {0}")]
    Exporter(String),
    /// The export needs a tokio runtime.
    #[error("telemetry must be built within a tokio runtime")]
    NoRuntime,
}

impl Builder {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            environment: Box::new(|_| None),
            tracer: SdkTracerProvider::builder(),
            meter: SdkMeterProvider::builder(),
            has_span_processor: false,
            has_metric_reader: false,
            span_exporter: None,
            metric_exporter: None,
            failures: Arc::default(),
        }
    }

    /// Sets the lookup of environment variables: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
    /// `OTEL_EXPORTER_OTLP_PROTOCOL`, and [`Settings::environment_variables`]. By default, all
    /// variables count as unset.
    pub fn environment(mut self, lookup: impl Fn(&str) -> Option<String> + Send + 'static) -> Self {
        self.environment = Box::new(lookup);
        self
    }

    /// Adds a destination for spans; unused while tracing is off.
    pub fn span_processor(mut self, processor: impl SpanProcessor + 'static) -> Self {
        self.tracer = self.tracer.with_span_processor(processor);
        self.has_span_processor = true;
        self
    }

    /// Adds a destination for metrics, independent of [`Settings::metrics`].
    pub fn metric_reader(mut self, reader: impl MetricReader) -> Self {
        self.meter = self.meter.with_reader(reader);
        self.has_metric_reader = true;
        self
    }

    /// Builds the providers and layers, and starts the threads of the exporters.
    ///
    /// # Errors
    /// A signal is enabled without an endpoint or an HTTP client.
    pub fn build(mut self) -> Result<Telemetry, BuildError> {
        if let Some(exporter) = self.span_exporter.take() {
            self = self.span_processor(BatchSpanProcessor::builder(exporter).build());
        }
        if let Some(exporter) = self.metric_exporter.take() {
            self = self.metric_reader(PeriodicReader::builder(exporter).build());
        }
        let missing_span_processor = self.settings.sampling.is_some() && !self.has_span_processor;
        let missing_metric_reader = self.settings.metrics && !self.has_metric_reader;
        if missing_span_processor || missing_metric_reader {
            return Err(match self.settings.endpoint {
                Some(_) => BuildError::MissingClient,
                None => SettingsError::MissingEndpoint.into(),
            });
        }
        let (this, scrape) = self.with_scrape()?;
        let Self {
            settings,
            environment,
            tracer,
            meter,
            has_span_processor: _,
            has_metric_reader,
            span_exporter: _,
            metric_exporter: _,
            failures,
        } = this;
        let (resource, service_name) = resource::resource(&settings, &*environment);
        let variables = resource::environment_attributes(&settings, &*environment);
        let meter = meter.with_resource(resource.clone()).with_view(limit_cardinality).build();
        let tracer = settings.sampling.map(|ratio| {
            let root = Sampler::TraceIdRatioBased(ratio.get());
            let provider = tracer
                .with_resource(resource)
                .with_id_generator(PresetIdGenerator::default())
                .with_sampler(Sampler::ParentBased(Box::new(root)))
                .build();
            (provider, ratio)
        });
        let spans = tracer.as_ref().map(|(provider, ratio)| -> Arc<dyn SpanRecorder> {
            Arc::new(SdkSpanRecorder::new(provider.tracer(SCOPE), *ratio, variables))
        });
        let recorder = Recorder::new(TelemetryOptions {
            server: service_name.clone(),
            meter: has_metric_reader.then(|| meter.meter(SCOPE)),
            spans,
            legacy_attributes: settings.legacy_attributes,
        });
        let tracer = tracer.map(|(provider, _)| provider);
        let providers = Providers { tracer, meter, is_shut_down: AtomicBool::new(false) };
        let inner =
            Inner { providers, has_reader: has_metric_reader, recorder, service_name, scrape };
        let telemetry = Telemetry(Arc::new(inner));
        telemetry.observe(&super::EXPORT_FAILURES, move || failures.load(Ordering::Relaxed));
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

/// Limits the label sets of an instrument. The SDK reserves memory for them.
fn limit_cardinality(instrument: &Instrument) -> Option<Stream> {
    let limit = match instrument.kind() {
        InstrumentKind::Counter | InstrumentKind::Histogram => MAX_SERIES,
        _ => MAX_VALUES,
    };
    Stream::builder().with_cardinality_limit(limit).build().ok()
}
