use std::sync::Mutex;

use http_body_util::channel::{Channel as Pipe, Sender};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tower::ServiceExt;
use vmcp_core::{Backend, MediaType, cause_ref};
use vmcp_timeout::Elapsed;

use super::*;
use crate::backend::BackendHandle;
use crate::backend::request::with_operation;
use crate::settings::{BackendSettings, CredentialAdvice, ServiceWrapper, Sharing, Transport};

const PATIENCE: Duration = Duration::from_secs(10);
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":5}}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#;

type Post = Box<dyn Fn(&str) -> Option<StatusCode> + Send + Sync>;

/// Backend whose messages are controlled by the test.
struct Fake {
    service: BackendService,
    /// The service without the adapter.
    bare: BackendService,
    posts: UnboundedReceiver<(String, String)>,
    stream: Sender<Bytes, BoxError>,
}

/// Creates a backend whose stream begins with `opening`. `post` generates the response to each post; `None` sends none.
async fn fake(opening: &'static str, post: Post) -> Fake {
    let (said, posts) = unbounded_channel();
    let (mut stream, body) = Pipe::<Bytes, BoxError>::new(64);
    let body = Arc::new(Mutex::new(Some(Body::wrap(body))));
    let post = Arc::new(post);
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let (said, body, post) = (said.clone(), Arc::clone(&body), Arc::clone(&post));
        async move { Ok::<_, BoxError>(respond(request, &said, &body, &post).await) }
    });
    stream.send_data(Bytes::from_static(opening.as_bytes())).await.unwrap();
    let bare = BackendService::new(service);
    Fake { service: adapt(bare.clone(), PATIENCE, None), bare, posts, stream }
}

async fn respond(
    request: Request<Full<Bytes>>,
    said: &UnboundedSender<(String, String)>,
    body: &Mutex<Option<Body>>,
    post: &Post,
) -> Response<Body> {
    assert!(request.extensions().get::<ChannelHandle>().is_none(), "a lease stays within");
    assert!(request.extensions().get::<McpOperation>().is_none(), "an operation is no post");
    if request.method() == Method::GET {
        assert_eq!(request.headers()["accept"], "text/event-stream");
        return event_stream(body.lock().unwrap().take().expect("one stream"));
    }
    let uri = request.uri().to_string();
    let message = request.into_body().collect().await.unwrap().to_bytes();
    let message = String::from_utf8(message.to_vec()).unwrap();
    let status = post(&message);
    said.send((uri, message)).unwrap();
    match status {
        Some(status) => empty_response(status),
        None => std::future::pending().await,
    }
}

async fn obliging() -> Fake {
    fake("event: endpoint\ndata: /post?s=1\n\n", Box::new(|_| Some(StatusCode::ACCEPTED))).await
}

fn post(message: &str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(message.as_bytes())));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static("http://be.test/sse");
    request
}

fn within(handle: &ChannelHandle, mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    request.extensions_mut().insert(handle.clone());
    request
}

impl Fake {
    async fn say(&mut self, message: &str) {
        let event = format!("event: message\ndata: {message}\n\n");
        self.stream.send_data(event.into()).await.unwrap();
    }

    fn begin(
        &self,
        request: Request<Full<Bytes>>,
    ) -> tokio::task::JoinHandle<Result<Response<Body>, BoxError>> {
        tokio::spawn(self.service.clone().oneshot(request))
    }

    async fn posted(&mut self) -> String {
        self.posts.recv().await.unwrap().1
    }

    async fn open(&mut self) -> ChannelHandle {
        let opening = self.begin(post(HELLO));
        assert_eq!(
            self.posts.recv().await.unwrap(),
            ("http://be.test/post?s=1".into(), HELLO.into())
        );
        self.say(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#).await;
        let mut response = opening.await.unwrap().unwrap();
        assert_eq!(response.headers()["content-type"], "application/json");
        response.extensions_mut().remove().unwrap()
    }

    /// Sends a request and waits until the backend has received it.
    async fn ask(
        &mut self,
        handle: &ChannelHandle,
        message: &str,
    ) -> tokio::task::JoinHandle<Result<Response<Body>, BoxError>> {
        let with_operation = self.begin(within(handle, post(message)));
        assert_eq!(self.posted().await, message);
        with_operation
    }
}

async fn text(body: Body) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn returns_single_response_as_json() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let with_operation = fake.ask(&handle, CALL).await;
    fake.say(r#"{"jsonrpc":"2.0","id":77,"result":{"whose":"nobody's"}}"#).await;
    fake.say(ANSWER).await;
    let response = with_operation.await.unwrap().unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(text(response.into_body()).await, ANSWER);
}

#[tokio::test(start_paused = true)]
async fn returns_response_with_progress_as_stream() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let with_operation = fake.ask(&handle, CALL).await;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}"#;
    fake.say(progress).await;
    let response = with_operation.await.unwrap().unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    fake.say(ANSWER).await;
    assert_eq!(text(response.into_body()).await, format!("data: {progress}\n\ndata: {ANSWER}\n\n"));
}

