use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body::{Body as _, SizeHint};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::sync::Notify;
use tower::{Layer, ServiceExt, service_fn};
use vmcp_core::{
    Backend, Body, Clock, Generation, Identity, McpRequest, Rejection, RequestContext,
};

use super::*;
use crate::{
    AuditLayer, AuditSettings, AuditSink, BoundedText, Capacity, ClientInfo, Event, EventFilter,
    EventSource, EventType, Outcome, PayloadExcerpt,
};

mod streams;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"paint","arguments":{"apiKey":"c4n4ry","color":"red"},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"brush","version":"1.2"}}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
const ERROR: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no such color"}}"#;

/// A layer and the events that it recorded.
struct Fixture {
    layer: AuditLayer,
    auditor: Auditor,
    recorded: Arc<Mutex<Vec<Event>>>,
}

impl Fixture {
    fn new(settings: AuditSettings) -> Self {
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&recorded);
        let record = move |event| kept.lock().unwrap().push(event);
        let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
        let auditor = Auditor::with_clock(settings, record, clock);
        Self { layer: AuditLayer::new(auditor.clone()), auditor, recorded }
    }

    fn events(&self) -> Vec<Event> {
        self.recorded.lock().unwrap().clone()
    }

    /// Returns the only event.
    fn event(&self) -> Event {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }
}

fn text(text: Option<&BoundedText>) -> Option<&str> {
    text.map(|text| &**text)
}

fn message(text: &str) -> McpRequest {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let envelope = vmcp_wire::scan(&bytes).unwrap();
    McpRequest { bytes, envelope, generation: Generation::Stateful }
}

fn post() -> Request<()> {
    let mut request =
        Request::post("/mcp?ticket=c4n4ry").header("user-agent", "t/1").body(()).unwrap();
    request.extensions_mut().insert(SocketAddr::from(([10, 0, 0, 1], 4711)));
    request
}

fn response(media: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, media.parse().unwrap());
    response
}

fn json_response(text: &'static str) -> Response<Body> {
    response("application/json", Bytes::from_static(text.as_bytes()))
}

/// Returns a service that records the message `text` and responds with `respond`.
fn serve<F>(
    text: &'static str,
    respond: F,
) -> impl Service<Request<()>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
where
    F: Fn(&RequestContext) -> Response<Body> + Clone + Send,
{
    service_fn(move |request: Request<()>| {
        let request_context = request.extensions().get::<RequestContext>().unwrap();
        if !text.is_empty() {
            request_context.record_message(&message(text));
        }
        let response = respond(request_context);
        async { Ok(response) }
    })
}

async fn send<S, R>(fixture: &Fixture, service: S, request: Request<()>) -> Bytes
where
    S: Service<Request<()>, Response = Response<R>, Error: std::fmt::Debug>,
    R: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let response = fixture.layer.layer(service).oneshot(request).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test(start_paused = true)]
async fn records_one_complete_event_for_each_call() {
    let fixture = Fixture::new(AuditSettings::default());
    let service = serve(CALL, |request_context| {
        request_context.record_identity(&Identity::new("https://i", "u1"));
        request_context.record_backend(&Backend::new("shed"));
        json_response(RESULT)
    });
    assert_eq!(send(&fixture, service, post()).await, RESULT);
    let Event { kind, outcome, at, source, caller, client, target, details, request, response } =
        fixture.event();
    assert_eq!((kind, outcome), (EventType::ToolCall, Outcome::Success));
    assert_eq!(at, fixture.auditor.now());
    let EventSource::Network { address, user_agent, request_id } = source else {
        panic!("{source:?}")
    };
    assert_eq!(address.unwrap().to_string(), "10.0.0.1");
    assert_eq!((text(user_agent.as_ref()), text(request_id.as_ref())), (Some("t/1"), None));
    assert_eq!(caller.unwrap().subject(), Some("u1"));
    let ClientInfo { name, version } = client.unwrap();
    assert_eq!((text(name.as_ref()), text(version.as_ref())), (Some("brush"), Some("1.2")));
    assert_eq!((target.kind, &*target.endpoint, &*target.method), ("tool", "/mcp", "tools/call"));
    assert_eq!(text(target.name.as_ref()), Some("paint"));
    assert_eq!((details.duration, details.size), (Some(Duration::ZERO), Some(RESULT.len() as u64)));
    assert_eq!(details.backend.unwrap().name(), "shed");
    assert_eq!((details.error_code, details.cancelled), (None, false));
    assert!(request.is_none() && response.is_none());
}

