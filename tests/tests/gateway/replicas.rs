//! Two gateways with one key ring and nothing else in common, which forward requests to each other.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_tests::authority::Authority;
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Events};
use vmcp_tests::counterparts::Gateway;
use vmcp_tests::fixture::Generation;

use crate::common::{status, until, until_ready};

const AUDIENCE: &str = "https://tools.example.com/mcp";

/// Workflow with a question.
const ASKS: &str = "
compositeTools:
- name: confirm
  description: Asks.
  steps:
  - {id: ask, type: elicitation, message: 'Sure?', schema: {type: object, properties: {word: {type: string}}}}
";

struct Replicas {
    first: Gateway,
    second: Gateway,
    authority: Authority,
    _backend: McpBackend,
}

/// Returns a port that is free on both addresses.
fn peer_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if TcpListener::bind(SocketAddr::new(IpAddr::from([127, 0, 0, 2]), port)).is_ok() {
            return port;
        }
    }
}

impl Replicas {
    async fn start(backend: Generation) -> Self {
        let backend = conforming_server("a").protocol(backend).start();
        let authority = Authority::start().unwrap();
        let yaml = format!(
            "name: tests\n{}backends:\n- {{name: a, url: \"{}\", transport: streamable-http}}\n{ASKS}",
            authority.section(AUDIENCE),
            backend.url()
        );
        let port = peer_port();
        let key = std::env::temp_dir().join(format!("vmcp-replicas-{}-{port}", std::process::id()));
        fs::write(&key, "07".repeat(32)).unwrap();
        let replica = async |host: u8| {
            let listen = format!("127.0.0.{host}:{port}");
            let key = key.to_str().unwrap();
            let peers = ["--peer-listen", &listen, "--peer-network", "127.0.0.0/8"];
            let arguments = [&["--seal-key", key][..], &peers].concat();
            let gateway = Gateway::start_with(&yaml, &arguments).await.unwrap();
            until_ready(&gateway).await;
            gateway
        };
        let (first, second) = (replica(1).await, replica(2).await);
        fs::remove_file(&key).unwrap();
        Self { first, second, authority, _backend: backend }
    }

    /// Connects a client of the first replica, and the same one to the second.
    async fn client(&self, generation: Generation, user: &str) -> [Caller; 2] {
        let token = self.authority.token(user, AUDIENCE, 1);
        let capabilities = json!({ "elicitation": {} });
        let urls = [self.first.url(), self.second.url()];
        if generation == Generation::Stateless {
            return urls.map(|url| {
                let mut caller = Caller::stateless_with(url, capabilities.clone());
                caller.comes_with(&token);
                caller
            });
        }
        let [first, second] =
            urls.map(|url| Caller::stateful_with_token(url, capabilities.clone(), &token));
        let (first, mut second) = (first.await.unwrap(), second.await.unwrap());
        second.names_session(first.session().unwrap());
        [first, second]
    }

    /// Returns the kinds, outcomes and numbers of requests that the second replica forwarded.
    async fn forwarded(&self) -> Vec<(String, String, u64)> {
        let status = status(&self.second).await;
        let forwarded = status["peers"]["forwarded"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        forwarded
            .map(|it| (text(&it["kind"]), text(&it["outcome"]), it["requests"].as_u64().unwrap()))
            .collect()
    }
}

fn entry(kind: &str, outcome: &str, requests: u64) -> (String, String, u64) {
    (kind.to_owned(), outcome.to_owned(), requests)
}

fn question() -> Value {
    json!({ "name": "a_ask", "arguments": { "question": "?" } })
}

fn accepted() -> Value {
    json!({ "action": "accept", "content": { "word": "yes" } })
}

fn response(asked: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked["id"], "result": accepted() })
}

/// Returns the parameters that repeat a request with the answer.
fn retry(mut params: Value, said: &Value) -> Value {
    let requests = said["inputRequests"].as_object().unwrap();
    let responses: serde_json::Map<_, _> =
        requests.keys().map(|key| (key.clone(), accepted())).collect();
    params["inputResponses"] = responses.into();
    params["requestState"] = said["requestState"].clone();
    params
}