#[tokio::test(start_paused = true)]
async fn matches_out_of_order_responses_to_requests() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let other = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#;
    let one = fake.ask(&handle, CALL).await;
    let two = fake.ask(&handle, other).await;
    fake.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
    fake.say(ANSWER).await;
    assert_eq!(text(one.await.unwrap().unwrap().into_body()).await, ANSWER);
    let two = text(two.await.unwrap().unwrap().into_body()).await;
    assert_eq!(two, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
}

#[tokio::test(start_paused = true)]
async fn sends_unsolicited_messages_on_get_stream() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    fake.say(changed).await;
    let mut get = within(&handle, post(""));
    *get.method_mut() = Method::GET;
    let mut standing = fake.begin(get).await.unwrap().unwrap().into_body();
    let event = standing.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(event, format!("data: {changed}\n\n"));
    drop(fake.stream);
    assert!(standing.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn broken_stream_fails_pending_calls_and_ends_session() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let with_operation = fake.ask(&handle, CALL).await;
    fake.stream.abort("reset by peer".into());
    let error = with_operation.await.unwrap().unwrap_err();
    assert!(matches!(cause_ref::<BackendError>(error.as_ref()), Some(BackendError::Ended)));
    let request = within(&handle, post(CALL));
    let response = fake.service.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(fake.posts.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn times_out_silent_backend() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let with_operation = fake.ask(&handle, CALL).await;
    let error = with_operation.await.unwrap().unwrap_err();
    assert!(cause_ref::<Elapsed>(error.as_ref()).is_some());
    // The cancellation notice is sent by the caller, not by the adapter.
    assert!(fake.posts.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn pauses_timeout_during_open_server_request() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let mut request = within(&handle, post(CALL));
    request.extensions_mut().insert(TimeoutControl::new());
    let with_operation = fake.begin(request);
    fake.posted().await;
    fake.say(QUESTION).await;
    let response = with_operation.await.unwrap().unwrap();
    let reading = tokio::spawn(text(response.into_body()));
    tokio::time::sleep(5 * PATIENCE).await;
    let reply = r#"{"jsonrpc":"2.0","id":"q","result":{"action":"decline"}}"#;
    let response = fake.begin(within(&handle, post(reply))).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(fake.posted().await, reply);
    tokio::time::sleep(PATIENCE / 2).await;
    fake.say(ANSWER).await;
    assert_eq!(reading.await.unwrap(), format!("data: {QUESTION}\n\ndata: {ANSWER}\n\n"));
}

#[tokio::test(start_paused = true)]
async fn accepts_response_while_post_hangs() {
    let hangs = |message: &str| (!message.contains("tools/call")).then_some(StatusCode::ACCEPTED);
    let mut fake = fake("event: endpoint\ndata: /post?s=1\n\n", Box::new(hangs)).await;
    let handle = fake.open().await;
    let with_operation = fake.ask(&handle, CALL).await;
    fake.say(ANSWER).await;
    assert_eq!(text(with_operation.await.unwrap().unwrap().into_body()).await, ANSWER);
}

#[tokio::test(start_paused = true)]
async fn returns_post_rejection_as_response() {
    let refuses = |message: &str| {
        let refused = message.contains("tools/call");
        Some(if refused { StatusCode::NOT_FOUND } else { StatusCode::ACCEPTED })
    };
    let mut fake = fake("event: endpoint\ndata: /post?s=1\n\n", Box::new(refuses)).await;
    let handle = fake.open().await;
    let with_operation = fake.ask(&handle, CALL).await;
    assert_eq!(with_operation.await.unwrap().unwrap().status(), StatusCode::NOT_FOUND);
    assert!(handle.0.demultiplexer.is_closed());
    assert!(fake.posts.try_recv().is_err(), "what was refused needs no cancelling");
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_ends_immediately() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let with_operation = fake.ask(&handle, CALL).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    fake.begin(within(&handle, post(cancel))).await.unwrap().unwrap();
    assert_eq!(fake.posted().await, cancel);
    let error = with_operation.await.unwrap().unwrap_err();
    assert!(matches!(cause_ref(error.as_ref()), Some(BackendError::Cancelled)), "{error}");
    assert!(fake.posts.try_recv().is_err(), "it is told once");
}

#[tokio::test(start_paused = true)]
async fn answers_pings_without_listener() {
    let mut fake = obliging().await;
    let _lease = fake.open().await;
    fake.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    assert_eq!(fake.posted().await, r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
}

#[tokio::test(start_paused = true)]
async fn closes_stream_with_last_handle_or_delete() {
    for delete in [false, true] {
        let mut fake = obliging().await;
        let handle = fake.open().await;
        if delete {
            let mut request = within(&handle, post(""));
            *request.method_mut() = Method::DELETE;
            let response = fake.begin(request).await.unwrap().unwrap();
            assert_eq!(response.status(), StatusCode::NO_CONTENT);
        } else {
            drop(handle);
        }
        tokio::task::yield_now().await;
        assert!(fake.stream.send_data(Bytes::from_static(b"x")).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_stream_without_own_endpoint() {
    let accepted = || Box::new(|_: &str| Some(StatusCode::ACCEPTED));
    let foreign = fake("event: endpoint\ndata: http://evil.test/\n\n", accepted()).await;
    let error = foreign.begin(post(HELLO)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("another origin"), "{error}");
    let silent = fake(": hello\n\n", accepted()).await;
    let error = silent.begin(post(HELLO)).await.unwrap().unwrap_err();
    assert!(cause_ref::<Elapsed>(error.as_ref()).is_some());
    for mut fake in [foreign, silent] {
        assert!(fake.posts.try_recv().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_handshake_opens_a_stream() {
    let fake = obliging().await;
    let response = fake.begin(post(CALL)).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn wrapper_sees_operations_and_responses_without_posts() {
    let mut fake = obliging().await;
    let (saw, mut seen) = unbounded_channel();
    let wrapper = ServiceWrapper::new(move |service| {
        let saw = saw.clone();
        BackendService::new(tower::service_fn(move |request: Request<Full<Bytes>>| {
            let (service, saw) = (service.clone(), saw.clone());
            async move {
                let method = request.extensions().get::<McpOperation>().map(McpOperation::method);
                let response = service.oneshot(request).await?;
                saw.send((method, MediaType::of(response.headers()))).unwrap();
                Ok::<_, BoxError>(response)
            }
        }))
    });
    let settings = BackendSettings {
        backend: Backend::new("be"),
        uri: Uri::from_static("http://be.test/sse"),
        transport: Transport::Sse,
        catalog: Sharing::Shared,
        service: fake.bare.clone(),
        wrapper,
        breaker: None,
        credential_advice: CredentialAdvice::default(),
        message_timeout: PATIENCE,
        fingerprint: 0,
        service_revision: 0,
    };
    let backend = BackendHandle::new(settings, None);
    let opening = backend.begin(with_operation(post(HELLO), "initialize", None));
    let opening = tokio::spawn(opening);
    assert_eq!(fake.posted().await, HELLO);
    fake.say(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#).await;
    opening.await.unwrap().unwrap();
    assert_eq!(seen.recv().await, Some((Some("initialize"), MediaType::Json)));
    assert!(seen.is_empty());
}

#[tokio::test(start_paused = true)]
async fn long_messages_are_read_in_pieces() {
    let mut fake = obliging().await;
    let handle = fake.open().await;
    let calling = fake.begin(within(
        &handle,
        post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7}}}"#),
    ));
    fake.posted().await;
    let text = "x".repeat(200_000);
    let progress = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":7,"message":"{text}"}}}}"#
    );
    fake.say(&progress).await;
    let mut body = calling.await.unwrap().unwrap().into_body();
    let response = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":"{text}"}}}}"#);
    fake.say(&response).await;
    for message in [progress, response] {
        let mut event = Vec::new();
        while !event.ends_with(b"\n\n") {
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() < 40_000, "{} bytes of a copy that nothing counts", piece.len());
            event.extend_from_slice(&piece);
        }
        assert_eq!(event, format!("data: {message}\n\n").into_bytes());
    }
}
