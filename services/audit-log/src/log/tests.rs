use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::{Layer, Service, ServiceExt, service_fn};
use vmcp_audit::{
    AuditLayer, AuditSettings as Events, Auditor, EventDetails, EventTarget, EventType, FieldValue,
    Outcome, PayloadExcerpt,
};
use vmcp_core::{Backend, Body, Clock, Generation, Identity, McpRequest, RequestContext};

use super::*;
use crate::FileSink;
use crate::writer::{HealthChange, health_change};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"paint","arguments":{"apiKey":"c4n4ry","color":"red"},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"brush","version":"1.2"}}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

/// Lines that were written, as JSON.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
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

/// Layer, its log, and the lines that the log wrote.
struct Fixture {
    layer: AuditLayer,
    auditor: Auditor,
    log: Log,
    lines: Lines,
}

impl Fixture {
    fn new(events: Events, settings: Settings) -> Self {
        let lines = Lines::default();
        let (log, writer) = Log::new(settings, lines.sink());
        tokio::spawn(writer.run());
        let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
        let auditor = Auditor::with_clock(events, log.clone(), clock);
        Self { layer: AuditLayer::new(auditor.clone()), auditor, log, lines }
    }

    /// Returns the only event.
    async fn event(&self) -> Value {
        self.log.flush().await;
        let mut lines = self.lines.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }
}

