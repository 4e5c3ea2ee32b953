//! Measures the CPU time in nanoseconds that the layers add to a request.
//!
//! `cargo run --release -p vmcp-telemetry-export --example telemetry_cost`

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanExporter};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::{Backend, Body, BoxError, Generation, McpOperation, McpRequest, RequestContext};
use vmcp_telemetry::trace_context::MetaPropagation;
use vmcp_telemetry_export::{SamplingRatio, Settings, Telemetry};

const ROUNDS: u32 = 100_000;
const TOOLS: usize = 50;

/// Exporter that discards spans.
#[derive(Debug)]
struct DiscardingExporter;

impl SpanExporter for DiscardingExporter {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

fn telemetry(sampling: Option<f64>, metrics: bool) -> Result<Telemetry, BoxError> {
    let settings = Settings {
        sampling: sampling.map(SamplingRatio::try_from).transpose()?,
        prometheus: metrics,
        legacy_attributes: true,
        ..Settings::default()
    };
    let builder = Telemetry::builder(settings);
    Ok(builder.span_processor(BatchSpanProcessor::builder(DiscardingExporter).build()).build()?)
}

fn messages() -> Result<Vec<McpRequest>, BoxError> {
    let message = |tool| {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"tool_{tool}","arguments":{{"text":"{}"}},"_meta":{{"progressToken":1}}}}}}"#,
            "x".repeat(100)
        );
        let bytes = Bytes::from(text);
        let envelope = vmcp_wire::scan(&bytes).map_err(|error| error.kind)?;
        Ok(McpRequest { bytes, envelope, generation: Generation::Stateless })
    };
    (0..TOOLS).map(message).collect()
}

fn request() -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.method_mut() = http::Method::POST;
    request
        .headers_mut()
        .insert("content-type", http::HeaderValue::from_static("application/json"));
    request
}

fn response() -> Response<Body> {
    let body: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"it is raining in most places at this time of the year"}]}}"#;
    let mut response = Response::new(Body::from(Bytes::from_static(body)));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    response
}

/// Sends one request and reads its response to the end.
async fn run<S, R>(service: &mut S, request: Request<Full<Bytes>>)
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
    R: http_body::Body + Unpin,
{
    let Ok(mut response) = service.call(request).await else { return };
    let body = response.body_mut();
    while let Some(frame) =
        std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx)).await
    {
        _ = black_box(frame.is_ok());
        if body.is_end_stream() {
            break;
        }
    }
}

async fn incoming(telemetry: Option<&Telemetry>) -> Result<Duration, BoxError> {
    let messages = messages()?;
    let backend = Backend::new("meteo");
    let mut next = 0;
    let inner = tower::service_fn(move |mut request: Request<Full<Bytes>>| {
        next = (next + 1) % TOOLS;
        // Without a layer the request has no request context.
        if let Some(request_context) = request.extensions_mut().get::<RequestContext>() {
            request_context.record_message(&messages[next]);
            request_context.record_backend(&backend);
        }
        std::future::ready(Ok::<_, Infallible>(response()))
    });
    Ok(match telemetry {
        Some(telemetry) => measure(telemetry.incoming().layer(inner), request).await,
        None => measure(inner, request).await,
    })
}

async fn outgoing(telemetry: Option<&Telemetry>) -> Result<Duration, BoxError> {
    let inner = tower::service_fn(|request: Request<Full<Bytes>>| {
        black_box(&request);
        std::future::ready(Ok::<_, BoxError>(response()))
    });
    let backend = Backend::new("meteo");
    let operation = McpOperation::new("tools/call").with_name(Bytes::from_static(b"\"tool\""));
    let message = messages()?.remove(0);
    let request = move |operation: &McpOperation| {
        let mut request = request();
        *request.body_mut() = Full::new(message.bytes.clone());
        request.extensions_mut().insert(backend.clone());
        request.extensions_mut().insert(operation.clone());
        request
    };
    Ok(match telemetry {
        Some(telemetry) => {
            let layer = telemetry.outgoing().propagator(MetaPropagation);
            // A request of the gateway refers to the client request that caused it.
            let operation = match cause(telemetry).await {
                Some(request_context) => operation.with_client_request(request_context),
                None => operation,
            };
            measure(layer.layer(inner), move || request(&operation)).await
        }
        None => measure(inner, move || request(&operation)).await,
    })
}

/// Returns the request context that a client request leaves for requests that it causes.
async fn cause(telemetry: &Telemetry) -> Option<RequestContext> {
    let (send, got) = tokio::sync::oneshot::channel();
    let mut send = Some(send);
    let inner = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let request_context = request.extensions().get::<RequestContext>().cloned();
        _ = send.take().map(|send| send.send(request_context));
        std::future::ready(Ok::<_, Infallible>(response()))
    });
    run(&mut telemetry.incoming().layer(inner), request()).await;
    got.await.ok().flatten()
}

async fn measure<S, R>(mut service: S, request: impl Fn() -> Request<Full<Bytes>>) -> Duration
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
    R: http_body::Body + Unpin,
{
    let mut best = Duration::MAX;
    for _ in 0..9 {
        let start = cpu_time();
        for _ in 0..ROUNDS {
            run(&mut service, request()).await;
        }
        best = best.min(cpu_time().saturating_sub(start) / ROUNDS);
    }
    best
}

/// Returns the CPU time of this thread, as reported by Linux.
fn cpu_time() -> Duration {
    let read = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = read.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let bare = (incoming(None).await?, outgoing(None).await?);
    println!("{:<34} {:>9} {:>9}", "ns per request, added by", "incoming", "outgoing");
    for (what, sampling, metrics) in [
        ("trace context only", None, false),
        ("metrics", None, true),
        ("traces, none sampled", Some(0.0), false),
        ("metrics and traces, none sampled", Some(0.0), true),
        ("metrics and traces at 0.05", Some(0.05), true),
        ("metrics and traces, all sampled", Some(1.0), true),
    ] {
        let telemetry = telemetry(sampling, metrics)?;
        let incoming = incoming(Some(&telemetry)).await?.saturating_sub(bare.0);
        let outgoing = outgoing(Some(&telemetry)).await?.saturating_sub(bare.1);
        println!("{what:<34} {:>9} {:>9}", incoming.as_nanos(), outgoing.as_nanos());
    }
    Ok(())
}
