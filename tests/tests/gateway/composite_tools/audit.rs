//! Audit events of runs that ask the user.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use super::questions::{answer, approval, ask};
use super::{backend, sections};
use crate::common::{gateway_with, until};

/// Gateway that audits, with its log.
struct Audited {
    gateway: Gateway,
    _backend: McpBackend,
    path: PathBuf,
}

impl Audited {
    async fn start(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("composite-audit-{name}-{}.log", std::process::id()));
        let a = backend("a", Protocol::Stateless).start();
        let audit = json!({"enabled": true, "logFile": path});
        let text = format!("{}audit: {audit}\n", sections(&approval()));
        let gateway = gateway_with(&[&a], &text).await;
        Self { gateway, _backend: a, path }
    }

    /// Returns the events of runs: type, step, outcome, and status or answer.
    fn events(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let runs: Vec<_> = events
            .filter_map(|event| {
                let kind = event["type"].as_str()?.strip_prefix("vmcp_workflow_")?.to_owned();
                Some((kind, event))
            })
            .collect();
        let id = |event: &Value| event["target"]["workflow_id"].as_str().unwrap().to_owned();
        assert!(runs.iter().all(|(_, event)| id(event) == id(&runs[0].1)), "one run: {runs:?}");
        let describe = |(kind, event): (String, Value)| {
            let extra = &event["metadata"]["extra"];
            let words = [
                &event["target"]["step_id"],
                &event["outcome"],
                &extra["status"],
                &extra["answer"],
            ];
            let words = words.into_iter().filter_map(Value::as_str);
            std::iter::once(kind.as_str()).chain(words).collect::<Vec<_>>().join(" ")
        };
        runs.into_iter().map(describe).collect()
    }

    /// Returns the outcomes of the calls of tools.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let calls = events.filter(|event| event["type"] == "mcp_tool_call");
        calls.map(|event| event["outcome"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the last event is written, and asserts that these are all, in this order.
    async fn assert(&self, expected: &[&str]) {
        until("the events are written", async || self.events().len() >= expected.len()).await;
        assert_eq!(self.events(), expected);
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.path);
    }
}

const ASKED: [&str; 2] = ["started success", "step_started ask success input_required"];

fn after_question<const N: usize>(events: [&'static str; N]) -> Vec<&'static str> {
    ASKED.into_iter().chain(events).collect()
}

const DECLINED: [&str; 2] =
    ["step_failed ask application_error decline", "failed application_error"];

const ACCEPTED: [&str; 4] = [
    "step_completed ask success accept",
    "step_started act success",
    "step_completed act success",
    "completed success",
];

async fn session(gateway: &Gateway) -> Caller {
    Caller::stateful_with(gateway.url(), json!({"elicitation": {}})).await.unwrap()
}

/// Calls `strict` without a session and returns the client with the parameters of its next request.
async fn suspended(gateway: &Gateway) -> (Caller, Value) {
    let mut caller = Caller::stateless_with(gateway.url(), json!({"elicitation": {"form": {}}}));
    let asked = caller.call("strict", json!({})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = &asked["requestState"];
    (caller, json!({"name": "strict", "arguments": {}, "requestState": state}))
}

#[tokio::test(flavor = "multi_thread")]
async fn records_declined_questions() {
    let audited = Audited::start("declined").await;
    let mut caller = session(&audited.gateway).await;
    let (mut stream, question) = ask(&mut caller, "strict").await;
    answer(&mut caller, &mut stream, &question["id"], json!({"action": "decline"})).await;
    audited.assert(&after_question(DECLINED)).await;

    let audited = Audited::start("declined-round").await;
    let (mut caller, mut params) = suspended(&audited.gateway).await;
    audited.assert(&ASKED).await;
    params["inputResponses"] = json!({"ask": {"action": "decline"}});
    caller.result("tools/call", params).await.unwrap();
    audited.assert(&after_question(DECLINED)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_client_that_leaves_during_question() {
    let audited = Audited::start("left").await;
    let mut caller = session(&audited.gateway).await;
    let (stream, _) = ask(&mut caller, "strict").await;
    caller.leave().await.unwrap();
    drop(stream);
    audited.assert(&after_question(["step_failed ask failure", "failed failure"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_one_start_of_resumed_runs() {
    let audited = Audited::start("resumed").await;
    let mut caller = session(&audited.gateway).await;
    let (mut stream, question) = ask(&mut caller, "strict").await;
    // `answer` posts on another connection than that of the stream.
    let accept = json!({"action": "accept", "content": {}});
    answer(&mut caller, &mut stream, &question["id"], accept.clone()).await;
    audited.assert(&after_question(ACCEPTED)).await;

    let audited = Audited::start("resumed-round").await;
    let (first, mut params) = suspended(&audited.gateway).await;
    drop(first);
    params["inputResponses"] = json!({ "ask": accept });
    let url = audited.gateway.url();
    let mut second = Caller::stateless_with(url, json!({"elicitation": {"form": {}}}));
    second.result("tools/call", params).await.unwrap();
    audited.assert(&after_question(ACCEPTED)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_calls_are_no_success() {
    for ends_session in [false, true] {
        let audited = Audited::start(if ends_session { "deleted" } else { "cancelled" }).await;
        let mut caller = session(&audited.gateway).await;
        let request = caller.request("tools/call", json!({"name": "strict"}));
        let headers = caller.headers(&request);
        let mut line = vmcp_tests::caller::Line::to(audited.gateway.url());
        let id = request["id"].clone();
        let call = tokio::spawn(async move { line.post(&headers, &request).await });
        until("the question is open", async || audited.events().len() == ASKED.len()).await;
        if ends_session {
            caller.leave().await.unwrap();
        } else {
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": id}});
            assert_eq!(caller.post(&cancel).await.unwrap().status, 202);
        }
        _ = call.await.unwrap();
        until("the call is recorded", async || !audited.calls().is_empty()).await;
        assert_eq!(audited.calls(), ["application_error"], "session ended: {ends_session}");
        audited.assert(&after_question(["step_failed ask failure", "failed failure"])).await;
    }
}
