use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body::{Body as _, SizeHint};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::{Layer, ServiceExt, service_fn};
use vmcp_core::{Backend, Body, Clock, Generation, Identity, McpRequest, Rejection, Trail};

use super::*;
use crate::{AuditLayer, EventType, Overflow, Selection, Settings};

mod loss;
mod streams;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"paint","arguments":{"apiKey":"c4n4ry","color":"red"},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"brush","version":"1.2"}}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
const ERROR: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no such color"}}"#;

/// What was written, as JSON.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn sink(&self) -> impl FnMut(&[u8]) -> io::Result<()> + Send + use<> {
        let log = self.clone();
        move |lines: &[u8]| {
            log.0.lock().unwrap().extend_from_slice(lines);
            Ok(())
        }
    }

    fn lines(&self) -> Vec<Value> {
        let bytes = self.0.lock().unwrap();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}

/// A layer, what it wrote, and how to wait for that.
struct Fixture {
    layer: AuditLayer,
    auditor: Auditor,
    log: Log,
}

impl Fixture {
    fn new(settings: Settings) -> Self {
        let log = Log::default();
        let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
        let (auditor, writer) = Auditor::with_clock(settings, log.sink(), clock);
        tokio::spawn(writer.run());
        Self { layer: AuditLayer::new(auditor.clone()), auditor, log }
    }

    async fn events(&self) -> Vec<Value> {
        self.auditor.flush().await;
        self.log.lines()
    }

    /// The only event.
    async fn event(&self) -> Value {
        let mut events = self.events().await;
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }
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

fn answer(media: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, media.parse().unwrap());
    response
}

fn json_answer(text: &'static str) -> Response<Body> {
    answer("application/json", Bytes::from_static(text.as_bytes()))
}