#[tokio::test(start_paused = true)]
async fn records_no_task_id() {
    let fixture = Fixture::new(AuditSettings::default());
    let get = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"secret"}}"#;
    send(&fixture, serve(get, |_| json_response(RESULT)), post()).await;
    let target = fixture.event().target;
    assert_eq!((target.kind, &*target.method), ("task", "tasks/get"));
    assert!(target.name.is_none());
}

#[tokio::test(start_paused = true)]
async fn records_requests_rejected_before_decoding() {
    let fixture = Fixture::new(AuditSettings::default());
    let refuse = serve("", |_| Rejection::too_large(5).into_response(None));
    send(&fixture, refuse, post()).await;
    let event = fixture.event();
    assert_eq!((event.kind, event.outcome), (EventType::HttpRequest, Outcome::Failure));
    // The query may contain secrets.
    let target = &event.target;
    assert_eq!((target.kind, &*target.endpoint, &*target.method), ("endpoint", "/mcp", "POST"));
    assert_eq!(event.details.error_code, Some(-32600));
}

#[tokio::test(start_paused = true)]
async fn derives_outcome_from_status() {
    for (status, outcome) in [
        (200, Outcome::Success),
        (202, Outcome::Success),
        (304, Outcome::Success),
        (401, Outcome::Denied),
        (403, Outcome::Denied),
        (404, Outcome::Failure),
        (429, Outcome::Failure),
        (500, Outcome::Error),
        (503, Outcome::Error),
    ] {
        let fixture = Fixture::new(AuditSettings::default());
        let service = serve(CALL, move |_| {
            let mut response = json_response(RESULT);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response
        });
        send(&fixture, service, post()).await;
        assert_eq!(fixture.event().outcome, outcome, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn records_denials_hidden_by_the_response() {
    let fixture = Fixture::new(AuditSettings::default());
    let service = serve(CALL, |request_context| {
        request_context.record_denied("not permitted by policy");
        Rejection::not_found("tool", "paint").for_stateful_client().into_response(Some(b"1"))
    });
    send(&fixture, service, post()).await;
    let event = fixture.event();
    assert_eq!(event.outcome, Outcome::Denied);
    assert_eq!(event.details.denied, Some("not permitted by policy"));
}

#[tokio::test(start_paused = true)]
async fn identity_provider_outage_is_error_not_denial() {
    let fixture = Fixture::new(AuditSettings::default());
    let service = serve(CALL, |request_context| {
        request_context.record_denied("identity provider unavailable");
        let mut response = json_response("{}");
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    });
    send(&fixture, service, post()).await;
    let event = fixture.event();
    assert_eq!(event.outcome, Outcome::Error);
    assert_eq!(event.details.denied, Some("identity provider unavailable"));
}

#[tokio::test(start_paused = true)]
async fn error_in_200_is_application_error() {
    let fixture = Fixture::new(AuditSettings::default());
    send(&fixture, serve(CALL, |_| json_response(ERROR)), post()).await;
    let stream =
        "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"x\"}}\n\n";
    let stream = move |_: &RequestContext| {
        response("text/event-stream", Bytes::from_static(stream.as_bytes()))
    };
    send(&fixture, serve(CALL, stream), post()).await;
    let tool = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
    send(&fixture, serve(CALL, move |_| json_response(tool)), post()).await;
    let events = fixture.events();
    assert!(events.iter().all(|event| event.outcome == Outcome::ApplicationError), "{events:?}");
    let details = |index: usize| &events[index].details;
    assert_eq!(details(0).error_code, Some(-32000));
    assert_eq!(details(0).error_message, Some(PayloadExcerpt::new(b"no such color", 256)));
    assert_eq!(details(1).error_code, Some(-1));
    assert!(details(2).tool_error);

    let blind = Fixture::new(AuditSettings {
        detect_application_errors: false,
        ..AuditSettings::default()
    });
    send(&blind, serve(CALL, |_| json_response(ERROR)), post()).await;
    assert_eq!(blind.event().outcome, Outcome::Success);
}

#[tokio::test(start_paused = true)]
async fn records_payloads_only_if_configured() {
    let service = serve(CALL, |_| json_response(RESULT));
    let settings = AuditSettings {
        include_request_data: true,
        include_response_data: true,
        max_data_size: 40,
        ..AuditSettings::default()
    };
    let fixture = Fixture::new(settings.clone());
    send(&fixture, service.clone(), post()).await;
    let event = fixture.event();
    assert_eq!(event.request, Some(PayloadExcerpt::new(CALL.as_bytes(), 40)));
    assert_eq!(event.response, Some(PayloadExcerpt::new(RESULT.as_bytes(), 40)));

    let whole = Fixture::new(AuditSettings { max_data_size: usize::MAX, ..settings });
    send(&whole, service.clone(), post()).await;
    assert_eq!(whole.event().request, Some(PayloadExcerpt::new(CALL.as_bytes(), 1 << 20)));

    let without = Fixture::new(AuditSettings::default());
    send(&without, service, post()).await;
    assert_eq!((without.event().request, without.event().response), (None, None));
}

#[test]
fn applies_settings_to_external_events() {
    let settings = AuditSettings {
        events: EventFilter::new(&[], &[EventType::Ping]),
        include_request_data: true,
        max_data_size: 4,
        ..AuditSettings::default()
    };
    let fixture = Fixture::new(settings);
    for kind in [EventType::Ping, EventType::WorkflowFailed] {
        fixture.auditor.record(Event {
            request: Some(PayloadExcerpt::new(b"asked", 99)),
            response: Some(PayloadExcerpt::new(b"answered", 99)),
            ..Event::new(kind, Outcome::Failure, fixture.auditor.now())
        });
    }
    let event = fixture.event();
    assert_eq!(event.kind, EventType::WorkflowFailed);
    assert_eq!((event.request, event.response), (Some(PayloadExcerpt::new(b"asked", 4)), None));
}

/// Sink without capacity until it is notified.
struct BlockingSink(Arc<Notify>, Arc<Mutex<usize>>);

impl AuditSink for BlockingSink {
    fn record(&self, _: Event) {
        *self.1.lock().unwrap() += 1;
    }

    fn reserve(&self) -> Option<Capacity> {
        let Self(capacity, _) = self;
        let capacity = Arc::clone(capacity);
        Some(Box::pin(async move { capacity.notified().await }))
    }
}

#[tokio::test(start_paused = true)]
async fn response_waits_for_capacity_but_event_does_not() {
    let (capacity, recorded) = <(Arc<Notify>, Arc<Mutex<usize>>)>::default();
    let auditor = Auditor::new(
        AuditSettings::default(),
        BlockingSink(Arc::clone(&capacity), Arc::clone(&recorded)),
    );
    let service = AuditLayer::new(auditor).layer(serve(CALL, |_| json_response(RESULT)));
    let waiting = tokio::time::timeout(Duration::from_secs(1), service.clone().oneshot(post()));
    assert!(waiting.await.is_err());
    assert_eq!(*recorded.lock().unwrap(), 1, "a cancelled call is recorded");
    capacity.notify_one();
    let response = service.oneshot(post()).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), RESULT);
    assert_eq!(*recorded.lock().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn records_cancelled_calls() {
    let fixture = Fixture::new(AuditSettings::default());
    let never = service_fn(|request: Request<()>| {
        request.extensions().get::<RequestContext>().unwrap().record_message(&message(CALL));
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let call = fixture.layer.layer(never).oneshot(post());
    assert!(tokio::time::timeout(Duration::from_secs(2), call).await.is_err());
    let Event { outcome, target, details, .. } = fixture.event();
    assert_eq!((outcome, text(target.name.as_ref())), (Outcome::Failure, Some("paint")));
    assert_eq!((details.duration, details.size), (Some(Duration::from_secs(2)), None));
    assert!(details.cancelled);
}

#[tokio::test(start_paused = true)]
async fn failing_or_panicking_service_is_error() {
    let fixture = Fixture::new(AuditSettings::default());
    let fails =
        service_fn(|_: Request<()>| async { Err::<Response<Body>, _>(io::Error::other("c4n4ry")) });
    fixture.layer.layer(fails).oneshot(post()).await.unwrap_err();
    let panics = service_fn(|request: Request<()>| async move {
        assert!(request.headers().is_empty(), "intentional panic");
        Ok::<_, Infallible>(json_response(RESULT))
    });
    tokio::spawn(fixture.layer.layer(panics).oneshot(post())).await.unwrap_err();
    let events = fixture.events();
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.outcome == Outcome::Error), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn records_only_selected_types() {
    let only = EventFilter::new(&[EventType::HttpRequest], &[]);
    let fixture = Fixture::new(AuditSettings { events: only, ..AuditSettings::default() });
    send(&fixture, serve(CALL, |_| json_response(RESULT)), post()).await;
    assert!(fixture.events().is_empty());
    send(&fixture, serve("", |_| json_response(RESULT)), post()).await;
    assert_eq!(fixture.event().kind, EventType::HttpRequest);
}

#[tokio::test(start_paused = true)]
async fn records_target_of_each_message() {
    for (params, method, kind, name) in [
        (r#"{"uri":"file:///a"}"#, "resources/read", "mcp_resource_read", Some("file:///a")),
        (r#"{"name":"p"}"#, "prompts/get", "mcp_prompt_get", Some("p")),
        (r#"{"cursor":"c"}"#, "tools/list", "mcp_tools_list", None),
        (
            r#"{"ref":{"type":"ref/prompt","name":"p"}}"#,
            "completion/complete",
            "mcp_completion",
            Some("p"),
        ),
        (r#"{"level":"info"}"#, "logging/setLevel", "mcp_logging", Some("info")),
        (r#"{"clientInfo":{"name":"c","version":"1"}}"#, "initialize", "mcp_initialize", Some("c")),
        ("{}", "server/discover", "mcp_request", None),
    ] {
        let client_info =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let fixture = Fixture::new(AuditSettings::default());
        let service = serve(client_info.leak(), |_| json_response(RESULT));
        send(&fixture, service, post()).await;
        let Event { kind: found, target, .. } = fixture.event();
        assert_eq!((found.name(), text(target.name.as_ref())), (kind, name));
        assert_eq!(&*target.method, method);
    }
}

#[tokio::test(start_paused = true)]
async fn forwards_frames_and_size_hint() {
    let fixture = Fixture::new(AuditSettings::default());
    let inner = service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"abc"))))
    });
    let response = fixture.layer.layer(inner).oneshot(post()).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), SizeHint::with_exact(3).exact());
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
    assert!(body.is_end_stream());
    // Recorded although the end of the body was never polled.
    assert_eq!(fixture.event().details.size, Some(3));
}

#[tokio::test]
async fn forwards_inner_readiness() {
    let fixture = Fixture::new(AuditSettings::default());
    let (mut service, mut handle) =
        tower_test::mock::spawn_layer::<Request<()>, Response<Body>, _>(fixture.layer.clone());
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
    let call = service.call(post());
    let (request, respond) = handle.next_request().await.unwrap();
    assert!(request.extensions().get::<RequestContext>().is_some());
    respond.send_response(json_response(RESULT));
    assert!(call.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn response_body_can_be_boxed() {
    let fixture = Fixture::new(AuditSettings::default());
    let audited = fixture.layer.layer(serve(CALL, |_| json_response(RESULT)));
    let stack = tower::util::BoxCloneSyncService::new(
        audited.map_response(|response| response.map(Body::wrap)),
    );
    assert_eq!(
        stack.oneshot(post()).await.unwrap().into_body().collect().await.unwrap().to_bytes(),
        RESULT
    );
    assert_eq!(fixture.event().outcome, Outcome::Success);
}

#[tokio::test(start_paused = true)]
async fn debug_output_contains_no_secrets() {
    let settings = AuditSettings {
        include_request_data: true,
        include_response_data: true,
        ..AuditSettings::default()
    };
    let fixture = Fixture::new(settings);
    let service = serve(CALL, |request_context| {
        let identity = Identity::builder("i", "s").token("c4n4ry".into());
        let claims = json!({"jti": "c4n4ry", "groups": ["c4n4ry"]});
        request_context
            .record_identity(&identity.claims(claims.as_object().unwrap().clone()).build());
        json_response(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"Bearer c4n4ry"}}"#)
    });
    let mut request = post();
    request.headers_mut().insert("authorization", "Bearer c4n4ry".parse().unwrap());
    let response = fixture.layer.layer(service).oneshot(request).await.unwrap();
    let shown = format!("{response:?}");
    response.into_body().collect().await.unwrap();
    let event = fixture.event();
    let secret = event.details.error_message.clone().unwrap().prefix;
    assert_eq!(secret, b"Bearer c4n4ry", "redaction is left to the sink");
    let shown = format!("{shown}{event:?}{:?}", fixture.layer);
    assert!(!shown.contains("c4n4ry"), "{shown}");
}
