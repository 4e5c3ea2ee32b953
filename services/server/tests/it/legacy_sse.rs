//! The deprecated HTTP+SSE transport on both sides of the gateway, over real sockets.

mod backend;
mod client;

use std::fmt::Write;
use std::net::SocketAddr;

use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, sleep};
use vmcp_config::{File, Format};
use vmcp_egress::Egress;
use vmcp_server::parts::Parts;
use vmcp_server::serve::{Options, Server};
use vmcp_test_support::McpBackend;

use self::client::{JSON, LegacyClient, TIMEOUT, call, said, send, stateless};

/// A running gateway. It drains when this is dropped.
struct Gateway {
    address: SocketAddr,
    server: vmcp_aggregate::Gateway,
    stop: Option<oneshot::Sender<()>>,
}

impl Gateway {
    /// In front of these backends, called `a`, `b` and so on.
    async fn before(backends: &[&McpBackend]) -> Self {
        Self::with(backends, "").await
    }

    async fn with(backends: &[&McpBackend], sections: &str) -> Self {
        let mut yaml = "name: tests\nincomingAuth: {type: anonymous}\nbackends:\n".to_owned();
        for (name, backend) in ('a'..).zip(backends) {
            let url = backend.url();
            writeln!(yaml, "- {{name: {name}, url: \"{url}\", transport: sse}}").unwrap();
        }
        yaml += sections;
        let file = File::parse(&yaml, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}"));
        let egress = Egress::new(vmcp_egress::Settings::default());
        let parts = Parts::builder(&egress).build(file).unwrap_or_else(|error| panic!("{error}"));
        let options = Options {
            address: ([127, 0, 0, 1], 0).into(),
            drain: Duration::from_secs(1),
            ..Options::default()
        };
        let server = Server::start(parts, egress, options).await.unwrap();
        let address = server.address().unwrap();
        let gateway = server.gateway().clone();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(server.run(async move { _ = stopped.await }));
        gateway.wait_ready().await;
        Self { address, server: gateway, stop: Some(stop) }
    }
}

/// Looks again and again until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn tools(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn legacy_client_uses_legacy_server() {
    let (a, b) = (backend::start(), backend::start());
    let gateway = Gateway::before(&[&a, &b]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    let listed = old.request("tools/list", json!({})).await;
    for tool in ["a_echo", "a_die", "b_echo", "b_die"] {
        assert!(tools(&listed).contains(&tool), "{tool} in {listed}");
    }
    assert!(said(&old.call("a_echo", "hello").await).ends_with(":hello"));
    assert!(said(&old.call("b_echo", "hello").await).ends_with(":hello"));
    // One stream for the observer and one for the session.
    assert_eq!((a.open_streams(), b.open_streams()), (2, 2));
}

#[tokio::test]
async fn progress_precedes_response_in_order() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    assert_eq!(said(&old.call("a_count", "mine").await), "counted");
    let progress: Vec<_> =
        old.unasked.iter().map(|message| message["params"]["progress"].clone()).collect();
    assert_eq!(progress, [1, 2, 3]);
    assert!(old.unasked.iter().all(|message| message["params"]["progressToken"] == "mine"));
}

#[tokio::test]
async fn relays_server_request_and_client_response() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    let id = old.begin("tools/call", call("a_ask", "who?")).await;
    let question = old.heard("elicitation/create").await;
    assert_eq!(question["params"]["message"], "who?");
    old.reply(&question, json!({"action": "accept", "content": {"name": "ann"}})).await;
    let answer = old.answer(id).await;
    assert!(said(&answer).contains("ann"), "{answer}");
}

#[tokio::test]
async fn relays_legacy_server_request_to_stateless_client() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let listed = stateless(gateway.address, "tools/list", json!({})).await;
    assert!(tools(&listed[0]).contains(&"a_ask"));
    let counted = stateless(gateway.address, "tools/call", call("a_count", "p")).await;
    assert_eq!(counted.len(), 4);
    assert_eq!(said(&counted[3]), "counted");
    let asked = stateless(gateway.address, "tools/call", call("a_ask", "who?")).await;
    let result = &asked.last().unwrap()["result"];
    assert_eq!(result["resultType"], "input_required", "{asked:?}");
    let (key, question) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["message"], "who?");
    let mut again = call("a_ask", "who?");
    again["requestState"] = result["requestState"].clone();
    again["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "bob"}}});
    let answered = stateless(gateway.address, "tools/call", again).await;
    assert!(said(answered.last().unwrap()).contains("bob"), "{answered:?}");
}

