//! The reasons for the positions in `src/stack.rs`, each shown by what would be different elsewhere.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tower::ServiceExt;
use vmcp::guard::{CrowdLayer, HostsLayer};
use vmcp::stack::{Incoming, McpService, outgoing};
use vmcp_aggregate::settings::{Limits, PartialFailure, Rules, Settings};
use vmcp_aggregate::{Gateway, Seal};
use vmcp_core::{Body, BoxError, cause};
use vmcp_decode::DecodeLayer;
use vmcp_egress::{Egress, Target};
use vmcp_timeout::{Elapsed, TimeoutLayer};

/// A body that must not be looked at.
struct Untouchable;

impl http_body::Body for Untouchable {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        panic!("somebody read the body");
    }
}

fn stack(requests: usize) -> McpService {
    let settings = Settings {
        name: "test".to_owned(),
        version: "1".to_owned(),
        backends: Vec::new(),
        rules: Rules::default(),
        partial_failure: PartialFailure::BestEffort,
    };
    let seal = Seal::ephemeral(Duration::from_secs(60)).unwrap();
    let incoming = Incoming {
        crowd: CrowdLayer::new(requests),
        hosts: HostsLayer::loopback(Vec::new(), Vec::new()),
        decode: DecodeLayer::new(),
    };
    incoming.stack(Gateway::new(settings, Limits::default(), seal))
}

fn request<B>(host: &str, body: B) -> Request<B> {
    Request::post("/mcp")
        .header("host", host)
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

async fn status<B>(service: McpService, request: Request<B>) -> u16
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let response: Response<Body> = service.oneshot(request).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn a_panic_anywhere_below_is_one_failed_request() {
    // The innermost layer is the one that reads the body.
    assert_eq!(status(stack(1), request("localhost", Untouchable)).await, 500);
}

#[tokio::test]
async fn what_is_too_much_is_refused_before_anything_else_is_looked_at() {
    assert_eq!(status(stack(0), request("evil.example.com", Untouchable)).await, 503);
}

#[tokio::test]
async fn a_foreign_page_gets_nothing_parsed() {
    assert_eq!(status(stack(1), request("evil.example.com", Untouchable)).await, 403);
}

#[tokio::test]
async fn a_preflight_is_answered_without_a_message() {
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/mcp")
        .header("host", "localhost:4483")
        .header("origin", "http://localhost:6274")
        .header("access-control-request-method", "POST")
        .body(Untouchable)
        .unwrap();
    assert_eq!(status(stack(1), preflight).await, 204);
}

#[tokio::test]
async fn the_service_gets_what_was_decoded() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    assert_eq!(status(stack(1), request("localhost", Full::from(ping))).await, 200);
    assert_eq!(status(stack(1), request("localhost", Full::from("{"))).await, 400);
}

#[tokio::test]
async fn a_redirect_is_within_the_time_of_its_backend() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut kept = Vec::new();
        let mut first = true;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            _ = stream.read(&mut head).await;
            if std::mem::take(&mut first) {
                let moved =
                    b"HTTP/1.1 307 T\r\nlocation: /there\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                stream.write_all(moved).await.unwrap();
            } else {
                // Where it leads, nobody answers.
                kept.push(stream);
            }
        }
    });
    let url = format!("http://{address}/here").parse().unwrap();
    let client = Egress::default().client(&url, Target::allowing_private_addresses()).unwrap();
    let limit = Duration::from_millis(300);
    let service = outgoing(TimeoutLayer::new(limit), client);
    let request = Request::post(url.as_str()).body(Full::from("x")).unwrap();
    let error = service.oneshot(request).await.unwrap_err();
    assert_eq!(cause::<Elapsed>(error.as_ref()), Some(&Elapsed { limit }));
    serving.abort();
}
