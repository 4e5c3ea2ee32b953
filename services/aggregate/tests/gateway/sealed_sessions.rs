//! Sessions whose ids any replica with the same key ring opens.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{Limits, PartialFailure};
use vmcp_core::{Clock, Generation, Identity};
use vmcp_seal::{KeyRing, SealKey};

use crate::composites;
use crate::fake::{
    Behavior, Client, FakeBackend, Sessions, begin_replica, gateway, heard, settings,
};
use crate::script::{ScriptedBackend, ScriptedClient, Wire};

const MARK: &str = "vmcp.dev/backendSession";

fn backend(generation: Generation) -> Arc<FakeBackend> {
    let backend = FakeBackend::new("be", generation).offer("*", json!({"tools": [{"name": "t"}]}));
    *backend.sessions.lock().unwrap() = Some(Sessions::default());
    backend
}

fn ring(key: u8) -> KeyRing {
    KeyRing::new("gw", &[SealKey::from_bytes([key; 32])], Clock::system()).unwrap()
}

async fn replica(backend: &Arc<FakeBackend>, key: u8) -> Gateway {
    limited_replica(backend, key, Limits::default()).await
}

async fn limited_replica(backend: &Arc<FakeBackend>, key: u8, limits: Limits) -> Gateway {
    let settings = settings(vec![backend.settings()], PartialFailure::BestEffort, None);
    begin_replica(settings, limits, ring(key)).await
}

async fn open(gateway: &Gateway, subject: &str) -> Client {
    let capabilities = json!({"elicitation": {}, "roots": {"listChanged": true}});
    Client::declaring(gateway, Generation::Stateful, subject, capabilities).await
}

/// Calls the tool and returns the HTTP status and the mark of the result.
async fn call(client: &Client) -> (u16, Value) {
    let said = client.ask("tools/call", json!({"name": "be_t"})).await;
    let mark = match said.status {
        200 => said.json()["result"]["_meta"][MARK].clone(),
        _ => Value::Null,
    };
    (said.status, mark)
}

/// Ends the session of a client. Returns the HTTP status.
async fn delete(client: &Client) -> u16 {
    let mut request = Request::builder().method(Method::DELETE).uri("/mcp").body(()).unwrap();
    request.headers_mut().insert("mcp-session-id", client.session.clone().unwrap());
    request.extensions_mut().insert(client.identity.clone());
    let Ok(response) = client.gateway.clone().oneshot(request).await;
    response.status().as_u16()
}

fn with_id(client: &Client, id: &str) -> Client {
    Client { session: Some(HeaderValue::from_str(id).unwrap()), ..client.clone() }
}

