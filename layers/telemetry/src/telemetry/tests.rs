use std::time::Duration;

use http::Request;
use http_body_util::Full;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanExporter};
use tower::ServiceExt;
use tower_layer::Layer;

use super::*;
use crate::names;
use crate::testing::Fixture;
use crate::{Endpoint, SamplingRatio, SettingsError};

impl Telemetry {
    /// Sends the spans that wait.
    #[cfg(all(feature = "otlp", feature = "prometheus"))]
    pub(crate) async fn flush_spans(&self) -> OTelSdkResult {
        let tracer = self.0.tracer.clone();
        let flush = move || tracer.map_or(Ok(()), |tracer| tracer.force_flush());
        tokio::task::spawn_blocking(flush).await.unwrap()
    }

    pub(crate) fn meter_provider(&self) -> SdkMeterProvider {
        self.0.meter.clone()
    }

    pub(crate) fn tracing(&self) -> Option<Arc<Tracing>> {
        self.0.outgoing.tracing.clone()
    }
}

/// Never takes anything.
#[derive(Debug)]
struct Stuck;

impl SpanExporter for Stuck {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        std::future::pending().await
    }
}

async fn ask(telemetry: &Telemetry) {
    let inner = tower::service_fn(|_: Request<()>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::<bytes::Bytes>::default()))
    });
    telemetry.incoming().layer(inner).oneshot(Request::new(())).await.unwrap();
}

#[cfg(feature = "prometheus")]
#[test]
fn while_tracing_is_off_there_is_no_tracer_provider() {
    let settings = Settings { prometheus: true, ..Settings::default() };
    let telemetry = Telemetry::builder(settings).build().unwrap();
    assert!(telemetry.tracer().is_none());
    assert!(telemetry.scrape().is_some());
    assert!(Telemetry::disabled().tracer().is_none());
    assert!(Telemetry::disabled().scrape().is_none());
}

#[test]
fn what_is_to_be_sent_needs_somewhere_to_go() {
    let mut settings = Settings { metrics: true, ..Settings::default() };
    let error = Telemetry::builder(settings.clone()).build().unwrap_err();
    assert!(matches!(error, BuildError::Settings(SettingsError::NoEndpoint)), "{error}");
    settings.endpoint = Some(Endpoint::new("otel:4318", false).unwrap());
    let error = Telemetry::builder(settings).build().unwrap_err();
    assert!(matches!(error, BuildError::NoClient), "{error}");
}

#[cfg(feature = "prometheus")]
#[tokio::test]
async fn the_text_shows_every_metric_under_its_name_in_prometheus() {
    let settings = Settings { prometheus: true, ..Fixture::settings(None) };
    let fixture = Fixture::new(settings);
    for metric in names::METRICS.iter().filter(|metric| metric.description.contains("Fed by")) {
        if metric.description.contains("each backend") {
            fixture.telemetry.observe_each(metric, names::BACKEND, |show| show("a", 3));
        } else {
            fixture.telemetry.observe(metric, || 3);
        }
    }
    fixture.use_all().await;
    let text = fixture.telemetry.scrape().unwrap().text();
    let text = std::str::from_utf8(&text).unwrap();
    for metric in names::METRICS {
        let name = metric.prometheus();
        let shown = text.lines().any(|line| {
            line.split_once(['{', ' ']).is_some_and(|(shown, _)| {
                let rest = shown.strip_prefix(&name);
                rest.is_some_and(|rest| matches!(rest, "" | "_bucket" | "_sum" | "_count"))
            })
        });
        assert!(shown, "{name} is not in:\n{text}");
    }
    assert!(text.contains("vmcp_sessions 3"), "{text}");
    assert!(text.contains(r#"le="0.02""#) && text.contains(r#"le="300""#), "{text}");
    assert!(text.contains(r#"vmcp_backend_healthy{vmcp_backend_name="a"} 3"#), "{text}");
    assert!(text.contains(r#"service_name="gateway""#), "{text}");
}

#[cfg(feature = "prometheus")]
#[tokio::test(start_paused = true)]
async fn who_asks_for_the_text_often_gets_the_same_for_a_second() {
    let settings = Settings { prometheus: true, ..Settings::default() };
    let telemetry = Telemetry::builder(settings).build().unwrap();
    let scrape = telemetry.scrape().unwrap();
    let before = scrape.text();
    ask(&telemetry).await;
    assert_eq!(scrape.text(), before);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_ne!(scrape.text(), before);
    let kind = scrape.response::<bytes::Bytes>().headers()["content-type"].clone();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
}

#[tokio::test]
async fn of_too_many_values_the_rest_is_not_shown() {
    let fixture = Fixture::sampling(0.0);
    fixture.telemetry.observe_each(&names::BACKEND_HEALTHY, names::BACKEND, |show| {
        (0..5000).for_each(|number: u64| show(&number.to_string(), number));
    });
    assert_eq!(fixture.labels("vmcp_backend_healthy").len(), 1000);
}

#[tokio::test]
async fn an_exporter_that_is_stuck_costs_requests_nothing_and_the_end_no_more_than_its_time() {
    let settings =
        Settings { sampling: Some(SamplingRatio::try_from(1.0).unwrap()), ..Settings::default() };
    let processor = BatchSpanProcessor::builder(Stuck).build();
    let telemetry = Telemetry::builder(settings).span_processor(processor).build().unwrap();
    // Far more than the queue holds.
    for _ in 0..10_000 {
        ask(&telemetry).await;
    }
    let limit = Duration::from_millis(100);
    let ended = telemetry.shutdown(limit).await;
    assert!(ended.is_err(), "{ended:?}");
}

#[tokio::test]
async fn what_is_left_is_sent_at_the_end() {
    let fixture = Fixture::sampling(1.0);
    ask(&fixture.telemetry).await;
    fixture.telemetry.shutdown(Duration::from_secs(5)).await.unwrap();
}
