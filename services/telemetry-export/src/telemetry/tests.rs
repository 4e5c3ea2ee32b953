use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, InMemorySpanExporter, SimpleSpanProcessor, SpanData, SpanExporter,
    SpanProcessor,
};
use tower::ServiceExt;
use tower_layer::Layer;
use vmcp_core::{Backend, BoxError, Generation, McpOperation, McpRequest, RequestContext};
use vmcp_telemetry::metrics::names::{self, Metric, MetricKind};
use vmcp_telemetry::metrics::{RunOutcome, StepOutcome};
use vmcp_telemetry::workflow::RunObserver;

use super::*;
use crate::{Endpoint, SamplingRatio, SettingsError};

const OPEN_FILES: Metric = Metric {
    name: "mine_open_files",
    kind: MetricKind::Gauge,
    unit: "",
    description: "Open files.",
};

const LOCKS: Metric =
    Metric { name: "mine_locks", kind: MetricKind::Gauge, unit: "", description: "Locks." };

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

impl Telemetry {
    /// Exports pending spans.
    pub(crate) async fn flush_spans(&self) -> OTelSdkResult {
        let tracer = self.0.providers.tracer.clone();
        let flush = move || tracer.map_or(Ok(()), |tracer| tracer.force_flush());
        tokio::task::spawn_blocking(flush).await.unwrap()
    }
}

fn prometheus_settings() -> Settings {
    Settings { prometheus: true, service_name: Some("gateway".into()), ..Settings::default() }
}

/// Returns a telemetry that samples this ratio of traces into memory.
fn with_tracing(ratio: f64) -> (Telemetry, InMemorySpanExporter) {
    let spans = InMemorySpanExporter::default();
    let settings = Settings {
        sampling: Some(SamplingRatio::try_from(ratio).unwrap()),
        environment_variables: vec!["REGION".into()],
        ..Settings::default()
    };
    let telemetry = Telemetry::builder(settings)
        .environment(|name| (name == "REGION").then(|| "north".to_owned()))
        .span_processor(SimpleSpanProcessor::new(spans.clone()))
        .build()
        .unwrap();
    (telemetry, spans)
}

/// Exporter that never completes.
#[derive(Debug)]
struct BlockedExporter;

impl SpanExporter for BlockedExporter {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        std::future::pending().await
    }
}

async fn send_request(telemetry: &Telemetry) {
    send(telemetry, Request::new(())).await;
}

async fn send(telemetry: &Telemetry, request: Request<()>) {
    let inner = tower::service_fn(|_: Request<()>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
    });
    telemetry.incoming().layer(inner).oneshot(request).await.unwrap();
}

/// Sends a failing call through both layers, and a request to another endpoint, so that each metric
/// has a value.
async fn exercise_all_metrics(telemetry: &Telemetry) {
    let failing = tower::service_fn(|_: Request<Full<Bytes>>| async {
        Err::<Response<Full<Bytes>>, BoxError>("gone".into())
    });
    let outgoing = telemetry.outgoing().layer(failing);
    let inner = tower::service_fn(move |mut request: Request<Full<Bytes>>| {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
        let bytes = Bytes::from_static(text.as_bytes());
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        let generation = Generation::Stateless;
        let request_context = RequestContext::of(request.extensions_mut());
        request_context.record_message(&McpRequest { bytes, envelope, generation });
        let run = RunObserver::new(&request_context, "report").unwrap();
        run.start_step("read", Some("t")).end(StepOutcome::Completed, Duration::from_millis(5));
        run.end("1", RunOutcome::Completed, Duration::from_millis(5));
        request.extensions_mut().insert(Backend::new("meteo"));
        let name = Bytes::from_static(b"\"t\"");
        request.extensions_mut().insert(McpOperation::new("tools/call").with_name(name));
        outgoing.clone().oneshot(request)
    });
    let request = Request::post("/mcp").body(Full::default()).unwrap();
    telemetry.incoming().layer(inner).oneshot(request).await.unwrap_err();

    let page = tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, BoxError>(Response::new(Full::<Bytes>::default()))
    });
    let request = Request::get("/token").body(Full::default()).unwrap();
    let response = telemetry.endpoints().layer(page).oneshot(request).await.unwrap();
    drop(response);
}

#[tokio::test]
async fn span_has_ids_parent_and_environment() {
    let (telemetry, spans) = with_tracing(0.0);
    let request = Request::builder().header("traceparent", PARENT).header("tracestate", "a=b");
    send(&telemetry, request.body(()).unwrap()).await;
    let spans = spans.get_finished_spans().unwrap();
    let [span] = &spans[..] else { panic!("one span") };
    assert_eq!(span.span_context.trace_id().to_string(), PARENT[3..35]);
    assert_eq!(span.parent_span_id.to_string(), PARENT[36..52]);
    assert!(span.parent_span_is_remote);
    assert_eq!(span.span_context.trace_state().header(), "a=b");
    assert!(span.attributes.contains(&KeyValue::new("environment.REGION", "north")));
}

#[tokio::test]
async fn samples_about_the_configured_ratio() {
    let (telemetry, spans) = with_tracing(0.05);
    for _ in 0..2000 {
        send_request(&telemetry).await;
    }
    let recorded = spans.get_finished_spans().unwrap().len();
    assert!((40..200).contains(&recorded), "{recorded}");
}

