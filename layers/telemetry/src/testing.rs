//! What tests look at: everything that goes out, kept in memory.

use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SimpleSpanProcessor, SpanData};

use crate::{SamplingRatio, Settings, Telemetry};

pub(crate) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) struct Fixture {
    pub(crate) telemetry: Telemetry,
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
}

impl Fixture {
    pub(crate) fn settings(sampling: Option<f64>) -> Settings {
        Settings {
            sampling: sampling.map(|ratio| SamplingRatio::try_from(ratio).unwrap()),
            service_name: Some("gateway".into()),
            environment_variables: vec!["REGION".into()],
            legacy_attributes: true,
            ..Settings::default()
        }
    }

    pub(crate) fn sampling(ratio: f64) -> Self {
        Self::new(Self::settings(Some(ratio)))
    }

    pub(crate) fn new(settings: Settings) -> Self {
        let spans = InMemorySpanExporter::default();
        let metrics = InMemoryMetricExporter::default();
        let telemetry = Telemetry::builder(settings)
            .environment(|name| (name == "REGION").then(|| "north".to_owned()))
            .span_processor(SimpleSpanProcessor::new(spans.clone()))
            .metric_reader(PeriodicReader::builder(metrics.clone()).build())
            .build()
            .unwrap();
        Self { telemetry, spans, metrics }
    }

    /// One call that goes wrong, through both layers, so that each of their metrics has something.
    #[cfg(feature = "prometheus")]
    pub(crate) async fn use_all(&self) {
        use bytes::Bytes;
        use http::{Request, Response};
        use http_body_util::Full;
        use tower::ServiceExt;
        use tower_layer::Layer;
        use vmcp_core::{Backend, BoxError, Generation, McpRequest, Trail};

        use crate::Operation;

        let failing = tower::service_fn(|_: Request<Full<Bytes>>| async {
            Err::<Response<Full<Bytes>>, BoxError>("gone".into())
        });
        let outgoing = self.telemetry.outgoing().layer(failing);
        let inner = tower::service_fn(move |mut request: Request<Full<Bytes>>| {
            let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
            let bytes = Bytes::from_static(text.as_bytes());
            let envelope = vmcp_wire::scan(&bytes).unwrap();
            let generation = Generation::Stateless;
            let trail = Trail::of(request.extensions_mut());
            trail.note_message(&McpRequest { bytes, envelope, generation });
            request.extensions_mut().insert(Backend::new("meteo"));
            request.extensions_mut().insert(Operation::new("tools/call").named("t"));
            outgoing.clone().oneshot(request)
        });
        let request = Request::post("/mcp").body(Full::default()).unwrap();
        self.telemetry.incoming().layer(inner).oneshot(request).await.unwrap_err();
    }

    pub(crate) fn spans(&self) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap()
    }

    pub(crate) fn attribute(&self, span: &SpanData, key: &str) -> Option<String> {
        let _ = self;
        let found = span.attributes.iter().find(|one| one.key.as_str() == key);
        found.map(|one| one.value.to_string())
    }

    /// Everything that was measured, as it was printed.
    pub(crate) fn exported(&self) -> String {
        format!("{:?}", self.points())
    }

    /// Each set of labels of a metric and how often something was recorded for it.
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
        self.provider().force_flush().unwrap();
        let exported = self.metrics.get_finished_metrics().unwrap();
        let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
        scopes.flat_map(ScopeMetrics::metrics).flat_map(Point::of).collect()
    }

    fn provider(&self) -> SdkMeterProvider {
        self.telemetry.meter_provider()
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