/// Returns the layer in front of `log`.
fn layer(log: &Log) -> AuditLayer {
    AuditLayer::new(Auditor::new(Events::default(), log.clone()))
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

fn json_response(text: &'static str) -> Response<Body> {
    let mut response = Response::new(Bytes::from_static(text.as_bytes()).into());
    response.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
    response
}

/// Returns a service that records `text` as its message and responds with the result of `respond`.
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

async fn send<S>(fixture: &Fixture, service: S, request: Request<()>)
where
    S: Service<Request<()>, Response = Response<Body>, Error: std::fmt::Debug>,
{
    let response = fixture.layer.layer(service).oneshot(request).await.unwrap();
    response.into_body().collect().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn call_is_one_line_with_all_fields() {
    let fixture = Fixture::new(Events::default(), Settings::default());
    let service = serve(CALL, |request_context| {
        let claims = json!({"sub": "u1", "email": "u1@example.com", "act": {"sub": "bot"}});
        let claims = claims.as_object().unwrap().clone();
        request_context
            .record_identity(&Identity::builder("https://i", "u1").claims(claims).build());
        request_context.record_backend(&Backend::new("shed"));
        json_response(RESULT)
    });
    send(&fixture, service, post()).await;
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
async fn payloads_are_written_without_secrets() {
    let long = r#"{"jsonrpc":"2.0","id":1,"result":{"token":"c4n4ry","text":"a long answer about nothing much, longer than is recorded"}}"#;
    let service = serve(CALL, move |_| json_response(long));
    let events = Events {
        include_request_data: true,
        include_response_data: true,
        max_data_size: 80,
        ..Events::default()
    };
    let fixture = Fixture::new(events.clone(), Settings::default());
    send(&fixture, service.clone(), post()).await;
    let event = fixture.event().await;
    let response = event["data"]["response"].as_str().unwrap();
    assert!(response.contains(r#""token":"[redacted]","text":"a lo"#), "{response}");
    assert!(response.ends_with("…[cut]"), "{response}");
    assert!(event["data"]["request"].as_str().unwrap().starts_with(r#"{"jsonrpc""#));
    assert!(!event.to_string().contains("c4n4ry"), "{event}");

    let whole = Fixture::new(Events { max_data_size: 9999, ..events }, Settings::default());
    send(&whole, service.clone(), post()).await;
    let request = whole.event().await["data"]["request"].as_str().unwrap().to_owned();
    let request: Value = serde_json::from_str(&request).unwrap();
    assert_eq!(request["params"]["arguments"], json!({"apiKey": "[redacted]", "color": "red"}));

    let without = Fixture::new(Events::default(), Settings::default());
    send(&without, service, post()).await;
    assert_eq!(without.event().await["data"], Value::Null);
}

/// Returns a sink that can be made to fail.
fn failing() -> (Lines, Arc<AtomicBool>, impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) {
    let (lines, full) = (Lines::default(), Arc::new(AtomicBool::new(false)));
    let mut write = lines.sink();
    let looked_at = full.clone();
    let sink = move |lines: &[u8]| {
        if looked_at.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        write(lines)
    };
    (lines, full, sink)
}

/// Sends one call through `layer` and reads the response to its end.
async fn call(audit: AuditLayer) -> Bytes {
    let response =
        audit.layer(serve(CALL, |_| json_response(RESULT))).oneshot(post()).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test(start_paused = true)]
async fn full_disk_is_counted_without_failing_requests() {
    let (lines, full, sink) = failing();
    let (log, writer) = Log::new(Settings::default(), sink);
    tokio::spawn(writer.run());
    let audit = layer(&log);
    full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(call(audit.clone()).await, RESULT);
        log.flush().await;
    }
    full.store(false, Ordering::SeqCst);
    call(audit).await;
    log.flush().await;
    assert_eq!(lines.lines().len(), 1);
    assert_eq!(log.counts(), Counts { written: 1, dropped: 0, failed: 3 });
}

#[tokio::test(start_paused = true)]
async fn file_on_full_disk_fails_no_request() {
    let sink = FileSink::open("/dev/full").unwrap();
    let (log, writer) = Log::new(Settings::default(), sink);
    tokio::spawn(writer.run());
    assert_eq!(call(layer(&log)).await, RESULT);
    log.flush().await;
    assert_eq!(log.counts().failed, 1);
}

#[test]
fn logs_failure_and_recovery_once() {
    let mut failing = false;
    let fails = [false, true, true, true, false, false];
    let told: Vec<_> = fails.into_iter().map(|fails| health_change(fails, &mut failing)).collect();
    assert_eq!(
        told,
        [None, Some(HealthChange::Failed), None, None, Some(HealthChange::Recovered), None]
    );
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_limit_are_counted() {
    let settings = Settings { queue_bytes: 4000, ..Settings::default() };
    let (log, writer) = Log::new(settings, Lines::default().sink());
    let audit = layer(&log);
    for _ in 0..50 {
        call(audit.clone()).await;
    }
    let dropped = log.counts().dropped;
    assert!((40..50).contains(&dropped), "{dropped}");
    log.close();
    writer.run().await;
    assert_eq!(log.counts(), Counts { written: 50 - dropped, dropped, failed: 0 });
}

#[tokio::test(start_paused = true)]
async fn responses_wait_for_queue_capacity() {
    let (lines, full, sink) = failing();
    let settings = Settings { queue_bytes: 4000, overflow: Overflow::Wait, ..Settings::default() };
    let (log, writer) = Log::new(settings, sink);
    tokio::spawn(writer.run());
    full.store(true, Ordering::SeqCst);
    let audit = layer(&log);
    let answered = Arc::new(Mutex::new(0));
    let (counting, calling) = (answered.clone(), audit.clone());
    let calls = tokio::spawn(async move {
        for _ in 0..20 {
            call(calling.clone()).await;
            *counting.lock().unwrap() += 1;
        }
    });
    tokio::time::sleep(Duration::from_mins(1)).await;
    let early = *answered.lock().unwrap();
    assert!((1..20).contains(&early), "{early}");
    assert!(log.queued_bytes() > 0);
    // A call that is cancelled while its response waits still has an event.
    assert!(tokio::time::timeout(Duration::from_secs(1), call(audit)).await.is_err());
    full.store(false, Ordering::SeqCst);
    calls.await.unwrap();
    log.flush().await;
    assert_eq!(lines.lines().len(), 21);
    assert_eq!(log.counts(), Counts { written: 21, dropped: 0, failed: 0 });
    assert_eq!(log.queued_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_full_disk() {
    let (_lines, full, sink) = failing();
    full.store(true, Ordering::SeqCst);
    let settings = Settings { overflow: Overflow::Wait, ..Settings::default() };
    let (log, writer) = Log::new(settings, sink);
    let writing = tokio::spawn(writer.run());
    call(layer(&log)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    log.close();
    writing.await.unwrap();
    assert_eq!(log.counts(), Counts { written: 0, dropped: 0, failed: 1 });
}

#[tokio::test(start_paused = true)]
async fn events_before_close_are_written() {
    let lines = Lines::default();
    let (log, writer) = Log::new(Settings::default(), lines.sink());
    let writing = tokio::spawn(writer.run());
    let audit = layer(&log);
    for _ in 0..3 {
        call(audit.clone()).await;
    }
    log.close();
    writing.await.unwrap();
    assert_eq!(lines.lines().len(), 3);
    // A flush returns when the writer has ended.
    log.flush().await;
    call(audit).await;
    assert_eq!(log.counts().dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn writer_ends_with_its_last_auditor() {
    let (log, writer) = Log::new(Settings::default(), Lines::default().sink());
    let writing = tokio::spawn(writer.run());
    drop(layer(&log));
    drop(log);
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panicking_sink_blocks_no_request() {
    let settings = Settings { overflow: Overflow::Wait, queue_bytes: 1000, ..Settings::default() };
    let told = vmcp_test_support::LogCapture::current_thread();
    let (log, writer) = Log::new(settings, |_: &[u8]| panic!("on purpose"));
    let writing = tokio::spawn(writer.run());
    let audit = layer(&log);
    log.record(Event::new(EventType::Ping, Outcome::Success, SystemTime::now()));
    for _ in 0..3 {
        call(audit.clone()).await;
    }
    log.flush().await;
    log.close();
    writing.await.unwrap();
    assert_eq!(told.text().lines().count(), 1, "{}", told.text());
    let Counts { written, dropped, failed } = log.counts();
    assert_eq!((written, dropped + failed), (0, 4));
    assert!(failed > 0 && dropped > 0);
}

/// Sink that counts how often it is reopened.
struct Reopened(Arc<Mutex<u32>>, bool);

impl LineSink for Reopened {
    fn write(&mut self, _lines: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self.0.lock().unwrap() += 1;
        if self.1 { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

#[tokio::test(start_paused = true)]
async fn idle_log_reopens_on_request() {
    for works in [true, false] {
        let times = Arc::new(Mutex::new(0));
        let (log, writer) = Log::new(Settings::default(), Reopened(times.clone(), works));
        tokio::spawn(writer.run());
        log.reopen();
        log.flush().await;
        assert_eq!(*times.lock().unwrap(), 1);
        call(layer(&log)).await;
        log.flush().await;
        assert_eq!((log.counts().written, *times.lock().unwrap()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn gateway_events_are_written_with_all_members() {
    let events = Events { include_request_data: true, ..Events::default() };
    let settings = Settings { component: Some("edge".into()), ..Settings::default() };
    let fixture = Fixture::new(events, settings);
    let now = fixture.auditor.now();
    fixture.auditor.record(Event {
        caller: Some(Identity::new("i", "s")),
        target: EventTarget {
            kind: "workflow",
            name: Some("deploy".into()),
            more: vec![("workflow_id", "7".into())],
            ..EventTarget::default()
        },
        details: EventDetails {
            duration: Some(Duration::from_millis(12)),
            more: vec![
                ("step_count", FieldValue::Number(3)),
                ("condition", FieldValue::Text("x".repeat(999).into())),
                ("retried", FieldValue::Flag(false)),
            ],
            ..EventDetails::default()
        },
        request: Some(PayloadExcerpt::new(br#"{"password":"c4n4ry"}"#, 1024)),
        response: Some(PayloadExcerpt::new(b"left out", 1024)),
        ..Event::new(EventType::WorkflowFailed, Outcome::Failure, now)
    });
    let event = fixture.event().await;
    assert_eq!(event["component"], "edge");
    assert_eq!(event["source"], json!({"type": "local", "value": "vmcp-composer"}));
    assert_eq!(event["target"], json!({"type": "workflow", "name": "deploy", "workflow_id": "7"}));
    assert_eq!(event["metadata"]["extra"]["step_count"], 3);
    assert_eq!(event["metadata"]["extra"]["retried"], false);
    assert_eq!(event["metadata"]["extra"]["condition"].as_str().unwrap().len(), 512);
    assert_eq!(event["data"], json!({"request": "{\"password\":\"[redacted]\"}"}));
}

#[tokio::test(start_paused = true)]
async fn secrets_appear_in_no_output() {
    let told = vmcp_test_support::LogCapture::current_thread();
    let fixture = Fixture::new(Events::default(), Settings::default());
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
    response.into_body().collect().await.unwrap();
    let event = fixture.event().await.to_string();
    assert!(event.contains("Bearer [redacted]"), "{event}");
    let told = format!("{event}{:?}{:?}{:?}", told.text(), fixture.layer, fixture.log);
    assert!(!told.contains("c4n4ry"), "{told}");
}