#[test]
fn disabled_tracing_has_no_tracer_provider() {
    let settings = Settings { prometheus: true, ..Settings::default() };
    let telemetry = Telemetry::builder(settings).build().unwrap();
    assert!(telemetry.tracer().is_none());
    assert!(telemetry.scrape().is_some());
    assert!(Telemetry::disabled().tracer().is_none());
    assert!(Telemetry::disabled().scrape().is_none());
}

#[test]
fn enabled_signals_need_a_destination() {
    let mut settings = Settings { metrics: true, ..Settings::default() };
    let error = Telemetry::builder(settings.clone()).build().unwrap_err();
    assert!(matches!(error, BuildError::Settings(SettingsError::MissingEndpoint)), "{error}");
    settings.endpoint = Some(Endpoint::new("otel:4318", false).unwrap());
    let error = Telemetry::builder(settings).build().unwrap_err();
    assert!(matches!(error, BuildError::MissingClient), "{error}");
}

#[tokio::test]
async fn text_has_every_metric() {
    let telemetry = Telemetry::builder(prometheus_settings()).build().unwrap();
    telemetry.observe(&OPEN_FILES, || 3);
    telemetry.observe_each(&LOCKS, names::BACKEND, |show| show("a", 3));
    telemetry.observe(&EXPORT_FAILURES, || 0);
    exercise_all_metrics(&telemetry).await;
    let text = telemetry.scrape().unwrap().text();
    let text = std::str::from_utf8(&text).unwrap();
    for metric in names::METRICS.iter().chain(METRICS) {
        let name = metric.prometheus();
        let prometheus_settings = text.lines().any(|line| {
            line.split_once(['{', ' ']).is_some_and(|(prometheus_settings, _)| {
                let rest = prometheus_settings.strip_prefix(&name);
                rest.is_some_and(|rest| matches!(rest, "" | "_bucket" | "_sum" | "_count"))
            })
        });
        assert!(prometheus_settings, "{name} is not in:\n{text}");
    }
    assert!(text.contains("mine_open_files 3"), "{text}");
    assert!(text.contains(r#"le="0.02""#) && text.contains(r#"le="300""#), "{text}");
    assert!(text.contains(r#"mine_locks{vmcp_backend_name="a"} 3"#), "{text}");
    assert!(text.contains(r#"service_name="gateway""#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn text_is_cached_for_a_second() {
    let settings = Settings { prometheus: true, ..Settings::default() };
    let telemetry = Telemetry::builder(settings).build().unwrap();
    let scrape = telemetry.scrape().unwrap();
    let before = scrape.text();
    send_request(&telemetry).await;
    assert_eq!(scrape.text(), before);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_ne!(scrape.text(), before);
    let kind = scrape.response::<bytes::Bytes>().headers()["content-type"].clone();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
}

#[tokio::test]
async fn omits_values_beyond_limit() {
    let telemetry = Telemetry::builder(prometheus_settings()).build().unwrap();
    telemetry.observe_each(&LOCKS, names::BACKEND, |show| {
        (0..5000).for_each(|number: u64| show(&number.to_string(), number));
    });
    let text = telemetry.scrape().unwrap().text();
    let text = std::str::from_utf8(&text).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("mine_locks{"));
    assert_eq!(lines.count(), 1000);
}

#[tokio::test]
async fn blocked_exporter_delays_only_the_shutdown() {
    let settings =
        Settings { sampling: Some(SamplingRatio::try_from(1.0).unwrap()), ..Settings::default() };
    let processor = BatchSpanProcessor::builder(BlockedExporter).build();
    let telemetry = Telemetry::builder(settings).span_processor(processor).build().unwrap();
    // Far more spans than the queue holds.
    for _ in 0..10_000 {
        send_request(&telemetry).await;
    }
    let limit = Duration::from_millis(100);
    let ended = telemetry.shutdown(limit).await;
    assert!(ended.is_err(), "{ended:?}");
}

#[tokio::test]
async fn shutdown_sends_pending_data() {
    let spans = InMemorySpanExporter::default();
    let settings =
        Settings { sampling: Some(SamplingRatio::try_from(1.0).unwrap()), ..Settings::default() };
    let processor = BatchSpanProcessor::builder(spans.clone()).build();
    let telemetry = Telemetry::builder(settings).span_processor(processor).build().unwrap();
    send_request(&telemetry).await;
    telemetry.0.providers.tracer.as_ref().unwrap().force_flush().unwrap();
    assert_eq!(spans.get_finished_spans().unwrap().len(), 1);
    telemetry.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// Processor whose shutdown waits for the test.
#[derive(Debug)]
struct BlockedShutdown(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl SpanProcessor for BlockedShutdown {
    fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &opentelemetry::Context) {}

    fn on_end(&self, _: SpanData) {}

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        _ = self.0.lock().unwrap().recv();
        Ok(())
    }
}

#[test]
fn drop_does_not_wait_for_exporters() {
    let (release, blocked) = std::sync::mpsc::channel();
    let settings =
        Settings { sampling: Some(SamplingRatio::try_from(1.0).unwrap()), ..Settings::default() };
    let processor = BlockedShutdown(std::sync::Mutex::new(blocked));
    drop(Telemetry::builder(settings).span_processor(processor).build().unwrap());
    // The shutdown waits for this in the background. A drop that waits never gets here.
    release.send(()).unwrap();
}
