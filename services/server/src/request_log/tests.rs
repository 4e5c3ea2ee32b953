use std::convert::Infallible;

use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use tower::{ServiceExt, service_fn};
use vmcp_core::Generation;
use vmcp_test_support::LogCapture;

use super::*;

const CALL: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"weather"}}"#;

/// The lines of one request that a service answers so.
async fn lines(
    respond: impl Fn(&RequestContext) -> Response<Body> + Clone + Send + 'static,
) -> String {
    let log = LogCapture::current_thread();
    let inner = service_fn(move |request: Request<()>| {
        let request_context = request.extensions().get::<RequestContext>().unwrap();
        let bytes = Bytes::from_static(CALL);
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        let generation = Generation::Stateless;
        request_context.record_message(&McpRequest { bytes, envelope, generation });
        request_context.record_identity(&Identity::new("issuer", "ann"));
        request_context.record_backend(&Backend::new("meteo"));
        std::future::ready(Ok::<_, Infallible>(respond(request_context)))
    });
    let request = Request::post("/mcp").body(()).unwrap();
    let response = RequestLogLayer::default().layer(inner).oneshot(request).await.unwrap();
    _ = response.into_body().collect().await;
    log.text()
}

#[tokio::test]
async fn logs_caller_and_rejecting_layer() {
    let lines = lines(|_| {
        Rejection::circuit_open("meteo", std::time::Duration::from_secs(5)).into_response(None)
    });
    let lines = lines.await;
    for part in ["request failed", "ann", "weather", "meteo", "200", "breaker"] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}

#[tokio::test]
async fn logs_errors_at_the_end_of_streams() {
    let lines = lines(|request_context| {
        request_context.record_error(-32050);
        let mut response = Response::new(Body::from(Bytes::from_static(b"data: x\n\n")));
        response.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().unwrap());
        response
    });
    let lines = lines.await;
    assert!(lines.contains("-32050") && lines.contains("backend"), "{lines}");
}

#[tokio::test]
async fn logs_no_warning_for_successful_requests() {
    let lines = lines(|_| Response::new(Body::empty())).await;
    assert!(!lines.contains("request failed"), "{lines}");
}
