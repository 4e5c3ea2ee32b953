//! Tasks of two processes with the same keys and store.

use super::*;

fn asks() -> Value {
    json!([{"name": "asks", "steps": [
        {"id": "ask", "type": "elicitation", "message": "Sure?",
         "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        {"id": "act", "tool": "be.t", "dependsOn": ["ask"]},
    ]}])
}

async fn replicas(definitions: &Value) -> [TaskScene; 2] {
    let one = task_scene(definitions).await;
    let other = task_scene_with(definitions, Arc::clone(&one.store), one.clock.clone()).await;
    [one, other]
}

fn answer(id: &str, n: u64) -> Value {
    let answers = json!({"ask": {"action": "accept", "content": {"n": n}}});
    json!({"taskId": id, "inputResponses": answers})
}

#[tokio::test(start_paused = true)]
async fn answer_at_other_replica_continues_task() {
    let [mut one, mut other] = replicas(&asks()).await;
    let id = one.begin("asks").await;
    assert_eq!(status(&other.client, &id).await, "input_required");
    assert_eq!(other.client.ask("tasks/update", answer(&id, 1)).await.status, 200);
    let step = other.step().await;
    assert_eq!(status(&one.client, &id).await, "working");
    step.answer(&done());
    for scene in [&one, &other] {
        assert_eq!(status(&scene.client, &id).await, "completed");
    }
    // The process that began the run waits for the expiry of the question, and then finds it answered.
    tokio::time::sleep(Duration::from_mins(11)).await;
    assert!(one.calls.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn one_of_two_answers_wins() {
    let [mut one, mut other] = replicas(&asks()).await;
    let id = one.begin("asks").await;
    assert_eq!(status(&other.client, &id).await, "input_required");
    let updates = [
        one.client.ask("tasks/update", answer(&id, 1)),
        other.client.ask("tasks/update", answer(&id, 2)),
    ];
    let mut statuses: Vec<_> = futures_util::future::join_all(updates).await;
    statuses.sort_by_key(|said| said.status);
    assert_eq!(statuses[0].status, 200);
    assert_eq!((statuses[1].status, code(&statuses[1])), (400, -32602));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let calls = [one.calls.try_recv(), other.calls.try_recv()];
    let mut calls: Vec<_> = calls.into_iter().flatten().collect();
    assert_eq!(calls.len(), 1, "the step is called once");
    calls.remove(0).answer(&done());
    assert_eq!(status(&one.client, &id).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn cancel_at_other_replica_ends_calls() {
    let [mut one, other] = replicas(&tools()).await;
    let id = one.begin("acts").await;
    let step = one.step().await;
    assert_eq!(about(&other.client, "tasks/cancel", &id).await.status, 200);
    assert_eq!(status(&one.client, &id).await, "cancelled");
    // The process that runs it renews its lease every five seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(step.is_gone());
}

#[tokio::test(start_paused = true)]
async fn listener_hears_of_task_of_other_replica() {
    let [mut one, other] = replicas(&tools()).await;
    let id = one.begin("acts").await;
    let step = one.step().await;
    let filter = json!({"notifications": {"taskIds": [id]}});
    let mut stream = other.client.send("subscriptions/listen", filter).await.0.into_body();
    assert!(crate::fake::heard(&mut stream).await.contains("acknowledged"));
    step.answer(&done());
    let text = crate::fake::heard(&mut stream).await;
    assert!(text.contains("notifications/tasks") && text.contains("completed"), "{text}");
}
