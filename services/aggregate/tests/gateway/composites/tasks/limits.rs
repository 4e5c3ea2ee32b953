//! Number and lifetime of tasks.

use super::*;

#[tokio::test(start_paused = true)]
async fn owner_has_limited_tasks() {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let limits = StoreLimits { max_runs_per_owner: 1, max_runs: 3, ..StoreLimits::default() };
    let store = Arc::new(MemoryWorkflowStore::new(limits, clock.clone()));
    let mut scene = task_scene_with(&tools(), store, clock).await;
    let first = scene.begin("acts").await;
    let step = scene.step().await;
    let call = json!({"name": "acts", "arguments": {}});
    let refused = scene.client.ask("tools/call", call.clone()).await;
    assert_eq!((refused.status, code(&refused)), (503, -32603), "{refused:?}");
    assert_eq!(refused.response.headers["retry-after"], "5");
    begin(&client(&scene.gateway, "bob").await, "acts").await;
    let carol = client(&scene.gateway, "carol").await;
    assert_eq!(carol.ask("tools/call", call).await.status, 503, "half of one place is none");
    // An ended task makes room.
    step.answer(&done());
    assert_eq!(status(&scene.client, &first).await, "completed");
    scene.begin("acts").await;
    assert_eq!(code(&about(&scene.client, "tasks/get", &first).await), -32602);
}

#[tokio::test(start_paused = true)]
async fn result_is_kept_for_its_lifetime() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("acts").await;
    scene.step().await.answer(&done());
    assert_eq!(status(&scene.client, &id).await, "completed");
    scene.clock.advance(Duration::from_secs(3599));
    let state = get(&scene.client, &id).await;
    assert_eq!((&state["status"], &state["ttlMs"]), (&json!("completed"), &json!(3_600_000)));
    scene.clock.advance(Duration::from_secs(1));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let said = about(&scene.client, method, &id).await;
        assert_eq!((said.status, code(&said)), (400, -32602), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_of_workflow_ends_task() {
    let tools = json!([{"name": "slow", "timeout": "20s", "steps": [
        {"id": "look", "tool": "be.look"}]}]);
    let mut scene = task_scene(&tools).await;
    let id = scene.begin("slow").await;
    let step = scene.step().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let state = get(&scene.client, &id).await;
    assert_eq!(
        (&state["status"], &state["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
    assert!(state["result"]["content"][0]["text"].to_string().contains("timeout"), "{state}");
    assert!(step.is_gone());
}

#[tokio::test(start_paused = true)]
async fn result_over_limit_is_not_kept() {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let limits = StoreLimits { max_bytes_per_owner: 20_000, ..StoreLimits::default() };
    let store = Arc::new(MemoryWorkflowStore::new(limits, clock.clone()));
    let mut scene = task_scene_with(&tools(), store, clock).await;
    let [first, second] = [scene.begin("acts").await, scene.begin("acts").await];
    for step in [scene.step().await, scene.step().await] {
        let content = json!({"content": [], "structuredContent": {"n": "x".repeat(12_000)}});
        assert!(step.answer(&content));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let state = get(&scene.client, &first).await;
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("failed"), &json!(-32603)));
    let message = state["statusMessage"].as_str().unwrap();
    assert!(message.contains("its result was not kept"), "{message}");
    assert_eq!(status(&scene.client, &second).await, "completed");
}
