//! Tasks whose process ended.

use vmcp_compose::store::FileWorkflowStore;
use vmcp_compose::{RunOwner, RunStatus};

use super::*;

/// Starts another gateway with the same keys over the same runs.
async fn replica(definitions: &Value, store: &Arc<dyn WorkflowStore>, clock: &Clock) -> TaskScene {
    task_scene_with(definitions, Arc::clone(store), clock.clone()).await
}

async fn statuses(store: &Arc<dyn WorkflowStore>) -> Vec<RunStatus> {
    let owner = RunOwner::new("https://idp.test\nalice");
    store.list(&owner, 10).await.unwrap().iter().map(|run| run.status).collect()
}

#[tokio::test(start_paused = true)]
async fn shutdown_interrupts_task_until_next_request() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("looks").await;
    let step = scene.step().await;
    scene.gateway.close().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(step.is_gone());
    assert_eq!(statuses(&scene.store).await, [RunStatus::Interrupted]);
    let refused = scene.client.ask("tools/call", json!({"name": "looks", "arguments": {}})).await;
    assert_eq!(refused.status, 503, "{refused:?}");

    let mut other = replica(&tools(), &scene.store, &scene.clock).await;
    assert_eq!(status(&other.client, &id).await, "working");
    let step = other.step().await;
    assert_eq!(statuses(&scene.store).await, [RunStatus::Running]);
    step.answer(&done());
    assert_eq!(status(&other.client, &id).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_running_task() {
    let mut scene = task_scene(&tools()).await;
    let is_quiet = async |gateway: &Gateway| {
        tokio::time::timeout(Duration::from_secs(1), gateway.wait_for_tasks()).await.is_ok()
    };
    assert!(is_quiet(&scene.gateway).await);
    let id = scene.begin("looks").await;
    let step = scene.step().await;
    assert!(!is_quiet(&scene.gateway).await);
    step.answer(&done());
    assert!(is_quiet(&scene.gateway).await);
    assert_eq!(status(&scene.client, &id).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn drain_does_not_wait_for_input() {
    let scene = task_scene(&json!([{"name": "asks", "steps": [{"id": "a", "type": "elicitation",
        "message": "A?", "schema": {"type": "object"}}]}]))
    .await;
    let id = scene.begin("asks").await;
    assert_eq!(status(&scene.client, &id).await, "input_required");
    let quiet = tokio::time::timeout(Duration::from_mins(1), scene.gateway.wait_for_tasks());
    assert!(quiet.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn task_of_dead_process_is_resumed() {
    let directory = std::env::temp_dir().join(format!("vmcp-tasks-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (before, after) = (directory.join("before"), directory.join("after"));
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let open = |path: &std::path::Path| -> Arc<dyn WorkflowStore> {
        let limits = StoreLimits::default();
        Arc::new(FileWorkflowStore::open(path, limits, clock.clone()).unwrap())
    };
    let mut scene = task_scene_with(&tools(), open(&before), clock.clone()).await;
    let [looks, acts] = [scene.begin("looks").await, scene.begin("acts").await];
    let _steps = [scene.step().await, scene.step().await];
    // A process that dies leaves this file. Its lease is valid for a while.
    std::fs::copy(&before, &after).unwrap();
    let mut other = task_scene_with(&tools(), open(&after), clock.clone()).await;
    for id in [&looks, &acts] {
        assert_eq!(status(&other.client, id).await, "working");
    }
    assert!(other.calls.try_recv().is_err(), "its lease is valid");
    clock.advance(Duration::from_secs(16));
    for id in [&looks, &acts] {
        assert_eq!(
            about(&other.client, "tasks/get", id).await.json()["result"]["status"],
            "working"
        );
    }
    other.step().await.answer(&done());
    assert_eq!(status(&other.client, &looks).await, "completed");
    assert!(other.calls.try_recv().is_err(), "a call that may act twice is not repeated");
    let state = get(&other.client, &acts).await;
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("failed"), &json!(-32603)));
    assert_eq!(state["error"]["data"], json!({"retryable": false}));
    assert_eq!(state["statusMessage"], state["error"]["message"]);
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(start_paused = true)]
async fn changed_definition_ends_interrupted_task() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("looks").await;
    let _step = scene.step().await;
    scene.gateway.close().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let changed = json!([{"name": "looks", "steps": [{"id": "other", "tool": "be.look"}]}]);
    let other = replica(&changed, &scene.store, &scene.clock).await;
    assert_eq!(status(&other.client, &id).await, "working");
    let state = get(&other.client, &id).await;
    assert_eq!(
        (&state["status"], &state["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn removed_tool_has_no_tasks() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("looks").await;
    let _step = scene.step().await;
    let without_tool = settings(vec![scene.backend.settings(None)], &json!([]));
    scene.gateway.reload(without_tool).await;
    assert_eq!(code(&about(&scene.client, "tasks/get", &id).await), -32602);
    assert_eq!(about(&scene.client, "tasks/cancel", &id).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn changed_definition_ends_running_task() {
    let mut definitions = json!([{"name": "two", "steps": [
        {"id": "one", "tool": "be.t"},
        {"id": "two", "tool": "be.look", "dependsOn": ["one"]},
    ]}]);
    let mut scene = task_scene(&definitions).await;
    let id = scene.begin("two").await;
    let step = scene.step().await;
    definitions[0]["description"] = "changed".into();
    scene.gateway.reload(settings(vec![scene.backend.settings(None)], &definitions)).await;
    // The latest request of the owner has the new configuration.
    assert_eq!(status(&scene.client, &id).await, "working");
    step.answer(&done());
    let ended = get(&scene.client, &id).await;
    let text = ended["result"]["content"][0]["text"].to_string();
    assert!(text.contains("a reload changed or removed the composite tool"), "{ended}");
    assert_eq!(scene.backend.messages("tools/call").len(), 1);
}
