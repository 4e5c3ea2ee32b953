//! `forEach` steps.

use serde_json::{Value, json};
use tokio::time::Instant;
use vmcp_compose::RunErrorKind;

use crate::support::{TestEnv, error, output, workflow};

fn step(more: Value, inner: Value) -> Value {
    let mut step = json!({"id": "each", "type": "forEach", "collection": "{{json .params.items}}"});
    for (name, value) in crate::support::object(more) {
        step[name] = value;
    }
    step["step"] = inner;
    json!([step])
}

#[tokio::test(start_paused = true)]
async fn calls_tool_for_each_item() {
    let world = TestEnv::new();
    let inner = json!({"tool": "w.echo", "arguments": {
        "name": "{{.forEach.repo.name}}", "n": "{{.forEach.index}}", "p": "{{.params.p}}",
    }});
    let workflow = workflow(step(json!({"itemVar": "repo"}), inner));
    let arguments = json!({"items": [{"name": "a"}, {"name": "b"}], "p": "x"});
    let out = output(world.run(&workflow, arguments).await);
    let expected = json!({
        "iterations": [
            {"index": 0, "item": {"name": "a"}, "status": "completed",
             "output": {"name": "a", "n": "0", "p": "x"}},
            {"index": 1, "item": {"name": "b"}, "status": "completed",
             "output": {"name": "b", "n": "1", "p": "x"}},
        ],
        "count": 2, "completed": 2, "failed": 0,
    });
    assert_eq!(out, expected);
    let call = &world.tools.calls()[1];
    assert_eq!(call.step.iteration, Some(1));
    assert_eq!(call.step.idempotency_key(), "run-1/each/1");
}

