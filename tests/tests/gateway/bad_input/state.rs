//! Unsolicited responses, and altered request state.

use http::HeaderMap;
use serde_json::{Value, json};
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Line};
use vmcp_tests::fixture::Generation;

use super::{Case, Scene, asked};

fn elicits() -> Value {
    json!({ "elicitation": { "form": {} } })
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_response_without_pending_request() {
    let scene = Scene::start().await;
    let session = Caller::stateful(scene.url()).await.unwrap();
    let mut line = Line::to(scene.url());
    for id in [json!(1), json!("1"), json!(-1), json!(u64::MAX), json!("x")] {
        let message = json!({ "jsonrpc": "2.0", "id": id, "result": {} });
        let headers = session.headers(&message);
        let case = Case::post(message.to_string()).headers(headers);
        case.gets(400, -32600, "no server request with this id").check(&mut line).await;
        let message = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 1, "message": "" } });
        let case = Case::post(message.to_string());
        case.gets(400, -32600, "Mcp-Session-Id is missing").check(&mut line).await;
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_one_response_from_requested_session_only() {
    let scene = Scene::before(conforming_server("a").protocol(Generation::Stateful).start()).await;
    let mut asked = Caller::stateful_with(scene.url(), elicits()).await.unwrap();
    let mut other = Caller::stateful_with(scene.url(), elicits()).await.unwrap();
    let arguments = json!({ "name": "a_ask", "arguments": { "question": "which?" } });
    let mut stream = asked.stream("tools/call", arguments).await.unwrap();
    let question = stream.next().await.unwrap().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = |word| {
        json!({ "jsonrpc": "2.0", "id": question["id"],
        "result": { "action": "accept", "content": { "word": word } } })
    };
    let reply = other.post(&answer("stolen")).await.unwrap();
    assert_eq!(reply.status, 400, "{reply:?}");
    let reply = asked.post(&answer("mine")).await.unwrap();
    assert_eq!(reply.status, 202, "{reply:?}");
    let reply = asked.post(&answer("again")).await.unwrap();
    assert_eq!(reply.status, 400, "{reply:?}");
    let result = stream.next().await.unwrap().unwrap();
    let word = &result["result"]["structuredContent"]["answer"]["content"]["word"];
    assert_eq!(word, "mine", "{result}");
    scene.finish().await;
}

/// Returns the key of the gateway's server request to a stateless client, and the state.
async fn state_of(caller: &mut Caller, question: &str) -> (String, String) {
    let arguments = json!({ "name": "a_ask", "arguments": { "question": question } });
    let result = caller.result("tools/call", arguments).await.unwrap();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap().to_owned();
    (key, result["requestState"].as_str().unwrap().to_owned())
}

async fn assert_state_is_checked(generation: Generation) {
    let scene = Scene::before(conforming_server("a").protocol(generation).start()).await;
    let mut caller = Caller::stateless_with(scene.url(), elicits());
    let (key, state) = state_of(&mut caller, "which?").await;
    let mut tampered = state.clone().into_bytes();
    let middle = tampered.len() / 2;
    tampered[middle] = if tampered[middle] == b'A' { b'B' } else { b'A' };
    let tampered = String::from_utf8(tampered).unwrap();
    let mut line = Line::to(scene.url());
    let responses = json!({ key.as_str(): { "action": "accept", "content": { "word": "x" } } });
    let mut retry = |tool: &str, question: &str, state: &str| {
        let params = json!({ "name": tool, "arguments": { "question": question },
            "inputResponses": responses, "requestState": state });
        asked(&mut caller, "tools/call", params)
    };
    for case in [
        retry("a_ask", "which?", &tampered),
        retry("a_ask", "which?", "nonsense"),
        retry("a_ask", "which?", ""),
        retry("a_ask", "which?", &state[..state.len() - 4]),
        retry("a_ask", "which?", &"A".repeat(100_000)),
        // Only the authorized request runs: the state is not valid for another one.
        retry("a_ask", "another?", &state),
        retry("a_echo", "which?", &state),
    ] {
        case.gets(400, -32602, "send the request again without it").check(&mut line).await;
    }
    let reply = retry("a_ask", "which?", &state).passes(200).check(&mut line).await;
    let message = reply.message().unwrap();
    let content = &message["result"]["structuredContent"];
    assert_eq!(content["answer"]["content"]["word"], "x", "{message}");
    assert_eq!(line.post(&HeaderMap::new(), &json!({})).await.unwrap().status, 400);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_altered_or_moved_state_of_stateless_backend() {
    assert_state_is_checked(Generation::Stateless).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_altered_or_moved_handle_of_suspended_call() {
    assert_state_is_checked(Generation::Stateful).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_call_resumes_once() {
    let scene = Scene::before(conforming_server("a").protocol(Generation::Stateful).start()).await;
    let mut caller = Caller::stateless_with(scene.url(), elicits());
    let (key, state) = state_of(&mut caller, "which?").await;
    let mut line = Line::to(scene.url());
    for expected in [200, 400] {
        let arguments = json!({ "question": "which?" });
        let responses = json!({ key.as_str(): { "action": "decline" } });
        let params = json!({ "name": "a_ask", "arguments": arguments,
            "inputResponses": responses, "requestState": state });
        let case = asked(&mut caller, "tools/call", params);
        let case = if expected == 200 {
            case.passes(200)
        } else {
            case.gets(400, -32602, "send the request again without it")
        };
        case.check(&mut line).await;
    }
    scene.finish().await;
}
