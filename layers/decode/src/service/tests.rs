use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::{Layer, ServiceExt, service_fn};
use vmcp_core::{ByteBudget, Generation, Reservation};

use super::*;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

async fn send(headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response<Bytes> {
    let inner = service_fn(|request: Request<Full<Bytes>>| async move {
        let message = request.extensions().get::<McpRequest>().unwrap();
        let prefix = match message.generation {
            Generation::Stateful => "stateful ",
            Generation::Stateless => "stateless ",
        };
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::from(
            prefix.to_owned() + &message.method(),
        )))
    });
    let mut request = Request::post("/mcp");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).unwrap();
    DecodeLayer::new().max_body_size(2000).layer(inner).oneshot(request).await.unwrap()
}

fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{{params}}}}}"#)
}

async fn assert_rejected(headers: &[(&str, &str)], body: &str, status: u16, code: i32) {
    let response = send(headers, body.to_owned()).await;
    let text = String::from_utf8_lossy(response.body()).into_owned();
    assert_eq!(response.status(), status, "{body}: {text}");
    assert!(text.contains(&format!("\"code\":{code},")), "{body}: {text}");
}

#[tokio::test]
async fn message_without_stateless_markers_is_stateful() {
    assert_eq!(send(&[], call(r#""name":"x""#)).await.body(), "stateful tools/call");
    let headers = [("mcp-protocol-version", "2025-06-18")];
    assert_eq!(send(&headers, call(r#""name":"x""#)).await.body(), "stateful tools/call");
}

#[tokio::test]
async fn request_with_meta_and_headers_is_stateless() {
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?eMO8?="),
    ];
    let body = call(&format!(r#""name":"xü",{META}"#));
    assert_eq!(send(&headers, body).await.body(), "stateless tools/call");
}

#[tokio::test]
async fn initialize_is_stateful_despite_stateless_meta() {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2026-07-28",{META}}}}}"#
    );
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "initialize")];
    assert_eq!(send(&headers, body).await.body(), "stateful initialize");
}

#[tokio::test]
async fn rejects_headers_that_contradict_the_body() {
    let body = call(&format!(r#""name":"x",{META}"#));
    let version = ("mcp-protocol-version", "2026-07-28");
    for headers in [
        &[version, ("mcp-method", "tools/list"), ("mcp-name", "x")][..],
        &[version, ("mcp-name", "x")],
        &[version, ("mcp-method", "Tools/Call"), ("mcp-name", "x")],
        &[version, ("mcp-method", "tools/call")],
        &[version, ("mcp-method", "tools/call"), ("mcp-name", "y")],
        &[version, ("mcp-method", "tools/call"), ("mcp-name", "=?base64?eA?=")],
        &[version, ("mcp-method", "tools/call"), ("mcp-name", "x"), ("mcp-name", "x")],
        &[("mcp-method", "tools/call"), ("mcp-name", "x")],
        &[("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/call")],
    ] {
        assert_rejected(headers, &body, 400, -32020).await;
    }
}

#[tokio::test]
async fn requires_task_id_in_name_header() {
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"taskId":"t/ü",{META}}}}}"#
        );
        let headers = |name: &[(&'static str, &'static str)]| {
            let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
            headers.extend_from_slice(name);
            headers
        };
        assert_rejected(&headers(&[]), &body, 400, -32020).await;
        assert_rejected(&headers(&[("mcp-name", "t/u")]), &body, 400, -32020).await;
        let named = send(&headers(&[("mcp-name", "=?base64?dC/DvA==?=")]), body).await;
        assert_eq!(named.body(), format!("stateless {method}").as_str());
    }
}