#[tokio::test]
async fn interleaved_clients_get_own_responses() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut ann = LegacyClient::connect(gateway.address).await;
    let mut bob = LegacyClient::connect(gateway.address).await;
    for round in 0..5 {
        let (for_ann, for_bob) = (format!("ann {round}?"), format!("bob {round}?"));
        let first = ann.begin("tools/call", call("a_ask", &for_ann)).await;
        let second = bob.begin("tools/call", call("a_ask", &for_bob)).await;
        // Both backends' questions have the id 1.
        let of_bob = bob.heard("elicitation/create").await;
        let of_ann = ann.heard("elicitation/create").await;
        assert_eq!(of_bob["params"]["message"], for_bob);
        assert_eq!(of_ann["params"]["message"], for_ann);
        ann.reply(&of_ann, json!({"action": "accept", "content": {"name": "ann"}})).await;
        bob.reply(&of_bob, json!({"action": "accept", "content": {"name": "bob"}})).await;
        assert!(said(&bob.answer(second).await).contains("bob"));
        assert!(said(&ann.answer(first).await).contains("ann"));
    }
    let ann = said(&ann.call("a_echo", "x").await).to_owned();
    assert_ne!(ann, said(&bob.call("a_echo", "x").await), "sessions are not shared");
}

#[tokio::test]
async fn log_messages_reach_the_client() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    assert_eq!(
        old.request("logging/setLevel", json!({"level": "info"})).await["result"],
        json!({})
    );
    assert_eq!(said(&old.call("a_log", "").await), "logged");
    assert_eq!(old.heard("notifications/message").await["params"]["data"], "careful");
}

#[tokio::test]
async fn ignores_responses_without_pending_request() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    assert_eq!(said(&old.call("a_stray", "").await), "right");
    assert!(old.unasked.is_empty(), "{:?}", old.unasked);
}

#[tokio::test]
async fn fails_call_of_dead_server_and_reconnects() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    let before = said(&old.call("a_echo", "x").await).to_owned();
    let silent = old.begin("tools/call", call("a_silent", "")).await;
    let dead = old.call("a_die", "").await;
    assert!(dead["error"]["message"].as_str().unwrap().contains("closed its stream"), "{dead}");
    let silent = old.answer(silent).await;
    assert!(silent["error"].is_object(), "{silent}");
    let after = said(&old.call("a_echo", "x").await).to_owned();
    assert_ne!(before, after, "a new session");
}

#[tokio::test]
async fn sends_list_changed_after_all_streams_broke() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    old.call("a_echo", "x").await;
    backend.add_tool("first");
    old.heard("notifications/tools/list_changed").await;
    let listed = old.request("tools/list", json!({})).await;
    assert!(tools(&listed).contains(&"a_first"));
    backend.close_streams();
    until("the observer is back", || backend.open_streams() > 0).await;
    backend.add_tool("second");
    old.heard("notifications/tools/list_changed").await;
    let listed = old.request("tools/list", json!({})).await;
    assert!(tools(&listed).contains(&"a_second"));
}

#[tokio::test]
async fn cancellation_reaches_backend() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    let id = old.begin("tools/call", call("a_silent", "")).await;
    until("the call is there", || backend.count("tools/call") == 1).await;
    old.notify("notifications/cancelled", json!({"requestId": id})).await;
    until("it is cancelled", || backend.count("notifications/cancelled") == 1).await;
    let cancelled = backend.messages().pop().unwrap();
    let called = backend.messages().into_iter().find(|message| message["method"] == "tools/call");
    assert_eq!(cancelled["params"]["requestId"], called.unwrap()["id"]);
}

/// Short for `a` alone.
const SHORT: &str = "{default: 30s, perWorkload: {a: 300ms}}";

#[tokio::test]
async fn call_without_response_ends_at_backend_timeout() {
    for timeouts in ["{default: 300ms, perWorkload: {b: 30s}}", SHORT] {
        let backend = backend::start();
        let sections = format!("operational: {{timeouts: {timeouts}}}\n");
        let gateway = Gateway::with(&[&backend], &sections).await;
        let mut old = LegacyClient::connect(gateway.address).await;
        let answer = old.call("a_silent", "").await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("in time"), "{answer}");
        until("the backend is told", || backend.count("notifications/cancelled") == 1).await;
    }
}

