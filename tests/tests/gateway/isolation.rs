//! Isolation of callers that share a gateway and its backends, in every pair of generations.

use std::collections::HashSet;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Events};
use vmcp_tests::fixture::Generation;

use crate::common::{both, gateway};

const BACKENDS: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

/// Client headers that must not reach a backend.
const SECRETS: [(&str, &str); 8] = [
    ("authorization", "Bearer canary"),
    ("proxy-authorization", "Basic canary"),
    ("cookie", "canary=1"),
    ("x-api-key", "canary"),
    ("x-forwarded-for", "canary"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("user-agent", "canary"),
    ("mcp-param-canary", "canary"),
];

/// Headers that may reach a backend.
const SENT: [&str; 8] = [
    "host",
    "accept",
    "content-type",
    "content-length",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
];

/// Headers that may reach a client.
const RECEIVED: [&str; 6] = [
    "content-type",
    "content-length",
    "transfer-encoding",
    "cache-control",
    "x-accel-buffering",
    "date",
];

fn elicits() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn secrets() -> HeaderMap {
    let pairs = SECRETS.map(|(name, value)| {
        (http::HeaderName::from_static(name), HeaderValue::from_static(value))
    });
    HeaderMap::from_iter(pairs)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_header_crosses_in_either_direction() {
    for generation in BACKENDS {
        let prompt = r#"{"name":"p"}"#.to_owned();
        let resource = r#"{"uri":"x://y","name":"y"}"#.to_owned();
        let good = conforming_server("a").protocol(generation);
        let good = good.items("prompts", [prompt]).items("resources", [resource]).start();
        let gateway = gateway(&[&good]).await;
        for mut caller in both(gateway.url()).await.unwrap() {
            for (method, params) in [
                ("tools/call", json!({ "name": "a_echo", "arguments": {} })),
                ("tools/call", json!({ "name": "a_stream", "arguments": {} })),
                ("tools/list", json!({})),
                ("prompts/get", json!({ "name": "a_p" })),
                ("resources/read", json!({ "uri": "x://y" })),
            ] {
                let message = caller.request(method, params);
                let mut headers = caller.headers(&message);
                headers.extend(secrets());
                let reply = caller.line().post(&headers, &message).await.unwrap();
                let what = format!("{generation:?}, {message}");
                for name in reply.headers.keys() {
                    assert!(RECEIVED.contains(&name.as_str()), "{what}: {reply:?}");
                }
                let body = String::from_utf8_lossy(&reply.body);
                assert!(!body.contains("canary"), "{what}: {body}");
                let answer = reply.message().unwrap();
                let seen = &answer["result"]["structuredContent"]["headers"];
                assert_eq!(seen.is_object(), method == "tools/call", "{what}: {answer}");
                for (name, value) in seen.as_object().into_iter().flatten() {
                    assert!(SENT.contains(&name.as_str()), "{what}: {name}: {value}");
                    assert!(caller.session().is_none_or(|id| *value != id), "{what}: {name}");
                }
            }
        }
    }
}

/// Calls a tool repeatedly and returns the backend sessions of the calls.
async fn calls(mut caller: Caller, who: &'static str) -> HashSet<String> {
    let mut sessions = HashSet::new();
    for number in 0..50 {
        let word = format!("{who} {number}");
        let tool = ["a_echo", "a_stream", "a_slow"][number % 3];
        // Both clients use the same ids and tokens concurrently.
        let params = json!({ "name": tool, "arguments": { "word": word, "ms": 2 },
            "_meta": { "progressToken": number } });
        let mut stream = Vec::new();
        let message = caller.request("tools/call", params);
        let reply = caller.post(&message).await.unwrap();
        for line in std::str::from_utf8(&reply.body).unwrap().lines() {
            let json = line.strip_prefix("data: ").unwrap_or(line);
            stream.extend(serde_json::from_str::<Value>(json));
        }
        let answer = stream.pop().unwrap();
        assert_eq!(answer["id"], message["id"], "{who}: {answer}");
        let seen = &answer["result"]["structuredContent"];
        assert_eq!(seen["params"]["arguments"]["word"], word, "{who}: {answer}");
        for progress in stream {
            assert_eq!(progress["params"]["progressToken"], number, "{who}: {progress}");
        }
        sessions.extend(seen["session"].as_str().map(str::to_owned));
    }
    sessions
}

#[tokio::test(flavor = "multi_thread")]
async fn interleaved_calls_keep_their_responses_and_sessions() {
    for generation in BACKENDS {
        let good = conforming_server("a").protocol(generation).start();
        let gateway = gateway(&[&good]).await;
        let url = gateway.url();
        let (ann, bob, eve, kim) = tokio::join!(
            calls(Caller::stateful(url).await.unwrap(), "ann"),
            calls(Caller::stateful(url).await.unwrap(), "bob"),
            calls(Caller::stateless(url), "eve"),
            calls(Caller::stateless_with(url, elicits()), "kim"),
        );
        let all = [&ann, &bob, &eve, &kim];
        let one = usize::from(generation == Generation::Stateful);
        for sessions in all {
            assert_eq!(sessions.len(), one, "{generation:?}: {sessions:?}");
        }
        let distinct: HashSet<_> = all.into_iter().flatten().collect();
        assert_eq!(distinct.len(), 4 * one, "{generation:?}: {distinct:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_shared_backend_session_get_own_responses() {
    let good = conforming_server("a").protocol(Generation::Stateful).start();
    let gateway = gateway(&[&good]).await;
    let mut tasks = JoinSet::new();
    for who in ["ann", "bob", "eve", "kim", "leo", "mia", "noa", "oli"] {
        tasks.spawn(calls(Caller::stateless(gateway.url()), who));
    }
    let shared: HashSet<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(shared.len(), 1, "{shared:?}");
}

/// Sends a call that triggers a server request and reads the stream up to it.
async fn asked(caller: &mut Caller, tool: &str, word: &str) -> (Events, Value) {
    let params = json!({ "name": tool, "arguments": { "question": word } });
    let mut stream = caller.stream("tools/call", params).await.unwrap();
    let question = stream.next().await.unwrap().unwrap();
    assert_eq!(question["params"]["message"], word, "{question}");
    (stream, question["id"].clone())
}

async fn answer(caller: &mut Caller, id: &Value, word: &str) {
    let result = json!({ "action": "accept", "content": { "word": word } });
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    assert_eq!(caller.post(&answer).await.unwrap().status, 202);
}

async fn assert_got(mut stream: Events, backend: &str, word: &str) {
    let result = stream.next().await.unwrap().unwrap();
    let content = &result["result"]["structuredContent"];
    assert_eq!(content["answer"]["content"]["word"], word, "{result}");
    assert_eq!(content["backend"], backend, "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_responses_reach_requesting_backend() {
    for generation in BACKENDS {
        let good = ["a", "b"].map(|name| conforming_server(name).protocol(generation).start());
        let gateway = gateway(&[&good[0], &good[1]]).await;
        let url = gateway.url();
        let mut ann = Caller::stateful_with(url, elicits()).await.unwrap();
        let mut bob = Caller::stateful_with(url, elicits()).await.unwrap();
        // Every backend sends server requests with id 1 to both clients concurrently.
        let mut questions = Vec::new();
        for (who, caller) in [("ann", &mut ann), ("bob", &mut bob)] {
            for backend in ["a", "b"] {
                let tool = format!("{backend}_ask");
                let (stream, id) = asked(caller, &tool, &format!("{who}'s {backend}?")).await;
                questions.push((who, backend, stream, id));
            }
        }
        assert_ne!(questions[0].3, questions[1].3);
        for (who, backend, _, id) in questions.iter().rev() {
            let caller = if *who == "ann" { &mut ann } else { &mut bob };
            answer(caller, id, &format!("{who} {backend}")).await;
        }
        for (who, backend, stream, _) in questions {
            assert_got(stream, backend, &format!("{who} {backend}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_responses_of_stateless_clients_to_requesting_backend() {
    for generation in BACKENDS {
        let good = ["a", "b"].map(|name| conforming_server(name).protocol(generation).start());
        let gateway = gateway(&[&good[0], &good[1]]).await;
        let mut ann = Caller::stateless_with(gateway.url(), elicits());
        let mut bob = Caller::stateless_with(
            gateway.url(),
            json!({ "elicitation": { "form": {} }, "sampling": {} }),
        );
        let mut asked = Vec::new();
        for (who, caller) in [("ann", &mut ann), ("bob", &mut bob)] {
            for backend in ["a", "b"] {
                let question = format!("{who}'s {backend}?");
                let tool = format!("{backend}_ask");
                let result = caller.call(&tool, json!({ "question": question })).await.unwrap();
                let questions = result["inputRequests"].as_object().unwrap();
                let (key, request) = questions.iter().next().unwrap();
                assert_eq!(request["params"]["message"], question, "{result}");
                asked.push((who, backend, key.clone(), result["requestState"].clone()));
            }
        }
        for (who, backend, key, state) in asked.into_iter().rev() {
            let caller = if who == "ann" { &mut ann } else { &mut bob };
            let word = format!("{who} {backend}");
            let response = json!({ "action": "accept", "content": { "word": word } });
            let params = json!({
                "name": format!("{backend}_ask"),
                "arguments": { "question": format!("{who}'s {backend}?") },
                "inputResponses": { key: response },
                "requestState": state,
            });
            let result = caller.result("tools/call", params).await.unwrap();
            let content = &result["structuredContent"];
            assert_eq!(content["answer"]["content"]["word"], word, "{result}");
            assert_eq!(content["backend"], backend, "{result}");
        }
    }
}