#[tokio::test(flavor = "multi_thread")]
async fn session_answers_question_at_other_replica() {
    for backend in [Generation::Stateful, Generation::Stateless] {
        let replicas = Replicas::start(backend).await;
        let [mut first, mut second] = replicas.client(Generation::Stateful, "ann").await;
        let [_, mut thief] = replicas.client(Generation::Stateful, "bob").await;
        thief.names_session(first.session().unwrap());
        for params in [question(), json!({ "name": "confirm", "arguments": {} })] {
            let mut events = first.stream("tools/call", params).await.unwrap();
            let question = events.next().await.unwrap().unwrap();
            assert_eq!(question["method"], "elicitation/create", "{question}");
            let stolen = thief.post(&response(&question)).await.unwrap();
            assert_eq!(stolen.status, StatusCode::NOT_FOUND);
            let reply = second.post(&response(&question)).await.unwrap();
            assert_eq!(reply.status, StatusCode::ACCEPTED, "{reply:?}");
            let said = events.next().await.unwrap().unwrap();
            assert!(said["result"].is_object(), "{said}");
        }
        assert_eq!(replicas.forwarded().await, [entry("response", "responded", 2)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stateless_client_answers_question_at_other_replica() {
    for backend in [Generation::Stateful, Generation::Stateless] {
        let replicas = Replicas::start(backend).await;
        let [mut first, mut second] = replicas.client(Generation::Stateless, "ann").await;
        let [_, mut thief] = replicas.client(Generation::Stateless, "bob").await;
        for params in [question(), json!({ "name": "confirm", "arguments": {} })] {
            let said = first.result("tools/call", params.clone()).await.unwrap();
            assert_eq!(said["resultType"], "input_required", "{said}");
            let params = retry(params, &said);
            let stolen = thief.ask("tools/call", params.clone()).await.unwrap();
            assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
            let said = second.result("tools/call", params).await.unwrap();
            assert_ne!(said["resultType"], "input_required", "{said}");
        }
        let mut expected = vec![entry("workflow_run", "responded", 1)];
        if backend == Generation::Stateful {
            // A state of a stateless backend is valid at each replica.
            expected.insert(0, entry("suspended_call", "responded", 1));
        }
        assert_eq!(replicas.forwarded().await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_is_resumed_and_call_cancelled_elsewhere() {
    let replicas = Replicas::start(Generation::Stateful).await;
    let [mut first, mut second] = replicas.client(Generation::Stateful, "ann").await;
    let mut events = first.stream("tools/call", question()).await.unwrap();
    let asked = events.next().await.unwrap().unwrap();
    let mut headers = second.headers(&Value::Null);
    let last = HeaderValue::from_str(events.last_id().unwrap()).unwrap();
    headers.insert("last-event-id", last);
    drop(events);
    let mut resumed =
        Events::open(replicas.second.url(), Method::GET, &headers, String::new()).await.unwrap();
    let reply = second.post(&response(&asked)).await.unwrap();
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    let said = resumed.next().await.unwrap().unwrap();
    assert_eq!(said["result"]["structuredContent"]["backend"], "a", "{said}");

    let call = json!({ "name": "a_stream", "arguments": { "ms": 60_000 } });
    let mut events = first.stream("tools/call", call).await.unwrap();
    events.next().await.unwrap().unwrap();
    // The client counts its requests.
    let id = first.request("ping", json!({}))["id"].as_u64().unwrap() - 1;
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": id } });
    second.post(&cancelled).await.unwrap();
    let end = events.next_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(end, None, "a cancelled call has no response");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_killed_replica_are_told_lost() {
    let replicas = Replicas::start(Generation::Stateful).await;
    let [mut first, mut second] = replicas.client(Generation::Stateless, "ann").await;
    let [mut asker, mut answerer] = replicas.client(Generation::Stateful, "ann").await;
    let said = first.result("tools/call", question()).await.unwrap();
    let mut events = asker.stream("tools/call", question()).await.unwrap();
    let pending = events.next().await.unwrap().unwrap();
    // The replicas are connected.
    let ended = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": "unknown" } });
    answerer.post(&ended).await.unwrap();
    let Replicas { first: killed, second: gateway, authority: _authority, _backend } = replicas;
    killed.kill().await.unwrap();
    let lost = second.ask("tools/call", retry(question(), &said)).await.unwrap();
    let message = lost["error"]["message"].as_str().unwrap();
    assert!(message.contains("lost with its replica"), "{lost}");
    assert_eq!(lost["error"]["code"], -32603);
    let reply = answerer.post(&response(&pending)).await.unwrap();
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
    let said = answerer.call("a_echo", json!({})).await.unwrap();
    assert_eq!(said["_meta"]["vmcp.dev/backendSession"], "new", "the session goes on: {said}");
    until("no connection is left", async || {
        status(&gateway).await["peers"]["connections_outgoing"] == 0
    })
    .await;
}