/// A service that notes `text` as its message and answers with what `respond` gives.
fn serve<F>(
    text: &'static str,
    respond: F,
) -> impl Service<Request<()>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
where
    F: Fn(&Trail) -> Response<Body> + Clone + Send,
{
    service_fn(move |request: Request<()>| {
        let trail = request.extensions().get::<Trail>().unwrap();
        if !text.is_empty() {
            trail.note_message(&message(text));
        }
        let response = respond(trail);
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
async fn a_call_makes_one_event_with_all_that_is_known() {
    let fixture = Fixture::new(Settings::default());
    let service = serve(CALL, |trail| {
        let claims = json!({"sub": "u1", "email": "u1@example.com", "act": {"sub": "bot"}});
        let claims = claims.as_object().unwrap().clone();
        trail.note_identity(&Identity::builder("https://i", "u1").claims(claims).build());
        trail.note_backend(&Backend::new("shed"));
        json_answer(RESULT)
    });
    assert_eq!(send(&fixture, service, post()).await, RESULT);
    let mut event = fixture.event().await;
    let id = event["audit_id"].take();
    let id = id.as_str().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
    assert_eq!(
        event,
        json!({
            "time": "1970-01-01T00:00:01.500Z",
            "level": "AUDIT",
            "msg": "audit_event",
            "audit_id": null,
            "type": "mcp_tool_call",
            "logged_at": "1970-01-01T00:00:01.500Z",
            "outcome": "success",
            "component": "vmcp-server",
            "source": {"type": "network", "value": "10.0.0.1", "extra": {"user_agent": "t/1"}},
            "subjects": {
                "user": "u1@example.com", "user_id": "u1",
                "client_name": "brush", "client_version": "1.2",
            },
            "delegation": {"chain": [{"sub": "bot"}]},
            "target": {"type": "tool", "endpoint": "/mcp", "method": "tools/call", "name": "paint"},
            "metadata": {"extra": {
                "transport": "http", "duration_ms": 0,
                "response_size_bytes": RESULT.len(), "backend_name": "shed",
            }},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_before_it_is_read_has_an_event_too() {
    let fixture = Fixture::new(Settings::default());
    let refuse = serve("", |_| Rejection::too_large(5).into_response(None));
    send(&fixture, refuse, post()).await;
    let event = fixture.event().await;
    assert_eq!((&event["type"], &event["outcome"]), (&json!("http_request"), &json!("failure")));
    assert_eq!(event["target"], json!({"type": "endpoint", "endpoint": "/mcp", "method": "POST"}));
    assert_eq!(event["metadata"]["extra"]["jsonrpc_error_code"], -32600);
    assert!(!event.to_string().contains("c4n4ry"), "the query is nobody's business");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_follows_from_the_status() {
    for (status, outcome) in [
        (200, "success"),
        (202, "success"),
        (304, "success"),
        (401, "denied"),
        (403, "denied"),
        (404, "failure"),
        (429, "failure"),
        (500, "error"),
        (503, "error"),
    ] {
        let fixture = Fixture::new(Settings::default());
        let service = serve(CALL, move |_| {
            let mut response = json_answer(RESULT);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response
        });
        send(&fixture, service, post()).await;
        assert_eq!(fixture.event().await["outcome"], outcome, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_that_the_answer_hides_is_a_denial() {
    let fixture = Fixture::new(Settings::default());
    let service = serve(CALL, |trail| {
        trail.note_denied("not permitted by policy");
        Rejection::unknown_name("tool", "paint").for_session().into_response(Some(b"1"))
    });
    send(&fixture, service, post()).await;
    let event = fixture.event().await;
    assert_eq!(event["outcome"], "denied");
    assert_eq!(event["metadata"]["extra"]["denied_reason"], "not permitted by policy");
}

#[tokio::test(start_paused = true)]
async fn an_error_in_a_200_is_an_application_error() {
    let fixture = Fixture::new(Settings::default());
    send(&fixture, serve(CALL, |_| json_answer(ERROR)), post()).await;
    let stream =
        "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"x\"}}\n\n";
    let stream =
        move |_: &Trail| answer("text/event-stream", Bytes::from_static(stream.as_bytes()));
    send(&fixture, serve(CALL, stream), post()).await;
    let tool = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
    send(&fixture, serve(CALL, move |_| json_answer(tool)), post()).await;
    let events = fixture.events().await;
    assert!(events.iter().all(|event| event["outcome"] == "application_error"), "{events:?}");
    let extra = |index: usize| &events[index]["metadata"]["extra"];
    assert_eq!(extra(0)["jsonrpc_error_code"], -32000);
    assert_eq!(extra(0)["jsonrpc_error_message"], "no such color");
    assert_eq!(extra(1)["jsonrpc_error_code"], -1);
    assert_eq!(extra(2)["tool_error"], true);

    let blind = Fixture::new(Settings { detect_application_errors: false, ..Settings::default() });
    send(&blind, serve(CALL, |_| json_answer(ERROR)), post()).await;
    assert_eq!(blind.event().await["outcome"], "success");
}

#[tokio::test(start_paused = true)]
async fn data_is_recorded_only_when_asked_for_and_without_secrets() {
    let long = r#"{"jsonrpc":"2.0","id":1,"result":{"token":"c4n4ry","text":"a long answer about nothing much, longer than is recorded"}}"#;
    let service = serve(CALL, move |_| json_answer(long));
    let settings = Settings {
        include_request_data: true,
        include_response_data: true,
        max_data_size: 80,
        ..Settings::default()
    };
    let fixture = Fixture::new(settings.clone());
    send(&fixture, service.clone(), post()).await;
    let event = fixture.event().await;
    let response = event["data"]["response"].as_str().unwrap();
    assert!(response.contains(r#""token":"[redacted]","text":"a lo"#), "{response}");
    assert!(response.ends_with("…[cut]"), "{response}");
    assert!(event["data"]["request"].as_str().unwrap().starts_with(r#"{"jsonrpc""#));
    assert!(!event.to_string().contains("c4n4ry"), "{event}");

    let whole = Fixture::new(Settings { max_data_size: 9999, ..settings });
    send(&whole, service.clone(), post()).await;
    let request = whole.event().await["data"]["request"].as_str().unwrap().to_owned();
    let request: Value = serde_json::from_str(&request).unwrap();
    assert_eq!(request["params"]["arguments"], json!({"apiKey": "[redacted]", "color": "red"}));

    let without = Fixture::new(Settings::default());
    send(&without, service, post()).await;
    assert_eq!(without.event().await["data"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_leaves_what_is_known() {
    let fixture = Fixture::new(Settings::default());
    let never = service_fn(|request: Request<()>| {
        request.extensions().get::<Trail>().unwrap().note_message(&message(CALL));
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let call = fixture.layer.layer(never).oneshot(post());
    assert!(tokio::time::timeout(Duration::from_secs(2), call).await.is_err());
    let event = fixture.event().await;
    assert_eq!((&event["outcome"], &event["target"]["name"]), (&json!("failure"), &json!("paint")));
    let extra = json!({"transport": "http", "duration_ms": 2000, "cancelled": true});
    assert_eq!(event["metadata"]["extra"], extra);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_or_panics_is_an_error() {
    let fixture = Fixture::new(Settings::default());
    let fails =
        service_fn(|_: Request<()>| async { Err::<Response<Body>, _>(io::Error::other("c4n4ry")) });
    fixture.layer.layer(fails).oneshot(post()).await.unwrap_err();
    let panics = service_fn(|request: Request<()>| async move {
        assert!(request.headers().is_empty(), "it does so on purpose");
        Ok::<_, Infallible>(json_answer(RESULT))
    });
    tokio::spawn(fixture.layer.layer(panics).oneshot(post())).await.unwrap_err();
    for event in fixture.events().await {
        assert_eq!(event["outcome"], "error", "{event}");
        assert!(!event.to_string().contains("c4n4ry"));
    }
}

#[tokio::test(start_paused = true)]
async fn only_selected_types_are_written() {
    let only = Selection::new(&[EventType::HttpRequest], &[]);
    let fixture = Fixture::new(Settings { events: only, ..Settings::default() });
    send(&fixture, serve(CALL, |_| json_answer(RESULT)), post()).await;
    assert_eq!(fixture.events().await, Vec::<Value>::new());
    send(&fixture, serve("", |_| json_answer(RESULT)), post()).await;
    assert_eq!(fixture.event().await["type"], "http_request");
}

#[tokio::test(start_paused = true)]
async fn each_message_is_named_by_what_it_is_about() {
    for (params, method, kind, name) in [
        (r#"{"uri":"file:///a"}"#, "resources/read", "mcp_resource_read", json!("file:///a")),
        (r#"{"name":"p"}"#, "prompts/get", "mcp_prompt_get", json!("p")),
        (r#"{"cursor":"c"}"#, "tools/list", "mcp_tools_list", Value::Null),
        (
            r#"{"ref":{"type":"ref/prompt","name":"p"}}"#,
            "completion/complete",
            "mcp_completion",
            json!("p"),
        ),
        (r#"{"level":"info"}"#, "logging/setLevel", "mcp_logging", json!("info")),
        (
            r#"{"clientInfo":{"name":"c","version":"1"}}"#,
            "initialize",
            "mcp_initialize",
            json!("c"),
        ),
        ("{}", "server/discover", "mcp_request", Value::Null),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let fixture = Fixture::new(Settings::default());
        let service = serve(text.leak(), |_| json_answer(RESULT));
        send(&fixture, service, post()).await;
        let event = fixture.event().await;
        assert_eq!((&event["type"], &event["target"]["name"]), (&json!(kind), &name));
        assert_eq!(event["target"]["method"], method);
    }
}

#[tokio::test(start_paused = true)]
async fn frames_and_size_pass_unchanged() {
    let fixture = Fixture::new(Settings::default());
    let inner = service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"abc"))))
    });
    let response = fixture.layer.layer(inner).oneshot(post()).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), SizeHint::with_exact(3).exact());
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
    assert!(body.is_end_stream());
    // Written although the body was never asked for its end.
    assert_eq!(fixture.event().await["metadata"]["extra"]["response_size_bytes"], 3);
}

#[tokio::test]
async fn readiness_is_that_of_the_service_inside() {
    let fixture = Fixture::new(Settings::default());
    let (mut service, mut handle) =
        tower_test::mock::spawn_layer::<Request<()>, Response<Body>, _>(fixture.layer.clone());
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
    let call = service.call(post());
    let (request, respond) = handle.next_request().await.unwrap();
    assert!(request.extensions().get::<Trail>().is_some());
    respond.send_response(json_answer(RESULT));
    assert!(call.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn it_fits_a_stack_of_one_body_type() {
    let fixture = Fixture::new(Settings::default());
    let audited = fixture.layer.layer(serve(CALL, |_| json_answer(RESULT)));
    let stack = tower::util::BoxCloneSyncService::new(
        audited.map_response(|response| response.map(Body::wrap)),
    );
    assert_eq!(
        stack.oneshot(post()).await.unwrap().into_body().collect().await.unwrap().to_bytes(),
        RESULT
    );
    assert_eq!(fixture.event().await["outcome"], "success");
}