fn id(client: &Client) -> String {
    client.session.as_ref().unwrap().to_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn other_replica_continues_session_and_marks_it() {
    let backend = backend(Generation::Stateful);
    let (first, second) = (replica(&backend, 7).await, replica(&backend, 7).await);
    let client = open(&first, "ann").await;
    assert_eq!(call(&client).await, (200, Value::Null));
    let moved = client.clone().on(&second);
    assert_eq!(call(&moved).await, (200, json!("new")));
    assert_eq!(call(&moved).await, (200, Value::Null), "only the first result has a mark");
    assert_eq!(call(&client).await, (200, Value::Null));
    assert_eq!(moved.names("tools/list").await, ["be_t"]);
    let hellos = backend.heard.lock().unwrap();
    let hellos: Vec<_> = hellos
        .iter()
        .filter(|(who, method, _)| who == "ann" && method == "initialize")
        .map(|(_, _, params)| (&params["capabilities"], &params["clientInfo"]))
        .collect();
    assert_eq!(hellos.len(), 2);
    assert_eq!(hellos[0], hellos[1], "the backend meets the same client");
}

#[tokio::test(start_paused = true)]
async fn stateless_backends_lose_nothing() {
    let backend =
        FakeBackend::new("be", Generation::Stateless).offer("*", json!({"tools": [{"name": "t"}]}));
    let (first, second) = (replica(&backend, 7).await, replica(&backend, 7).await);
    let moved = open(&first, "ann").await.on(&second);
    assert_eq!(call(&moved).await, (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn only_owner_and_known_keys_open_id() {
    let backend = backend(Generation::Stateful);
    let (first, second) = (replica(&backend, 7).await, replica(&backend, 7).await);
    let stranger = replica(&backend, 8).await;
    let client = open(&first, "ann").await;
    for gateway in [&first, &second] {
        for subject in ["bob", ""] {
            let identity = match subject {
                "" => Identity::anonymous(),
                subject => Identity::new("https://idp.test", subject),
            };
            let thief = Client { identity, ..client.clone().on(gateway) };
            assert_eq!(call(&thief).await.0, 404);
            assert_eq!(delete(&thief).await, 404);
        }
        let own = id(&client);
        let last = if own.ends_with('A') { "B" } else { "A" };
        let changed = format!("{}{last}", &own[..own.len() - 1]);
        for changed in [&own[..32], &changed, &format!("{own}A"), "x", &"0".repeat(32)] {
            assert_eq!(call(&with_id(&client, changed).on(gateway)).await.0, 404, "{changed}");
        }
    }
    assert_eq!(call(&client.clone().on(&stranger)).await.0, 404);
    assert_eq!(call(&client).await.0, 200, "none of them ended the session");
    assert_eq!(call(&client.on(&second)).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn ended_session_does_not_open_again() {
    let backend = backend(Generation::Stateful);
    let (first, second) = (replica(&backend, 7).await, replica(&backend, 7).await);
    let client = open(&first, "ann").await;
    // A replica that does not know the session yet may end it.
    for gateway in [&second, &first] {
        let client = client.clone().on(gateway);
        assert_eq!(delete(&client).await, 204);
        assert_eq!((call(&client).await.0, delete(&client).await), (404, 404));
        assert_eq!(gateway.cache_sizes().ended_sessions, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_and_evicted_sessions_continue() {
    let backend = backend(Generation::Stateful);
    let ttl = Duration::from_mins(5);
    let limits = Limits { sessions: 1, session_ttl: ttl, ..Limits::default() };
    let gateway = limited_replica(&backend, 7, limits).await;
    let idle = open(&gateway, "ann").await;
    assert_eq!(call(&idle).await, (200, Value::Null));
    sleep(ttl + Duration::from_secs(1)).await;
    assert_eq!(call(&idle).await, (200, json!("new")));
    let other = open(&gateway, "ann").await;
    assert_eq!(call(&other).await, (200, Value::Null));
    assert_eq!(call(&idle).await, (200, json!("new")));
    assert_eq!(call(&other).await, (200, json!("new")));
    // Others take no place of a session that is in use, and do not end while they wait.
    let bob = open(&replica(&backend, 7).await, "bob").await.on(&gateway);
    assert_eq!(call(&bob).await.0, 503);
    sleep(ttl + Duration::from_secs(1)).await;
    assert_eq!(call(&bob).await, (200, json!("new")));
}

#[tokio::test(start_paused = true)]
async fn ids_are_short_without_shared_keys() {
    let backend = backend(Generation::Stateful);
    let gateway = gateway(&[Arc::clone(&backend)]).await;
    let client = open(&gateway, "ann").await;
    assert_eq!(id(&client).len(), 32);
    assert_eq!(call(&with_id(&client, &(id(&client) + "AAAA"))).await.0, 404);
    assert_eq!(delete(&client).await, 204);
    let sealed = open(&replica(&backend, 7).await, "ann").await;
    assert!((64..=1024).contains(&id(&sealed).len()), "{}", id(&sealed));
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_restore_one_session() {
    let backend = backend(Generation::Stateful);
    let (first, second) = (replica(&backend, 7).await, replica(&backend, 7).await);
    let moved = open(&first, "ann").await.on(&second);
    let calls = futures_util::future::join_all((0..20).map(|_| call(&moved))).await;
    assert!(calls.iter().all(|(status, _)| *status == 200), "{calls:?}");
    let marks = calls.iter().filter(|(_, mark)| mark == "new").count();
    assert!(marks >= 1, "{calls:?}");
    assert_eq!((second.report().sessions, backend.times("initialize", "ann")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn streamed_results_are_marked() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replica = async || {
        let settings = settings(vec![backend.settings(None)], PartialFailure::BestEffort, None);
        begin_replica(settings, Limits::default(), ring(7)).await
    };
    let (first, second) = (replica().await, replica().await);
    let client = ScriptedClient::new(&first, Generation::Stateful, "ann").await;
    let moved = client.on(&second);
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                          "params": {"progressToken": 1, "progress": 1}});
    let marked = json!({"content": [], "_meta": {"x": 1}});
    for mark in [true, false] {
        let response = moved.begin(1, "t");
        let mut call = calls.recv().await.unwrap();
        assert!(call.say(&progress));
        assert!(call.answer(&marked));
        let said = response.await.unwrap();
        assert_eq!(said.contains(r#""vmcp.dev/backendSession":"new""#), mark, "{said}");
        assert!(said.contains(r#""x":1"#), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_result_leaves_its_mark() {
    let backend = backend(Generation::Stateful);
    let (first, second) = (replica(&backend, 7).await, replica(&backend, 7).await);
    let moved = open(&first, "ann").await.on(&second);
    *backend.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_secs(1));
    let abandoned = timeout(Duration::from_millis(500), call(&moved)).await;
    assert!(abandoned.is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(backend.times("tools/call", "ann"), 1, "the call went on");
    *backend.behavior.lock().unwrap() = Behavior::Normal;
    let (response, _) = moved.send("tools/call", json!({"name": "be_t"})).await;
    drop(response);
    assert_eq!(call(&moved).await, (200, json!("new")));
    assert_eq!(call(&moved).await, (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn abandoned_stream_leaves_its_mark() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replica = async || {
        let settings = settings(vec![backend.settings(None)], PartialFailure::BestEffort, None);
        begin_replica(settings, Limits::default(), ring(7)).await
    };
    let (first, second) = (replica().await, replica().await);
    let moved = ScriptedClient::new(&first, Generation::Stateful, "ann").await.on(&second);
    for (is_away, mark) in [(true, true), (false, true), (false, false)] {
        let response = moved.begin(1, "t");
        let mut call = calls.recv().await.unwrap();
        assert!(call.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
                                 "params": {"progressToken": 1, "progress": 1}})));
        sleep(Duration::from_millis(10)).await;
        if is_away {
            response.abort();
            sleep(Duration::from_millis(10)).await;
        }
        assert!(call.answer(&json!({"content": []})));
        if let Ok(said) = response.await {
            assert_eq!(said.contains(r#""vmcp.dev/backendSession":"new""#), mark, "{said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn result_of_composite_tool_is_marked() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let definitions = json!([{"name": "two", "steps": [{"id": "a", "tool": "be.t"},
                                                       {"id": "b", "tool": "be.t"}]}]);
    let replica = async || {
        let settings = composites::settings(vec![backend.settings(None)], &definitions);
        begin_replica(settings, Limits::default(), ring(7)).await
    };
    let (first, second) = (replica().await, replica().await);
    let moved = ScriptedClient::new(&first, Generation::Stateful, "ann").await.on(&second);
    let steps = tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            call.answer(&json!({"content": []}));
        }
    });
    for (id, tool, mark) in [(1, "two", true), (2, "be_t", false), (3, "two", false)] {
        let params = json!({"name": tool, "arguments": {}});
        let response = moved.request(&json!(id), "tools/call", params).await;
        let said = crate::script::text(response.into_body()).await;
        assert!(said.contains(r#""result":"#), "{said}");
        assert_eq!(said.contains(r#""vmcp.dev/backendSession":"new""#), mark, "{said}");
    }
    steps.abort();
}

#[tokio::test(start_paused = true)]
async fn deletion_during_request_is_final() {
    let backend = backend(Generation::Stateful);
    let limits = Limits { sessions: 1, ..Limits::default() };
    for (is_deleted, expected) in [(true, 404), (false, 503)] {
        let settings = settings(vec![backend.per_caller()], PartialFailure::BestEffort, None);
        let gateway = begin_replica(settings, limits.clone(), ring(7)).await;
        let client = open(&gateway, "ann").await;
        // The call waits for the offer to its caller.
        *backend.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_millis(100));
        let begun = {
            let client = client.clone();
            tokio::spawn(async move { call(&client).await.0 })
        };
        sleep(Duration::from_millis(50)).await;
        if is_deleted {
            assert_eq!(delete(&client).await, 204);
        } else {
            open(&gateway, "ann").await;
        }
        assert_eq!(begun.await.unwrap(), expected);
        *backend.behavior.lock().unwrap() = Behavior::Normal;
    }
}

#[tokio::test(start_paused = true)]
async fn first_stream_of_restored_session_reports_lists() {
    let backend = backend(Generation::Stateful);
    let (first, second) = (replica(&backend, 7).await, replica(&backend, 7).await);
    let client = open(&first, "ann").await;
    let changes = |said: String| said.matches("list_changed").count();
    assert_eq!(changes(heard(&mut client.stand().await).await), 0);
    let moved = client.on(&second);
    assert_eq!(changes(heard(&mut moved.stand().await).await), 3);
    assert_eq!(changes(heard(&mut moved.stand().await).await), 0);
}
