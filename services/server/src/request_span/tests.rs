use std::convert::Infallible;

use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_core::{Backend, Rejection};
use vmcp_test_support::LogCapture;

use super::*;
use crate::request_log::RequestLogLayer;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn request() -> Request<()> {
    let mut request = Request::post("/mcp")
        .header("x-request-id", "r-17")
        .header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"))
        .body(())
        .unwrap();
    request.extensions_mut().insert(Identity::new("https://id.example", "ann"));
    request
}

/// Returns the lines that mention `part`.
fn lines(log: &LogCapture, part: &str) -> Vec<String> {
    log.text().lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
}

fn assert_fields(line: &str) {
    let hash = caller_hash("https://id.example", "ann");
    for part in ["request_id=\"r-17\"", TRACE, &*hash] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("ann"), "{line}");
}

#[tokio::test]
async fn lines_of_layers_carry_request_fields() {
    let log = LogCapture::current_thread();
    let inner = service_fn(async |_: Request<()>| {
        tracing::warn!("policy failed");
        tokio::task::yield_now().await;
        let task = tokio::spawn(async { tracing::warn!("task failed") }.in_current_span());
        task.await.unwrap();
        Ok::<_, Infallible>(Response::new(Body::from("x")))
    });
    let stack = ServiceBuilder::new().layer(RequestSpanLayer).layer(SpanFieldsLayer::Caller);
    stack.service(inner).oneshot(request()).await.unwrap();
    tracing::warn!("later");
    for part in ["policy failed", "task failed"] {
        assert_fields(&lines(&log, part).concat());
    }
    assert!(!lines(&log, "later").concat().contains("r-17"));
}

#[tokio::test]
async fn backend_failure_carries_request_fields() {
    let log = LogCapture::current_thread();
    let inner = service_fn(async |request: Request<()>| {
        let context = request.extensions().get::<RequestContext>().unwrap();
        context.record_backend(&Backend::new("meteo"));
        context.record_error(-32050);
        let mut response = Response::new(Body::wrap(http_body_util::Full::from("data: x\n\n")));
        response.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().unwrap());
        Ok::<_, Infallible>(response)
    });
    let stack = ServiceBuilder::new()
        .layer(RequestSpanLayer)
        .layer(RequestLogLayer::default())
        .layer(SpanFieldsLayer::Caller)
        .map_future(Box::pin);
    let response = stack.service(inner).oneshot(request()).await.unwrap();
    // The line is written at the end of the stream.
    assert!(lines(&log, "request failed").is_empty());
    response.into_body().collect().await.unwrap();
    assert_fields(&lines(&log, "request failed").concat());
}

#[tokio::test]
async fn requests_without_identifier_get_one_each() {
    let log = LogCapture::current_thread();
    let inner = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Rejection::overloaded("full", 1).into_response(None))
    });
    let stack = ServiceBuilder::new()
        .layer(RequestSpanLayer)
        .layer(RequestLogLayer::default())
        .map_future(Box::pin);
    let mut stack = stack.service(inner);
    for _ in 0..2 {
        stack.ready().await.unwrap().call(Request::new(())).await.unwrap();
    }
    let lines = lines(&log, "request failed");
    let ids: Vec<_> = lines.iter().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}
