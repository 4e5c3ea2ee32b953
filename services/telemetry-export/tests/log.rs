//! Log lines of the export. A separate test binary, because exporters log on their own threads.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::ServiceExt;
use tower_layer::Layer;
use vmcp_core::{Body, BoxError};
use vmcp_telemetry_export::{Endpoint, Headers, SamplingRatio, Settings, Telemetry};
use vmcp_test_support::LogCapture;

#[tokio::test(flavor = "multi_thread")]
async fn failed_exports_log_no_secrets() {
    let log = LogCapture::process();
    for refuses in [true, false] {
        let client = tower::service_fn(move |_: Request<Body>| async move {
            if !refuses {
                return Err::<_, BoxError>("canary".into());
            }
            let answer = Response::builder().status(403);
            Ok(answer.body(Full::new(Bytes::from_static(b"canary"))).unwrap())
        });
        let secret = "Bearer canary".into();
        let settings = Settings {
            endpoint: Some(Endpoint::new("otel:4318", false).unwrap()),
            headers: Headers::new([("authorization", &secret)]).unwrap(),
            sampling: Some(SamplingRatio::try_from(1.0).unwrap()),
            metrics: true,
            ..Settings::default()
        };
        let telemetry = Telemetry::builder(settings).otlp(client).unwrap().build().unwrap();
        let inner = tower::service_fn(|_: Request<()>| async {
            Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
        });
        let request = Request::post("/mcp?token=canary")
            .header("authorization", "Bearer canary")
            .header("mcp-session-id", "canary")
            .body(())
            .unwrap();
        let response = telemetry.incoming().layer(inner).oneshot(request).await.unwrap();
        response.into_body().collect().await.unwrap();
        let ended = telemetry.shutdown(Duration::from_secs(20)).await;
        let error = ended.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
    let text = log.text();
    assert!(!text.contains("canary"), "{text}");
    assert!(text.contains("opentelemetry"), "the log is empty: {text}");
    // Without a reader no instrument can be created, which is not an error.
    let client = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, BoxError>(Response::new(Full::<Bytes>::default()))
    });
    let settings = Settings {
        endpoint: Some(Endpoint::new("otel:4318", false).unwrap()),
        sampling: Some(SamplingRatio::try_from(1.0).unwrap()),
        ..Settings::default()
    };
    let telemetry = Telemetry::builder(settings).otlp(client).unwrap().build().unwrap();
    telemetry.observe(&vmcp_telemetry_export::EXPORT_FAILURES, || 0);
    let text = log.text();
    assert!(!text.contains("InstrumentCreationFailed"), "{text}");
}
