//! Sizes of results and answers: the limits count bytes of compact JSON, the store memory.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use vmcp_compose::limits::{MAX_ANSWER_BYTES, MAX_STEP_OUTPUT_BYTES};
use vmcp_compose::{Answer, MemoryWorkflowStore, RunErrorKind, StoreLimits, Workflow};

use crate::support::{TestEnv, User, compile, error, output, workflow};

/// Returns an object of `bytes` of JSON.
fn object_of(bytes: usize) -> Value {
    let object = json!({"s": "x".repeat(bytes - r#"{"s":""}"#.len())});
    assert_eq!(object.to_string().len(), bytes);
    object
}

fn echo(id: &str, arguments: Value) -> Value {
    json!({"id": id, "tool": "w.echo", "arguments": arguments})
}

/// Surroundings whose store holds `bytes` of memory of one owner.
fn limited_to(bytes: usize) -> TestEnv {
    let world = TestEnv::new();
    let limits = StoreLimits { max_bytes_per_owner: bytes, ..StoreLimits::default() };
    let store = MemoryWorkflowStore::new(limits, world.clock.clone());
    TestEnv { store: Arc::new(store), ..world }
}

#[tokio::test(start_paused = true)]
async fn small_numbers_count_as_their_json() {
    let zeros = json!({"zeros": vec![0; 240_000]});
    let out = output(TestEnv::new().run(&workflow(json!([echo("a", zeros)])), json!({})).await);
    assert_eq!(out["zeros"].as_array().map(Vec::len), Some(240_000));
}

#[tokio::test(start_paused = true)]
async fn output_of_step_is_limited_exactly() {
    let run = async |bytes| {
        let steps = json!([echo("a", object_of(bytes))]);
        TestEnv::new().run(&workflow(steps), json!({})).await
    };
    output(run(MAX_STEP_OUTPUT_BYTES).await);
    let failed = error(run(MAX_STEP_OUTPUT_BYTES + 1).await);
    let expected = "step \"a\": the output is larger than 1 MiB: ask the tool for less";
    assert_eq!(failed.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn answer_is_limited_exactly() {
    let steps = json!([{"id": "ask", "type": "elicitation", "message": "m",
        "schema": {"type": "object"}, "timeout": "1s"}]);
    for (bytes, rejected) in [(MAX_ANSWER_BYTES, 0), (MAX_ANSWER_BYTES + 1, 1)] {
        let user = User::new([("ask", Answer::Accept(object_of(bytes)))]);
        user.answer("ask", Answer::Accept(json!({})));
        output(TestEnv::with_user(&user).run(&workflow(steps.clone()), json!({})).await);
        let asked = user.asked.lock().unwrap();
        let errors: Vec<_> = asked.iter().filter_map(|(_, error)| error.as_ref()).collect();
        assert_eq!(errors.len(), rejected, "{bytes}");
        assert!(errors.iter().all(|error| error.message == "larger than 1 MiB"));
    }
}

#[tokio::test(start_paused = true)]
async fn output_of_loop_includes_its_items() {
    let run = async |output: usize| {
        let items = vec!["x".repeat(1_000_000); 10];
        let inner = json!({"tool": "w.echo", "arguments": {"y": "y".repeat(output), "x": "{{.forEach.index}}"}});
        let steps = json!([{"id": "each", "type": "forEach", "step": inner,
            "collection": "{{json .params.items}}"}]);
        let world = TestEnv::new();
        (world.run(&workflow(steps), json!({"items": items})).await, world.tools.calls().len())
    };
    output(run(47_000).await.0);
    let (outcome, calls) = run(50_000).await;
    let expected = "step \"each\": the output is larger than 10 MiB: iterate over fewer items";
    assert_eq!((error(outcome).to_string().as_str(), calls), (expected, 10));
}

#[tokio::test(start_paused = true)]
async fn unread_outputs_are_dropped() {
    let steps: Vec<_> = (0..50)
        .map(|n: usize| match n.checked_sub(1) {
            None => echo("s0", object_of(100_000)),
            Some(before) => {
                let mut step = echo(&format!("s{n}"), object_of(100_000));
                step["dependsOn"] = json!([format!("s{before}")]);
                step["arguments"]["x"] = format!("{{{{len .steps.s{before}.output.s}}}}").into();
                step
            }
        })
        .collect();
    let world = limited_to(400_000);
    let out = output(world.run(&workflow(steps.into()), json!({})).await);
    assert_eq!(out["x"], "99992", "the last step is the output");
}

/// A chain of steps with 200 KB of output each, all of which the output of the run reads.
fn chain(count: usize) -> Workflow {
    let step = |n: usize| {
        let mut step = echo(&format!("s{n}"), object_of(200_000));
        step["dependsOn"] =
            n.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect();
        step
    };
    let property = |n: usize| {
        let value = format!("{{{{len .steps.s{n}.output.s}}}}");
        (format!("l{n}"), json!({"type": "integer", "value": value}))
    };
    compile(json!({
        "name": "t",
        "steps": (0..count).map(step).collect::<Vec<_>>(),
        "output": {"properties": (0..count).map(property).collect::<Map<_, _>>()},
    }))
}

#[tokio::test(start_paused = true)]
async fn outputs_that_run_reads_are_kept() {
    let world = limited_to(1_000_000);
    let out = output(world.run(&chain(3), json!({})).await);
    assert_eq!(out, json!({"l0": 199_992, "l1": 199_992, "l2": 199_992}));
    let world = limited_to(1_000_000);
    let failed = error(world.run(&chain(6), json!({})).await);
    assert_eq!(failed.kind(), RunErrorKind::StoreFull);
    assert_eq!(
        failed.to_string(),
        "the results of the run need more than 1000000 bytes of memory, the limit of the workflow store: \
         let its tools return less, or split the composite tool"
    );
    let bytes = world.store.counts().await.unwrap().bytes;
    assert!(bytes < 10_000, "the outputs of a run that ended are not kept: {bytes}");
}

#[tokio::test(start_paused = true)]
async fn output_of_last_step_outlives_slower_ones() {
    let steps = json!([
        {"id": "slow", "tool": "w.sleep", "arguments": {"ms": 100}},
        echo("last", json!({"x": "last"})),
        {"id": "skipped", "tool": "w.echo", "dependsOn": ["slow"], "condition": "false"},
    ]);
    let out = output(TestEnv::new().run(&workflow(steps), json!({})).await);
    assert_eq!(out, json!({"x": "last"}));
}