#[tokio::test(start_paused = true)]
async fn empty_collection_succeeds() {
    let world = TestEnv::new();
    let workflow = workflow(step(json!({}), json!({"tool": "w.echo"})));
    let out = output(world.run(&workflow, json!({"items": []})).await);
    assert_eq!(out, json!({"iterations": [], "count": 0, "completed": 0, "failed": 0}));
    assert!(world.tools.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn collection_is_a_json_array() {
    let workflow = workflow(json!([{"id": "each", "type": "forEach",
        "collection": "{{.params.items}}", "step": {"tool": "w.echo"}}]));
    let failed = error(TestEnv::new().run(&workflow, json!({"items": ["a", "b"]})).await);
    let message = failed.to_string();
    assert!(message.contains("collection is not a JSON array: use json"), "{message}");
    assert!(message.ends_with("found \"[a b]\""), "{message}");
}

#[tokio::test(start_paused = true)]
async fn too_many_items_fail_before_any_call() {
    for (limit, more) in [(100, json!({})), (3, json!({"maxIterations": 3}))] {
        let world = TestEnv::new();
        let workflow = workflow(step(more, json!({"tool": "w.echo"})));
        let items: Vec<_> = (0..=limit).collect();
        let failed = error(world.run(&workflow, json!({ "items": items })).await);
        let expected =
            format!("step \"each\": collection has {} items; maxIterations is {limit}", limit + 1);
        assert_eq!(failed.to_string(), expected);
        assert!(world.tools.calls().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn limits_parallel_iterations() {
    for (more, limit) in [(json!({}), 10), (json!({"maxParallel": 4}), 4)] {
        let world = TestEnv::new();
        let inner = json!({"tool": "w.sleep", "arguments": {"ms": 10}});
        let workflow = workflow(step(more, inner));
        let items: Vec<_> = (0..40).collect();
        let started = Instant::now();
        output(world.run(&workflow, json!({ "items": items })).await);
        assert_eq!(world.tools.max_running(), limit);
        assert_eq!(started.elapsed().as_millis(), 10 * 40 / limit as u128);
    }
}

#[tokio::test(start_paused = true)]
async fn failing_iteration_ends_loop() {
    let world = TestEnv::new();
    let workflow = workflow(step(json!({"maxParallel": 1}), json!({"tool": "w.fail"})));
    let failed = error(world.run(&workflow, json!({"items": [1, 2, 3]})).await);
    let expected = "iteration 0: step \"each\": tool w.fail failed: broken";
    assert_eq!((failed.to_string().as_str(), failed.step()), (expected, Some("each")));
    assert_eq!(world.tools.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn tolerated_iterations_fail_alone() {
    let inner = json!({"tool": "w.flaky", "arguments": {"failures": "{{.forEach.item}}"}});
    let more = json!({"onError": {"action": "continue"}});
    let schema = json!({"properties": {"failures": {"type": "integer"}}});
    let info = vmcp_compose::ToolInfo {
        input_schema: Some(std::sync::Arc::new(schema)),
        ..vmcp_compose::ToolInfo::default()
    };
    let world = TestEnv::new().knows("w.flaky", info);
    let out = output(world.run(&workflow(step(more, inner)), json!({"items": [0, 1]})).await);
    assert_eq!(
        (&out["count"], &out["completed"], &out["failed"]),
        (&json!(2), &json!(1), &json!(1))
    );
    let failed = &out["iterations"][1];
    assert_eq!((&failed["status"], &failed["output"]), (&json!("failed"), &json!(null)));
    assert_eq!(failed["error"], "step \"each\": tool w.flaky failed: 503");
}

#[tokio::test(start_paused = true)]
async fn retries_each_iteration() {
    let world = TestEnv::new();
    let inner = json!({"tool": "w.flaky", "arguments": {"failures": 1},
        "onError": {"action": "retry", "retryCount": 1}});
    let out = output(world.run(&workflow(step(json!({}), inner)), json!({"items": [1, 2]})).await);
    assert_eq!(out["completed"], 2);
    assert_eq!(world.tools.calls().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn denied_iteration_is_a_denial() {
    let inner = json!({"tool": "w.error", "arguments": {"kind": "denied"}});
    let failed =
        error(TestEnv::new().run(&workflow(step(json!({}), inner)), json!({"items": [1]})).await);
    assert_eq!(failed.kind(), RunErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn inner_step_reads_results_of_dependencies() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "list", "tool": "w.echo", "arguments": {"items": ["a", "b"], "suffix": "!"}},
        {"id": "each", "type": "forEach", "dependsOn": ["list"],
         "collection": "{{json .steps.list.output.items}}",
         "step": {"id": "inner", "tool": "w.echo",
                  "arguments": {"x": "{{.forEach.item}}{{.steps.list.output.suffix}}"}}},
    ]));
    let out = output(world.run(&workflow, json!({})).await);
    assert_eq!(out["iterations"][1]["output"], json!({"x": "b!"}));
}

#[tokio::test(start_paused = true)]
async fn limits_size_of_all_iterations() {
    let inner = json!({"tool": "w.echo", "arguments": {"x": "{{.params.x}}"}});
    let workflow = workflow(step(json!({}), inner));
    let arguments =
        |count: usize| json!({"items": vec![0; count], "x": "x".repeat(1024 * 1024 - 100)});
    output(TestEnv::new().run(&workflow, arguments(10)).await);
    let failed = error(TestEnv::new().run(&workflow, arguments(11)).await);
    let expected = "step \"each\": the output is larger than 10 MiB: iterate over fewer items";
    assert_eq!(failed.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn loop_takes_one_of_ten_places() {
    let world = TestEnv::new();
    let mut steps = vec![json!({"id": "each", "type": "forEach", "collection": "[1,2,3,4,5]",
        "step": {"tool": "w.sleep", "arguments": {"ms": 10}}})];
    steps.extend(
        (0..9).map(|n| json!({"id": format!("s{n}"), "tool": "w.sleep", "arguments": {"ms": 10}})),
    );
    output(world.run(&workflow(steps.into()), json!({})).await);
    assert_eq!(world.tools.max_running(), 9 + 5);
}
