//! From settings to providers.

use std::fmt;

use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Instrument, InstrumentKind, MeterProviderBuilder, SdkMeterProvider, Stream,
};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanProcessor, TracerProviderBuilder};

use super::Telemetry;
use super::observe::MAX_VALUES;
use crate::ids::Ids;
use crate::series::MAX_SERIES;
use crate::{Settings, SettingsError, resource};

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
    #[cfg(feature = "otlp")]
    pub(crate) failures: std::sync::Arc<std::sync::atomic::AtomicU64>,
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
            #[cfg(feature = "otlp")]
            failures: std::sync::Arc::default(),
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
        #[cfg(feature = "prometheus")]
        let (this, scrape) = self.with_scrape()?;
        #[cfg(not(feature = "prometheus"))]
        let this = self;
        let (resource, name) = resource::resource(&this.settings, &*this.environment);
        let variables = resource::variables(&this.settings, &*this.environment);
        let meter = this.meter.with_resource(resource.clone()).with_view(bounds).build();
        let tracer = this.settings.sampling.map(|ratio| {
            let root = Sampler::TraceIdRatioBased(ratio.get());
            this.tracer
                .with_resource(resource)
                .with_id_generator(Ids::default())
                .with_sampler(Sampler::ParentBased(Box::new(root)))
                .build()
        });
        let measures = this.metrics_go;
        #[cfg_attr(not(feature = "prometheus"), expect(unused_mut))]
        let mut telemetry =
            Telemetry::new(&this.settings, tracer, meter, (name, variables), measures);
        #[cfg(feature = "prometheus")]
        if let Some(inner) = std::sync::Arc::get_mut(&mut telemetry.0) {
            inner.scrape = scrape;
        }
        #[cfg(feature = "otlp")]
        telemetry.observe(&crate::names::EXPORT_FAILURES, move || {
            this.failures.load(std::sync::atomic::Ordering::Relaxed)
        });
        Ok(telemetry)
    }

    #[cfg(feature = "prometheus")]
    fn with_scrape(self) -> Result<(Self, Option<crate::Scrape>), BuildError> {
        if !self.settings.prometheus {
            return Ok((self, None));
        }
        let (scrape, reader) = crate::Scrape::new()?;
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
