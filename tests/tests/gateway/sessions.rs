//! Client and backend sessions: start, lifetime and end.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::SessionLoss;
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Events, Line};
use vmcp_tests::counterparts::Gateway;
use vmcp_tests::fixture::Generation;

use crate::common::{both, config, gateway, memory, status, until};

/// Maximum number of sessions.
const CAP: usize = 10_000;

fn stateful(name: &str) -> McpBackend {
    conforming_server(name).protocol(Generation::Stateful).start()
}

/// Returns the backend session of a call.
async fn session_of(caller: &mut Caller, tool: &str) -> Value {
    caller.call(tool, json!({})).await.unwrap()["structuredContent"]["session"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_session_ends_with_its_backend_session() {
    let good = stateful("a");
    let yaml = config([("a", good.url())], "");
    let gateway = Gateway::start_with(&yaml, &["--session-ttl", "2s"]).await.unwrap();
    let mut used = Caller::stateful(gateway.url()).await.unwrap();
    let mut idle = Caller::stateful(gateway.url()).await.unwrap();
    let kept = session_of(&mut used, "a_echo").await;
    let lost = session_of(&mut idle, "a_echo").await;
    for _ in 0..6 {
        sleep(Duration::from_millis(500)).await;
        assert_eq!(session_of(&mut used, "a_echo").await, kept);
    }
    let refused = idle.reply("ping", json!({})).await.unwrap();
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    assert!(!good.ended_sessions().iter().any(|id| kept == *id));
    let begun = Instant::now();
    while !good.ended_sessions().iter().any(|id| lost == *id) {
        assert!(begun.elapsed() < Duration::from_secs(15), "the backend still has {lost}");
        session_of(&mut used, "a_echo").await;
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_sessions_ends_no_session_of_others() {
    let good = conforming_server("a").start();
    let yaml = config([("a", good.url())], "");
    let gateway = Gateway::start_with(&yaml, &["--trusted-proxies", "1"]).await.unwrap();
    let mut first = Caller::stateful(gateway.url()).await.unwrap();
    let before = memory(gateway.pid());
    // One address may have at most a tenth of all sessions.
    let mut line = Line::to(gateway.url());
    for _ in 0..CAP / 10 + 10 {
        assert_eq!(hello(&mut line, 0).await.status, StatusCode::OK);
    }
    assert_eq!(sessions(&gateway).await, CAP / 10 + 1);
    let tasks: Vec<_> = (1..10)
        .map(|address| {
            let url = gateway.url().to_owned();
            tokio::spawn(async move {
                let mut line = Line::to(&url);
                for _ in 0..CAP / 10 {
                    assert_eq!(hello(&mut line, address).await.status, StatusCode::OK);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(sessions(&gateway).await, CAP);
    let each = (memory(gateway.pid()) - before) * 1024 / CAP as u64;
    eprintln!("{each} bytes for each session that has done nothing yet");
    assert!(each < 2048, "{each}");
    // A session of another address evicts one of an address with the most sessions.
    assert_eq!(hello(&mut line, 99).await.status, StatusCode::OK);
    assert_eq!(sessions(&gateway).await, CAP);
    first.call("a_echo", json!({})).await.unwrap();
    first.leave().await.unwrap();
    assert_eq!(sessions(&gateway).await, CAP - 1);
}

async fn sessions(gateway: &Gateway) -> usize {
    usize::try_from(status(gateway).await["sessions"].as_u64().unwrap()).unwrap()
}

/// Opens a session from an address that a trusted proxy reports.
async fn hello(line: &mut Line, address: u8) -> vmcp_tests::counterparts::Reply {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "roots": { "listChanged": true }, "sampling": {}, "elicitation": { "form": {} } },
        "clientInfo": { "name": "vmcp-tests", "version": "1.0.0" },
    });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-for", format!("10.0.0.{address}").parse().unwrap());
    line.post(&headers, &message).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn backend_session_spans_first_use_to_client_end() {
    let (a, b) = (stateful("a"), stateful("b"));
    let gateway = gateway(&[&a, &b]).await;
    // The gateway's own session for notifications.
    assert_eq!((a.open_sessions(), b.open_sessions()), (1, 1));
    let mut caller = Caller::stateful(gateway.url()).await.unwrap();
    caller.tools().await.unwrap();
    caller.result("ping", json!({})).await.unwrap();
    let _stream = caller.listen().await.unwrap();
    assert_eq!((a.open_sessions(), b.open_sessions()), (1, 1));
    let mine = session_of(&mut caller, "a_echo").await;
    assert_eq!(session_of(&mut caller, "a_echo").await, mine);
    assert_eq!((a.open_sessions(), b.open_sessions()), (2, 1));
    let mut other = Caller::stateful(gateway.url()).await.unwrap();
    assert_ne!(session_of(&mut other, "a_echo").await, mine);
    assert_eq!(caller.leave().await.unwrap().status, StatusCode::NO_CONTENT);
    until("the backend is told", async || a.ended_sessions().iter().any(|id| mine == *id)).await;
    assert_eq!((a.open_sessions(), a.ended_sessions().len()), (2, 1));
    session_of(&mut other, "a_echo").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reopens_forgotten_backend_session_once() {
    for how in [SessionLoss::NotFound, SessionLoss::BadRequest] {
        let good = stateful("a");
        let gateway = gateway(&[&good]).await;
        for mut caller in both(gateway.url()).await.unwrap() {
            let before = session_of(&mut caller, "a_echo").await;
            good.lose_sessions(how);
            let calls = good.count("tools/call");
            let after = session_of(&mut caller, "a_echo").await;
            assert_ne!(before, after, "{how:?}");
            assert_eq!(good.count("tools/call") - calls, 2, "{how:?}: refused once, then answered");
            assert_eq!(session_of(&mut caller, "a_echo").await, after, "{how:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_broken_stream_at_last_event() {
    let good = stateful("a");
    let gateway = gateway(&[&good]).await;
    let mut caller = Caller::stateful(gateway.url()).await.unwrap();
    let arguments = json!({ "name": "a_stream", "arguments": { "ms": 300 } });
    let mut stream = caller.stream("tools/call", arguments).await.unwrap();
    let progress = stream.next().await.unwrap().unwrap();
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    let last = stream.last_id().unwrap().to_owned();
    drop(stream);
    let mut headers = caller.headers(&Value::Null);
    headers.insert("last-event-id", last.parse().unwrap());
    for _ in 0..2 {
        let resumed = Events::open(gateway.url(), Method::GET, &headers, String::new()).await;
        let result = resumed.unwrap().next().await.unwrap().unwrap();
        assert_eq!(result["result"]["structuredContent"]["backend"], "a", "{result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_many_sequential_streamed_responses() {
    for generation in [Generation::Stateful, Generation::Stateless] {
        let good = conforming_server("a").protocol(generation).start();
        let gateway = gateway(&[&good]).await;
        let mut caller = Caller::stateful(gateway.url()).await.unwrap();
        for _ in 0..150 {
            caller.call("a_stream", json!({})).await.unwrap();
        }
    }
}

/// Starts calls that are in flight at the shutdown.
async fn start_calls(url: &str, count: &mut usize) -> Vec<tokio::task::JoinHandle<Value>> {
    let mut calls = Vec::new();
    for tool in ["old_slow", "old_stream", "new_slow", "new_stream"] {
        for mut caller in both(url).await.unwrap() {
            *count += 1;
            calls.push(tokio::spawn(async move {
                let params = json!({ "name": tool, "arguments": { "ms": 1000 } });
                caller.ask("tools/call", params).await.unwrap()
            }));
        }
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn graceful_shutdown_completes_running_calls() {
    let old = stateful("old");
    let new = conforming_server("new").protocol(Generation::Stateless).start();
    let mut gateway = gateway(&[&old, &new]).await;
    let [mut session, mut stateless] = both(gateway.url()).await.unwrap();
    session.call("old_echo", json!({})).await.unwrap();
    let mut standing = session.listen().await.unwrap();
    let mut listening = stateless.listen().await.unwrap();
    let mut count = 0;
    let calls = start_calls(gateway.url(), &mut count).await;
    until("all calls have arrived", async || {
        old.count("tools/call") + new.count("tools/call") == count + 1
    })
    .await;
    let begun = Instant::now();
    gateway.signal("TERM").await.unwrap();
    assert_eq!(standing.next().await.unwrap(), None);
    let ended = listening.next().await.unwrap().unwrap();
    assert_eq!(ended["result"]["resultType"], "complete", "{ended}");
    assert_eq!(listening.next().await.unwrap(), None);
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    // A readiness probe gets no connection, or 503.
    let ready = gateway.page("/readyz").await;
    assert!(ready.is_err() || ready.unwrap().status == StatusCode::SERVICE_UNAVAILABLE);
    for call in calls {
        let answer = call.await.unwrap();
        assert!(answer["result"]["structuredContent"].is_object(), "{answer}");
    }
    let end = gateway.end().await.unwrap();
    assert!(end.success(), "{end}: {}", gateway.log());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    until("the backend's sessions are ended", async || old.open_sessions() == 0).await;
}
