//! Tasks whose composite tool, or a tool of its steps, changes.

use super::notifications::{listen, messages};
use super::*;

/// Tool that asks two questions.
fn asking() -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let question = |id: &str| json!({"id": id, "type": "elicitation", "message": "How many?", "schema": schema});
    json!([{"name": "asks", "steps": [question("one"), question("two"),
        {"id": "act", "tool": "be.t", "dependsOn": ["one", "two"]}]}])
}

async fn reload(scene: &TaskScene, definitions: &Value) {
    scene.gateway.reload(settings(vec![scene.backend.settings(None)], definitions)).await;
}

fn assert_changed(state: &Value) {
    assert_eq!(
        (&state["status"], &state["result"]["isError"]),
        (&json!("completed"), &json!(true)),
        "{state}"
    );
    let text = state["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("definition of workflow asks changed during the run"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn changed_definition_ends_waiting_task() {
    let mut definitions = asking();
    let scene = task_scene(&definitions).await;
    let [read, answered] = [scene.begin("asks").await, scene.begin("asks").await];
    assert_eq!(status(&scene.client, &read).await, "input_required");
    assert_eq!(status(&scene.client, &answered).await, "input_required");
    definitions[0]["description"] = "changed".into();
    reload(&scene, &definitions).await;
    assert_changed(&get(&scene.client, &read).await);
    let answer = json!({"action": "accept", "content": {"n": 1}});
    let params = json!({"taskId": answered, "inputResponses": {"one": answer}});
    assert_eq!(scene.client.ask("tasks/update", params).await.status, 200);
    assert_eq!(scene.store.counts().await.unwrap().active, 0);
    assert_changed(&get(&scene.client, &answered).await);
    // The end stays if the definition returns.
    reload(&scene, &asking()).await;
    assert_changed(&get(&scene.client, &read).await);
}

#[tokio::test(start_paused = true)]
async fn listener_observes_end_of_changed_task() {
    let mut definitions = asking();
    let scene = task_scene(&definitions).await;
    let id = scene.begin("asks").await;
    let mut stream = listen(&scene.client, &[&id]).await;
    assert_eq!(messages(&mut stream).await[1]["params"]["status"], "input_required");
    definitions[0]["timeout"] = "9m".into();
    reload(&scene, &definitions).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_changed(&messages(&mut stream).await[0]["params"]);
}

#[tokio::test(start_paused = true)]
async fn result_needs_no_tool() {
    let mut scene = task_scene(&tools()).await;
    let ended = scene.begin("acts").await;
    scene.step().await.answer(&done());
    let before = get(&scene.client, &ended).await;
    scene.gateway.reload(settings(Vec::new(), &tools())).await;
    assert_eq!(get(&scene.client, &ended).await, before);
    assert_eq!(about(&scene.client, "tasks/update", &ended).await.status, 200);
    let blind = scene.client.clone().with(without("acts"));
    assert_eq!(code(&about(&blind, "tasks/get", &ended).await), -32602);
}

#[tokio::test(start_paused = true)]
async fn step_without_tool_fails_task() {
    let tools = json!([{"name": "both", "steps": [{"id": "look", "tool": "be.look"},
        {"id": "act", "tool": "be.t", "dependsOn": ["look"]}]}]);
    let mut scene = task_scene(&tools).await;
    let id = scene.begin("both").await;
    let look = scene.step().await;
    scene.gateway.reload(settings(Vec::new(), &tools)).await;
    assert_eq!(status(&scene.client, &id).await, "working");
    look.answer(&done());
    let state = get(&scene.client, &id).await;
    assert_eq!(state["result"]["isError"], true, "{state}");
    let text = state["result"]["content"][0]["text"].to_string();
    assert!(text.contains("step \\\"act\\\"") && text.contains("be"), "{text}");
}