#[tokio::test]
async fn pauses_timeout_while_client_answers() {
    let backend = backend::start();
    let gateway =
        Gateway::with(&[&backend], &format!("operational: {{timeouts: {SHORT}}}\n")).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    let id = old.begin("tools/call", call("a_ask", "who?")).await;
    let question = old.heard("elicitation/create").await;
    sleep(Duration::from_millis(700)).await;
    old.reply(&question, json!({"action": "decline"})).await;
    assert!(said(&old.answer(id).await).contains("decline"));
}

#[tokio::test]
async fn rejects_endpoint_of_other_origin() {
    let victim = backend::start();
    let endpoint = format!("http://127.0.0.1:{}/messages?session=1", victim.port());
    let evil = backend::builder().endpoint(&endpoint).start();
    let gateway = Gateway::before(&[&evil]).await;
    let report = gateway.server.report();
    let failure = report.backends[0].failure.clone().unwrap();
    assert!(failure.contains("another origin"), "{failure}");
    assert!(victim.messages().is_empty());
}

#[tokio::test]
async fn disconnected_client_ends_all_sessions() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    old.call("a_echo", "x").await;
    assert_eq!((gateway.server.report().sessions, backend.open_streams()), (1, 2));
    drop(old);
    until("the gateway's session has ended", || gateway.server.report().sessions == 0).await;
    until("the backend's stream has ended", || backend.open_streams() == 1).await;
}

#[tokio::test]
async fn reports_errors_of_legacy_client() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::open(gateway.address).await;
    let early = old.request("tools/list", json!({})).await;
    assert_eq!(early["error"]["code"], -32600, "{early}");
    for (message, status) in [("{", 400), ("[]", 400), ("null", 400)] {
        let response = old.post_text(message).await;
        assert_eq!(response.status().as_u16(), status, "{message}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.starts_with(b"{\"jsonrpc\""), "{message}");
    }
    let unknown = old.request("tools/fly", json!({})).await;
    assert!(unknown["error"].is_object());
    let address = gateway.address;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let large = "x".repeat((8 << 20) + 1);
    for (method, path, headers, body, status) in [
        (Method::POST, &*old.messages, &[][..], ping, 415),
        (Method::POST, &*old.messages, &[JSON][..], &*large, 413),
        (Method::POST, "/messages", &[JSON][..], ping, 404),
        (Method::POST, "/messages?sessionId=0123456789abcdef0123456789abcdef", &[JSON], ping, 404),
        (Method::POST, "/messages?sessionId=short", &[JSON][..], ping, 404),
        (Method::POST, "/sse", &[JSON][..], ping, 405),
        (Method::GET, "/messages", &[][..], "", 405),
        (Method::GET, "/sse", &[("accept", "application/json")][..], "", 406),
        (Method::GET, "/sse", &[("host", "evil.test")][..], "", 403),
        (Method::GET, "/sse", &[("origin", "http://evil.test")][..], "", 403),
    ] {
        let response = send(address, method.clone(), path, headers, body).await;
        assert_eq!(response.status().as_u16(), status, "{method} {path} {headers:?}");
    }
}

#[tokio::test]
async fn each_stream_has_one_session() {
    let backend = backend::start();
    let gateway = Gateway::before(&[&backend]).await;
    let old = LegacyClient::connect(gateway.address).await;
    let hello = json!({"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {},
        "clientInfo": {"name": "old client", "version": "1"},
    }});
    assert_eq!(old.post(&hello).await, StatusCode::BAD_REQUEST);
    assert_eq!(gateway.server.report().sessions, 1);
    let other = LegacyClient::connect(gateway.address).await;
    assert_ne!(old.messages, other.messages);
    let id = old.messages.strip_prefix("/messages?sessionId=").unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
}

#[tokio::test]
async fn drain_ends_idle_streams_first() {
    let backend = backend::start();
    let mut gateway = Gateway::before(&[&backend]).await;
    let mut old = LegacyClient::connect(gateway.address).await;
    old.begin("tools/call", call("a_silent", "")).await;
    until("the call is there", || backend.count("tools/call") == 1).await;
    let idle = LegacyClient::connect(gateway.address).await;
    drop(gateway.stop.take());
    idle.ended().await;
    until("the call alone goes on", || gateway.server.report().sessions == 1).await;
    old.ended().await;
}
