//! Test support: records all spans and metrics in memory.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::trace_context::TraceContext;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};

use crate::{EndedSpan, Recorder, SpanRecorder, TelemetryOptions};

pub(crate) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) struct Fixture {
    pub(crate) recorder: Recorder,
    spans: Arc<SpanLog>,
    metrics: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

/// Span recorder with numeric ids.
#[derive(Default)]
struct SpanLog {
    samples: bool,
    number: AtomicU64,
    spans: Mutex<Vec<EndedSpan>>,
}

impl SpanRecorder for SpanLog {
    fn new_context(&self, parent: Option<&TraceContext>) -> TraceContext {
        let span = NonZero::new(self.number.fetch_add(1, Ordering::Relaxed) + 1).unwrap();
        let root = || TraceContext::root(span.into(), span, self.samples);
        parent.map_or_else(root, |parent| parent.child(span))
    }

    fn record(&self, span: EndedSpan) {
        self.spans.lock().unwrap().push(span);
    }
}

impl Fixture {
    /// Creates a fixture with legacy attributes. `samples` is the sampling decision for new traces; `None` disables
    /// tracing.
    pub(crate) fn new(samples: impl Into<Option<bool>>) -> Self {
        Self::with(samples, true)
    }

    pub(crate) fn with(samples: impl Into<Option<bool>>, legacy_attributes: bool) -> Self {
        let metrics = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(metrics.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let samples = samples.into();
        let span_log = SpanLog { samples: samples.unwrap_or_default(), ..SpanLog::default() };
        let spans = Arc::new(span_log);
        let traced: Arc<dyn SpanRecorder> = Arc::clone(&spans) as _;
        let recorder = Recorder::new(TelemetryOptions {
            server: "gateway".into(),
            meter: Some(provider.meter("tests")),
            spans: samples.map(|_| traced),
            legacy_attributes,
        });
        Self { recorder, spans, metrics, provider }
    }

    pub(crate) fn spans(&self) -> Vec<EndedSpan> {
        self.spans.spans.lock().unwrap().clone()
    }

    pub(crate) fn attribute(&self, span: &EndedSpan, key: &str) -> Option<String> {
        let _ = self;
        let found = span.attributes.iter().find(|one| one.key.as_str() == key);
        found.map(|one| one.value.to_string())
    }

    /// Returns all measurements in debug format.
    pub(crate) fn exported(&self) -> String {
        format!("{:?}", self.points())
    }

    /// Returns the label sets of a metric with their counts.
    pub(crate) fn labels(&self, metric: &str) -> Vec<(String, u64)> {
        let points = self.points().into_iter().filter(|point| point.metric == metric);
        let mut all: Vec<_> = points.map(|point| (point.labels, point.count)).collect();
        all.sort();
        all
    }

    pub(crate) fn count(&self, metric: &str) -> u64 {
        self.labels(metric).iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn sum(&self, metric: &str) -> f64 {
        let points = self.points().into_iter().filter(|point| point.metric == metric);
        points.map(|point| point.sum).sum()
    }

    pub(crate) fn gauge(&self, metric: &str) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
        let sum = self.sum(metric) as i64;
        sum
    }

    fn points(&self) -> Vec<Point> {
        self.metrics.reset();
        self.provider.force_flush().unwrap();
        let exported = self.metrics.get_finished_metrics().unwrap();
        let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
        scopes.flat_map(ScopeMetrics::metrics).flat_map(Point::of).collect()
    }
}

#[derive(Debug)]
struct Point {
    metric: String,
    labels: String,
    count: u64,
    sum: f64,
}

impl Point {
    #[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
    fn of(metric: &opentelemetry_sdk::metrics::data::Metric) -> Vec<Self> {
        let point = |labels: Vec<String>, count, sum| {
            let mut labels = labels;
            labels.sort();
            Self { metric: metric.name().to_owned(), labels: labels.join(" "), count, sum }
        };
        let text = |one: &opentelemetry::KeyValue| format!("{}={}", one.key, one.value);
        match metric.data() {
            AggregatedMetrics::F64(MetricData::Histogram(data)) => data
                .data_points()
                .map(|one| point(one.attributes().map(text).collect(), one.count(), one.sum()))
                .collect(),
            AggregatedMetrics::U64(MetricData::Sum(data)) => data
                .data_points()
                .map(|one| {
                    let sum = one.value() as f64;
                    point(one.attributes().map(text).collect(), one.value(), sum)
                })
                .collect(),
            AggregatedMetrics::U64(MetricData::Gauge(data)) => data
                .data_points()
                .map(|one| {
                    let sum = one.value() as f64;
                    point(one.attributes().map(text).collect(), one.value(), sum)
                })
                .collect(),
            AggregatedMetrics::I64(MetricData::Sum(data)) => data
                .data_points()
                .map(|one| point(one.attributes().map(text).collect(), 0, one.value() as f64))
                .collect(),
            other => panic!("{} has {other:?}", metric.name()),
        }
    }
}
