//! The tasks extension: the conformance suite's scenarios, and a gateway in front of several servers with tasks.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{ExtensionServer, Gateway, Report, run_tasks_suite, skipped};

/// Number of checks for a server with tasks.
const CHECKS: usize = 44;

/// Timeout of a task.
const SOON: Duration = Duration::from_secs(10);

fn assert_full_marks(report: &Report) {
    let unmet: Vec<String> = report.unmet().map(ToString::to_string).collect();
    assert!(unmet.is_empty(), "{report}:\n{}", unmet.join("\n"));
    assert_eq!((report.passed(), report.made()), (CHECKS, CHECKS));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_scenarios_score_directly() {
    if skipped() {
        return;
    }
    let server = ExtensionServer::tasks().await.unwrap();
    assert_full_marks(&run_tasks_suite(&server.url()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_scenarios_score_through_gateway() {
    if skipped() {
        return;
    }
    let server = ExtensionServer::tasks().await.unwrap();
    let gateway = Gateway::before(&server.url()).await.unwrap();
    assert_full_marks(&run_tasks_suite(gateway.url()).await.unwrap());
}

/// Starts a gateway whose composite tools take the place of some of the server's tools: the suite requires that calls of the
/// others are no tasks, or fail without the extension.
async fn composites(server: &ExtensionServer) -> Gateway {
    let question = |id: &str| {
        json!({"id": id, "type": "elicitation", "message": format!("{id}?"),
            "schema": {"type": "object", "properties": {}}})
    };
    let greeting = |after: Value| {
        json!({"id": "greet", "tool": "fixture.greet", "dependsOn": after,
            "arguments": {"name": "World"}})
    };
    let tools = json!([
        {"name": "slow_compute", "parameters": {"type": "object", "properties": {
            "seconds": {"type": "number"}, "label": {"type": "string"}}},
         "steps": [{"id": "compute", "tool": "fixture.slow_compute", "arguments": {
            "seconds": "{{.params.seconds}}", "label": "{{.params.label}}"}}]},
        {"name": "confirm_delete", "steps": [question("confirm"), greeting(json!(["confirm"]))]},
        {"name": "multi_input",
         "steps": [question("first"), question("second"), greeting(json!(["first", "second"]))]},
    ]);
    let visible = json!(["greet", "failing_job", "protocol_error_job", "test_tool_with_task"]);
    let yaml = format!(
        "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n\
         - {{name: fixture, url: \"{}\", transport: streamable-http}}\n\
         aggregation:\n  conflictResolution: priority\n  \
           conflictResolutionConfig: {{priorityOrder: [fixture]}}\n  \
           tools:\n  - {{workload: fixture, filter: {visible}}}\n\
         compositeTools: {tools}\n",
        server.url()
    );
    Gateway::start(&yaml).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_scenarios_score_with_composite_tools() {
    if skipped() {
        return;
    }
    let server = ExtensionServer::tasks().await.unwrap();
    let gateway = composites(&server).await;
    let task = Caller::stateless_with(gateway.url(), declaring())
        .call("multi_input", json!({}))
        .await
        .unwrap();
    assert_eq!(task["resultType"], "task", "{task}");
    assert_full_marks(&run_tasks_suite(gateway.url()).await.unwrap());
}

fn declaring() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

/// Starts two servers with equal tools behind one gateway, and a client that declares tasks.
async fn two_servers() -> ([ExtensionServer; 2], Gateway, Caller) {
    let servers =
        [ExtensionServer::tasks().await.unwrap(), ExtensionServer::tasks().await.unwrap()];
    let backend = |name: &str, server: &ExtensionServer| {
        format!("- {{name: {name}, url: \"{}\", transport: streamable-http}}\n", server.url())
    };
    let yaml = format!(
        "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n{}{}",
        backend("one", &servers[0]),
        backend("two", &servers[1]),
    );
    let gateway = Gateway::start(&yaml).await.unwrap();
    let caller = Caller::stateless_with(gateway.url(), declaring());
    (servers, gateway, caller)
}

/// Polls a task until it has this status.
async fn until(caller: &mut Caller, id: &Value, status: &str) -> Value {
    let start = Instant::now();
    loop {
        let task = caller.result("tasks/get", json!({ "taskId": id })).await.unwrap();
        assert_eq!(task["taskId"], *id);
        if task["status"] == status {
            return task;
        }
        assert!(start.elapsed() < SOON, "{task}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn task_requests_reach_their_own_server() {
    if skipped() {
        return;
    }
    let ([one, two], _gateway, mut caller) = two_servers().await;
    let task = caller.call("two_ask_twice", json!({})).await.unwrap();
    let id = task["taskId"].clone();
    for key in ["one", "two"] {
        let asks = until(&mut caller, &id, "input_required").await;
        assert!(asks["inputRequests"].get(key).is_some(), "{asks}");
        let given = json!({ key: { "action": "accept", "content": { "name": key } } });
        let update = json!({ "taskId": id, "inputResponses": given });
        let done = caller.result("tasks/update", update).await.unwrap();
        assert_eq!(done["resultType"], "complete");
    }
    let done = until(&mut caller, &id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "one two");
    for method in ["tasks/get", "tasks/update"] {
        let asked = two.requests(method).await.unwrap();
        assert!(!asked.is_empty(), "{method}");
        for request in asked {
            assert_eq!(request["name"], request["params"]["taskId"]);
            assert_ne!(request["name"], id);
        }
        assert!(one.requests(method).await.unwrap().is_empty(), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_learn_of_tasks_of_each_server() {
    if skipped() {
        return;
    }
    let (servers, _gateway, mut caller) = two_servers().await;
    let mut ids = Vec::new();
    for tool in ["one_hold", "two_hold"] {
        ids.push(caller.call(tool, json!({})).await.unwrap()["taskId"].clone());
    }
    let wanted = json!({ "notifications": { "taskIds": ids } });
    let mut events = caller.stream("subscriptions/listen", wanted).await.unwrap();
    let agreed = events.next().await.unwrap().unwrap();
    assert_eq!(agreed["params"]["notifications"]["taskIds"], json!(ids));
    for (server, id) in servers.iter().zip(&ids) {
        server.finish().await.unwrap();
        let told = events.next().await.unwrap().unwrap();
        assert_eq!(told["method"], "notifications/tasks", "{told}");
        assert_eq!(
            (&told["params"]["taskId"], &told["params"]["status"]),
            (id, &json!("completed"))
        );
        assert_eq!(told["params"]["result"]["content"][0]["text"], "finished");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_clients_have_no_tasks() {
    if skipped() {
        return;
    }
    let (_servers, gateway, _) = two_servers().await;
    let extensions = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut caller = Caller::stateful_with(gateway.url(), extensions).await.unwrap();
    let computed = caller.call("one_slow_compute", json!({ "seconds": 1 })).await.unwrap();
    assert_eq!(computed["content"][0]["text"], "computed ");
    let refused = caller.ask("tools/call", json!({ "name": "one_failing_job" })).await.unwrap();
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let rejected = caller.ask("tools/call", json!({ "name": "one_undeclared" })).await.unwrap();
    assert_eq!(rejected["error"]["code"], -32603, "{rejected}");
    assert_eq!(rejected["error"]["data"]["retryable"], false);
}
