use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use http_body_util::channel::{Channel as Pipe, Sender};
use tokio::time::Instant;
use vmcp_core::ByteBudget;
use vmcp_decode::DecodeLayer;

use super::*;

type BoxResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":"one","method":"tools/list"}"#;

/// Fake service at `/mcp`.
#[derive(Clone)]
struct Mcp(Arc<dyn Fn(Request<Bytes>) -> BoxResponseFuture + Send + Sync>);

impl Service<Request<Full<Bytes>>> for Mcp {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> BoxResponseFuture {
        assert_eq!(request.uri(), "/mcp");
        let (parts, body) = request.into_parts();
        let message = body.collect().now_or_never().unwrap().unwrap().to_bytes();
        (self.0)(Request::from_parts(parts, message))
    }
}

fn ready(response: Response<Body>) -> BoxResponseFuture {
    Box::pin(std::future::ready(Ok(response)))
}

fn json(status: u16, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Creates a fake service at `/mcp` that responds to `initialize` itself.
fn mcp(answer: impl Fn(&Request<Bytes>) -> BoxResponseFuture + Send + Sync + 'static) -> Mcp {
    Mcp(Arc::new(move |request| {
        if request.body() == INITIALIZE {
            let mut response = json(200, r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
            response.headers_mut().insert(SESSION_ID, HeaderValue::from_static("s1"));
            return ready(response);
        }
        if request.body() == INITIALIZED {
            return ready(accepted());
        }
        answer(&request)
    }))
}

fn never() -> BoxResponseFuture {
    Box::pin(std::future::pending())
}

struct LegacyClient {
    service: LegacySse<Mcp>,
    clients: Arc<ClientTable>,
    address: String,
    stream: Body,
}

fn service(mcp: Mcp) -> LegacySse<Mcp> {
    LegacySse::new(mcp, Arc::new(ClientTable::new(2, DecodeLayer::new().max_body_size(1000))))
}

async fn send(
    service: &LegacySse<Mcp>,
    method: Method,
    uri: &str,
    caller: &Identity,
    body: &str,
) -> Response<Body> {
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *request.method_mut() = method;
    *request.uri_mut() = uri.parse().unwrap();
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers_mut().insert(SESSION_ID, HeaderValue::from_static("forged"));
    request.extensions_mut().insert(caller.clone());
    let Ok(response) = service.clone().oneshot(request).await;
    response
}

impl LegacyClient {
    async fn open(mcp: Mcp) -> Self {
        Self::open_at(service(mcp)).await
    }

    async fn open_at(service: LegacySse<Mcp>) -> Self {
        let clients = Arc::clone(&service.clients);
        let response = send(&service, Method::GET, STREAM_PATH, &Identity::anonymous(), "").await;
        assert_eq!(response.status(), StatusCode::OK);
        let mut old =
            Self { service, clients, address: String::new(), stream: response.into_body() };
        let first = old.event().await;
        let address = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end();
        old.address = address.to_owned();
        old
    }

    async fn connect(mcp: Mcp) -> Self {
        Self::connect_to(service(mcp)).await
    }

    async fn connect_to(service: LegacySse<Mcp>) -> Self {
        let mut old = Self::open_at(service).await;
        assert_eq!(old.post(INITIALIZE).await.status(), StatusCode::ACCEPTED);
        let expected = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n\n";
        assert_eq!(old.event().await, expected);
        old
    }

    async fn post(&self, message: &str) -> Response<Body> {
        send(&self.service, Method::POST, &self.address, &Identity::anonymous(), message).await
    }

    /// Returns the next event of the stream, or an empty text after its end.
    async fn event(&mut self) -> String {
        let mut event = Vec::new();
        while !event.ends_with(b"\n\n") {
            let Some(frame) = self.stream.frame().await else { break };
            event.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        String::from_utf8(event).unwrap()
    }
}

fn message(text: &str) -> String {
    format!("event: message\ndata: {text}\n\n")
}

#[tokio::test(start_paused = true)]
async fn sends_responses_on_stream_within_session() {
    let answer = r#"{"jsonrpc":"2.0","id":"one","result":{"tools":[]}}"#;
    let mut old = LegacyClient::connect(mcp(move |request| {
        assert_eq!(request.headers()[SESSION_ID], "s1");
        assert_eq!(request.headers()[ACCEPT], "application/json, text/event-stream");
        ready(json(200, answer))
    }))
    .await;
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    assert_eq!(old.event().await, message(answer));
}

#[tokio::test(start_paused = true)]
async fn adds_request_id_to_error_without_id() {
    let mut old = LegacyClient::connect(mcp(|_| {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(json(503, r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#))
        })
    }))
    .await;
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    let expected = r#"{"jsonrpc":"2.0","id":"one","error":{"code":1,"message":"m"}}"#;
    assert_eq!(old.event().await, message(expected));
}

#[tokio::test(start_paused = true)]
async fn returns_immediate_rejection_as_post_response() {
    let old = LegacyClient::connect(mcp(|_| ready(json(401, r#"{"error":"unauthorized"}"#)))).await;
    assert_eq!(old.post(LIST).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn failed_handshake_can_be_retried() {
    let tries = AtomicUsize::new(0);
    let old = LegacyClient::open(Mcp(Arc::new(move |_| {
        let first = tries.fetch_add(1, Ordering::Relaxed) == 0;
        ready(if first { json(503, "{}") } else { accepted() })
    })))
    .await;
    assert_eq!(old.post(INITIALIZE).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(old.post(INITIALIZE).await.status(), StatusCode::ACCEPTED);
}

fn events(sender: &Mutex<Option<Sender<Bytes, BoxError>>>) -> BoxResponseFuture {
    let (sending, body) = Pipe::<Bytes, BoxError>::new(8);
    *sender.lock().unwrap() = Some(sending);
    let mut response = Response::new(Body::wrap(body));
    response.headers_mut().insert(CONTENT_TYPE, EVENT_STREAM);
    ready(response)
}

#[tokio::test(start_paused = true)]
async fn resumes_broken_stream_or_reports_error() {
    let pipe = Arc::new(Mutex::new(None::<Sender<Bytes, BoxError>>));
    let opened = Arc::clone(&pipe);
    let mut old = LegacyClient::connect(mcp(move |request| {
        if request.method() == Method::GET {
            assert_eq!(request.headers()[LAST_EVENT_ID], "1-7");
        }
        events(&opened)
    }))
    .await;
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    let mut first = pipe.lock().unwrap().take().unwrap();
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
    first.send_data(format!("id: 1-7\ndata: {progress}\n\n").into()).await.unwrap();
    assert_eq!(old.event().await, message(progress));
    drop(first);
    let mut second = loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if let Some(second) = pipe.lock().unwrap().take() {
            break second;
        }
    };
    second
        .send_data("data: {\"jsonrpc\":\"2.0\",\"id\":\"one\",\"result\":{}}\n\n".into())
        .await
        .unwrap();
    assert_eq!(old.event().await, message(r#"{"jsonrpc":"2.0","id":"one","result":{}}"#));
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    drop(pipe.lock().unwrap().take().unwrap());
    let error = old.event().await;
    assert!(error.contains(r#""id":"one","error""#), "{error}");
}

#[tokio::test(start_paused = true)]
async fn truncated_json_becomes_error() {
    let mut old = LegacyClient::connect(mcp(|_| {
        let (mut sender, body) = Pipe::<Bytes, BoxError>::new(8);
        sender
            .try_send(http_body::Frame::data("{\"jsonrpc\":\"2.0\",\"id\":\"one\"".into()))
            .unwrap();
        sender.abort("the connection was reset".into());
        let mut response = json(200, "");
        *response.body_mut() = Body::wrap(body);
        ready(response)
    }))
    .await;
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    let error = old.event().await;
    assert!(error.contains(r#""id":"one","error""#), "{error}");
}

#[tokio::test(start_paused = true)]
async fn forwards_unsolicited_messages_until_session_ends() {
    let pipe = Arc::new(Mutex::new(None::<Sender<Bytes, BoxError>>));
    let opened = Arc::clone(&pipe);
    let gets = AtomicUsize::new(0);
    let mut old = LegacyClient::connect(mcp(move |request| {
        assert_eq!((request.method(), &request.headers()[ACCEPT]), (&Method::GET, &EVENT_STREAM));
        let first = gets.fetch_add(1, Ordering::Relaxed) == 0;
        if first { events(&opened) } else { ready(json(404, "{}")) }
    }))
    .await;
    assert_eq!(old.post(INITIALIZED).await.status(), StatusCode::ACCEPTED);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut standing = pipe.lock().unwrap().take().unwrap();
    standing.send_data("data: {\"n\":1}\n\n".into()).await.unwrap();
    assert_eq!(old.event().await, message("{\"n\":1}"));
    drop(standing);
    assert_eq!(old.event().await, "");
}

#[tokio::test(start_paused = true)]
async fn sends_keep_alive_and_limits_handshake_time() {
    let mut old = LegacyClient::connect(mcp(|_| never())).await;
    for _ in 0..10 {
        assert_eq!(old.event().await, ": keep-alive\n\n");
    }
    let mut idle = LegacyClient::open(mcp(|_| never())).await;
    let opened = Instant::now();
    while !idle.event().await.is_empty() {}
    assert_eq!(opened.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn limits_pending_streams_and_messages() {
    let old = LegacyClient::connect(mcp(|_| never())).await;
    for _ in 0..64 {
        assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    }
    assert_eq!(old.post(LIST).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let caller = Identity::anonymous();
    let second = send(&old.service, Method::GET, STREAM_PATH, &caller, "").await;
    let third = send(&old.service, Method::GET, STREAM_PATH, &caller, "").await;
    assert_eq!((second.status().as_u16(), third.status().as_u16()), (200, 503));
    drop(second);
    assert_eq!(send(&old.service, Method::GET, STREAM_PATH, &caller, "").await.status(), 200);
    assert_eq!(old.post(&"x".repeat(1001)).await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn rejects_posts_of_other_callers() {
    let old = LegacyClient::connect(mcp(|_| never())).await;
    let foreign = Identity::new("https://issuer.test", "mallory");
    let response = send(&old.service, Method::POST, &old.address, &foreign, LIST).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
}

#[tokio::test(start_paused = true)]
async fn session_ends_with_stream() {
    let deleted = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&deleted);
    let old = LegacyClient::connect(mcp(move |request| {
        if request.method() == Method::DELETE {
            assert_eq!(request.headers()[SESSION_ID], "s1");
            counting.fetch_add(1, Ordering::Relaxed);
        }
        never()
    }))
    .await;
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    let LegacyClient { clients, stream, service, address } = old;
    drop(stream);
    tokio::task::yield_now().await;
    assert_eq!((deleted.load(Ordering::Relaxed), clients.len()), (1, 0));
    let late = send(&service, Method::POST, &address, &Identity::anonymous(), LIST).await;
    assert_eq!(late.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn charges_queued_messages_to_budget() {
    let budget = ByteBudget::new(200_000);
    let decode = DecodeLayer::new().budget(budget.clone());
    let large = format!(r#"{{"jsonrpc":"2.0","id":"one","result":"{}"}}"#, "x".repeat(60_000));
    let event = format!("data: {large}\n\n");
    let is_stream = Arc::new(AtomicUsize::new(0));
    let streams = Arc::clone(&is_stream);
    let answers = mcp(move |_| {
        if streams.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return ready(json(200, &large));
        }
        let mut response = Response::new(Body::from(event.clone()));
        response.headers_mut().insert(CONTENT_TYPE, EVENT_STREAM);
        ready(response)
    });
    let service = LegacySse::new(answers, Arc::new(ClientTable::new(2, decode)));
    let mut old = LegacyClient::connect_to(service).await;
    for _ in 0..2 {
        assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let held = budget.counts().held;
        assert!((60_000..70_000).contains(&held), "{held}");
        // The second does not fit into a client's share, and an error stands in its place.
        assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(old.event().await.len() > 60_000);
        let error = old.event().await;
        assert!(error.contains(r#""id":"one","error""#), "{error}");
        assert_eq!(budget.counts().held, 0);
        // The other form of an answer is the first one now.
        is_stream.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(budget.counts().rejections, 2);
}

#[tokio::test(start_paused = true)]
async fn charges_json_while_reading() {
    let budget = ByteBudget::new(400_000);
    let decode = DecodeLayer::new().budget(budget.clone());
    let (mut sender, body) = http_body_util::channel::Channel::<Bytes, BoxError>::new(1);
    let body = std::sync::Mutex::new(Some(Body::wrap(body)));
    let answers = mcp(move |_| {
        let mut response = Response::new(body.lock().unwrap().take().unwrap_or_default());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        ready(response)
    });
    let service = LegacySse::new(answers, Arc::new(ClientTable::new(2, decode)));
    let old = LegacyClient::connect_to(service).await;
    assert_eq!(old.post(LIST).await.status(), StatusCode::ACCEPTED);
    sender.send_data(vec![b' '; 50_000].into()).await.unwrap();
    sender.send_data(vec![b' '; 50_000].into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(budget.counts().held >= 100_000, "{:?}", budget.counts());
}

#[tokio::test(start_paused = true)]
async fn rejects_oversized_message() {
    let old = LegacyClient::connect(mcp(|_| never())).await;
    assert_eq!(old.post(&"x".repeat(1001)).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