#[tokio::test]
async fn missing_meta_is_an_invalid_params_error() {
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")];
    assert_rejected(&headers, &call(r#""name":"x""#), 400, -32602).await;
    let without = META.replace(r#","io.modelcontextprotocol/clientCapabilities":{}"#, "");
    assert_rejected(&headers, &call(&format!(r#""name":"x",{without}"#)), 400, -32602).await;
    assert_rejected(&headers, &call(r#""_meta":3"#), 400, -32602).await;
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    assert_rejected(&[], discover, 400, -32602).await;
}

#[tokio::test]
async fn lists_supported_revisions_for_unknown_revision() {
    let headers = [("mcp-protocol-version", "v999")];
    let body = call(&format!(r#""name":"x",{}"#, META.replace("2026-07-28", "v999")));
    let response = send(&headers, body).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let text = String::from_utf8_lossy(response.body()).into_owned();
    assert!(text.contains(r#""supported":["2026-07-28","2025-11-25""#), "{text}");
    assert!(text.contains(r#""requested":"v999""#), "{text}");
    assert!(text.contains(r#""id":"a""#), "{text}");
    assert_rejected(&headers, &call(r#""name":"x""#), 400, -32022).await;
}

#[tokio::test]
async fn rejects_invalid_messages_before_the_service() {
    assert_rejected(&[], "{", 400, -32700).await;
    assert_rejected(&[], "", 400, -32700).await;
    assert_rejected(&[], r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600).await;
    assert_rejected(&[], r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600).await;
    assert_rejected(&[], r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, 400, -32600).await;
    assert_rejected(&[], &call(r#""name":"x","Name":"y""#), 400, -32600).await;
    assert_rejected(&[("content-type", "text/plain")], "{}", 415, -32600).await;
    assert_rejected(&[("accept", "application/json")], "{}", 406, -32600).await;
}

#[tokio::test]
async fn rejects_body_over_the_limit() {
    let body = call(&format!(r#""name":"{}""#, "x".repeat(3000)));
    assert_eq!(send(&[], body).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn rejects_body_that_never_ends() {
    let (_sender, body) = http_body_util::channel::Channel::<Bytes, std::io::Error>::new(1);
    let inner = service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::new()))
    });
    let request = Request::post("/").header("content-type", "application/json").body(body).unwrap();
    let response = DecodeLayer::new().layer(inner).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn polls_no_body_that_has_ended() {
    struct OneFrame(Option<Bytes>);
    impl http_body::Body for OneFrame {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
            self.0
                .take()
                .map_or(Poll::Pending, |data| Poll::Ready(Some(Ok(http_body::Frame::data(data)))))
        }
        fn is_end_stream(&self) -> bool {
            self.0.is_none()
        }
    }

    let inner = service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::from("through")))
    });
    let body = OneFrame(Some(call(r#""name":"x""#).into()));
    let request = Request::post("/").header("content-type", "application/json").body(body).unwrap();
    let mut response = tokio_test::task::spawn(DecodeLayer::new().layer(inner).oneshot(request));
    assert_eq!(tokio_test::assert_ready!(response.poll()).unwrap().body(), "through");
}

#[tokio::test]
async fn records_the_message_for_outer_layers() {
    let inner = service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::new()))
    });
    let body = Full::new(Bytes::from(call(r#""name":"x""#)));
    let request = Request::post("/mcp").header("content-type", "application/json");
    let mut request = request.body(body).unwrap();
    let request_context = RequestContext::of(request.extensions_mut());
    DecodeLayer::new().layer(inner).oneshot(request).await.unwrap();
    assert_eq!(request_context.message().unwrap().method(), "tools/call");
}

#[tokio::test]
async fn passes_other_methods_through() {
    let inner = service_fn(|request: Request<Full<Bytes>>| async move {
        assert!(request.extensions().get::<McpRequest>().is_none());
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::from("through")))
    });
    let request = Request::get("/mcp").body(Full::<Bytes>::default()).unwrap();
    let response = DecodeLayer::new().layer(inner).oneshot(request).await.unwrap();
    assert_eq!(response.body(), "through");
}

#[tokio::test]
async fn rejects_wrong_headers_of_stateful_requests() {
    let body = call(r#""name":"x""#);
    for matching in [vec![], vec![("mcp-method", "tools/call"), ("mcp-name", "x")]] {
        assert_eq!(send(&matching, body.clone()).await.body(), "stateful tools/call");
    }
    for wrong in [
        vec![("mcp-method", "tools/list")],
        vec![("mcp-method", "tools/call"), ("mcp-name", "y")],
        vec![("mcp-name", "x"), ("mcp-name", "x")],
    ] {
        assert_rejected(&wrong, &body, 400, -32020).await;
    }
}

/// Returns a layer that reads messages of up to 1 MB within this budget.
fn layer_with_budget(budget: &ByteBudget) -> DecodeLayer {
    DecodeLayer::new().max_body_size(MB).budget(budget.clone())
}

const MB: usize = 1_000_000;

fn padded_call(bytes: usize) -> String {
    call(&format!(r#""name":"x","arguments":{{"a":"{}"}}"#, "x".repeat(bytes)))
}

fn post<B>(body: B) -> Request<B> {
    Request::post("/mcp").header("content-type", "application/json").body(body).unwrap()
}

#[tokio::test]
async fn counts_bytes_until_the_message_is_dropped() {
    let budget = ByteBudget::new(4 * MB);
    for (bytes, is_counted) in [(100, false), (4000, false), (5000, true), (200_000, true)] {
        let slice = std::sync::Arc::new(std::sync::Mutex::new(None));
        let (slice_in_service, budget_in_service) = (std::sync::Arc::clone(&slice), budget.clone());
        let inner = service_fn(move |request: Request<Full<Bytes>>| {
            let message = request.extensions().get::<McpRequest>().unwrap().clone();
            assert_eq!(budget_in_service.counts().held >= bytes, is_counted, "{bytes}");
            *slice_in_service.lock().unwrap() = Some(message.bytes.slice(5..6));
            async { Ok::<_, std::convert::Infallible>(Response::new(Bytes::new())) }
        });
        let request = post(Full::new(Bytes::from(padded_call(bytes))));
        let response = layer_with_budget(&budget).layer(inner).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(budget.counts().held >= bytes, is_counted, "{bytes}: a slice is still there");
        slice.lock().unwrap().take();
        assert_eq!(budget.counts().held, 0);
    }
}

/// Fills the budget, except for less than 10 kB for the next owner.
fn fill(budget: &ByteBudget) -> Vec<Reservation> {
    let owners = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| budget.backend(name));
    let reserve = |owner| {
        let mut reservation = budget.open(owner);
        reservation.try_grow(budget.room(owner)).unwrap();
        reservation
    };
    owners.into_iter().map(reserve).collect()
}

#[tokio::test(start_paused = true)]
async fn message_over_budget_waits_and_is_rejected() {
    let budget = ByteBudget::new(2 * MB);
    let others = fill(&budget);
    let held = budget.counts().held;
    let inner = service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::new()))
    });
    let service = layer_with_budget(&budget).layer(inner);
    let send =
        |bytes: usize| service.clone().oneshot(post(Full::new(Bytes::from(padded_call(bytes)))));
    assert_eq!(send(1_000).await.unwrap().status(), StatusCode::OK);
    let start = tokio::time::Instant::now();
    let rejected = send(10_000).await.unwrap();
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        (&rejected.headers()["retry-after"], start.elapsed().as_secs()),
        (&"2".parse().unwrap(), 2)
    );
    assert!(rejected.body().starts_with(
        br#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"the server holds too many bytes"#
    ));
    let counts = budget.counts();
    assert_eq!((counts.rejections, counts.waiting, counts.held), (1, 0, held));
    let waiting = send(10_000);
    let releasing = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        drop(others);
    };
    let (response, ()) = tokio::join!(waiting, releasing);
    assert_eq!(response.unwrap().status(), StatusCode::OK);
    assert_eq!(budget.counts().held, 0);
}

#[tokio::test(start_paused = true)]
async fn unfinished_bodies_hold_arrived_bytes() {
    let budget = ByteBudget::new(2 * MB);
    let inner = service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::new()))
    });
    let service = layer_with_budget(&budget).layer(inner);
    let (mut sender, body) = http_body_util::channel::Channel::<Bytes, std::io::Error>::new(1);
    let mut request = post(body);
    request.headers_mut().insert("content-length", "900000".parse().unwrap());
    let mut stalled = tokio_test::task::spawn(service.oneshot(request));
    tokio_test::assert_pending!(stalled.poll());
    assert_eq!(budget.counts().held, 0, "announced bytes do not count");
    sender.send_data(vec![b' '; 70_000].into()).await.unwrap();
    tokio_test::assert_pending!(stalled.poll());
    assert!((70_000..140_000).contains(&budget.counts().held));
    drop(stalled);
    assert_eq!(budget.counts().held, 0);
}

#[tokio::test(start_paused = true)]
async fn stalled_bodies_yield_budget_to_waiting_requests() {
    let budget = ByteBudget::new(2 * MB);
    let inner = service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Bytes::new()))
    });
    let service = layer_with_budget(&budget).layer(inner);
    let (mut sender, body) = http_body_util::channel::Channel::<Bytes, std::io::Error>::new(1);
    let mut stalled = tokio_test::task::spawn(service.clone().oneshot(post(body)));
    for _ in 0..4 {
        sender.send_data(vec![b' '; 200_000].into()).await.unwrap();
        tokio_test::assert_pending!(stalled.poll());
    }
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    tokio_test::assert_pending!(stalled.poll());
    let waiting = service.oneshot(post(Full::new(Bytes::from(padded_call(300_000)))));
    let (rejected, response) = tokio::join!(stalled, waiting);
    assert_eq!(rejected.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.unwrap().status(), StatusCode::OK);
}
