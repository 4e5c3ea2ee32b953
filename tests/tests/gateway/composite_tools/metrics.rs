//! Metrics and gauges of runs.

use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use super::questions::{answer, approval, ask};
use super::{backend, sections};
use crate::common::{gateway_with, status, until};

/// Waits until the metrics have these lines. They are cached for a second.
async fn until_metrics(gateway: &Gateway, lines: &[&str]) {
    let mut text = String::new();
    let missing = async |text: &mut String| {
        *text = String::from_utf8(gateway.page("/metrics").await.unwrap().body.to_vec()).unwrap();
        lines.iter().find(|line| !text.contains(**line)).copied()
    };
    let deadline = tokio::time::Instant::now() + crate::common::SOON;
    while let Some(line) = missing(&mut text).await {
        assert!(tokio::time::Instant::now() < deadline, "{line}:\n{text}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_runs_and_steps() {
    let a = backend("a", Protocol::Stateless).start();
    let mut tools = approval();
    let fails: Value = json!({"name": "fails", "steps": [{"id": "s", "tool": "a.fail"}]});
    tools.as_array_mut().unwrap().push(fails);
    let text = sections(&tools) + "telemetry: {enablePrometheusMetricsPath: true}\n";
    let gateway = gateway_with(&[&a], &text).await;
    let accept = json!({"action": "accept", "content": {}});

    let mut session =
        Caller::stateful_with(gateway.url(), json!({"elicitation": {}})).await.unwrap();
    let (mut stream, question) = ask(&mut session, "strict").await;
    let forms = json!({"elicitation": {"form": {}}});
    let mut caller = Caller::stateless_with(gateway.url(), forms);
    let asked = caller.call("strict", json!({})).await.unwrap();
    let active = r#"vmcp_workflow_runs_active{vmcp_workflow_status="input_required"} 2"#;
    until_metrics(&gateway, &[active, r#"vmcp_cache_entries{vmcp_cache_name="workflow_runs"} 2"#])
        .await;
    let workflows = status(&gateway).await["workflows"].clone();
    assert_eq!((&workflows["runs_running"], &workflows["runs_waiting"]), (&json!(1), &json!(2)));

    answer(&mut session, &mut stream, &question["id"], accept.clone()).await;
    let params = json!({"name": "strict", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": {"ask": accept}});
    caller.result("tools/call", params).await.unwrap();
    caller.call("fails", json!({})).await.unwrap();
    let runs = |tool: &str, outcome: &str, count: u64| {
        let labels = format!(r#"gen_ai_tool_name="{tool}",vmcp_workflow_outcome="{outcome}""#);
        [
            format!("vmcp_workflow_runs_total{{{labels}}} {count}"),
            format!("vmcp_workflow_duration_seconds_count{{{labels}}} {count}"),
        ]
    };
    let lines: Vec<String> = runs("strict", "completed", 2)
        .into_iter()
        .chain(runs("fails", "failed", 1))
        .chain([("completed", 4), ("failed", 1)].map(|(outcome, count)| {
            format!(r#"vmcp_workflow_steps_total{{vmcp_workflow_outcome="{outcome}"}} {count}"#)
        }))
        .chain(["input_required", "running"].map(|status| {
            format!(r#"vmcp_workflow_runs_active{{vmcp_workflow_status="{status}"}} 0"#)
        }))
        .collect();
    until_metrics(&gateway, &lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    until("no run is left", async || status(&gateway).await["workflows"]["runs_running"] == 0)
        .await;
    assert_eq!(status(&gateway).await["cache_entries"]["workflow_runs"], 3);
}
