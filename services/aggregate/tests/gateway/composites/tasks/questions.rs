//! Questions of tasks: `input_required`, `tasks/update`.

use super::*;

/// Two questions at once, then a call with both answers.
fn approvals() -> Value {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    json!([{"name": "approve", "steps": [
        {"id": "a", "type": "elicitation", "message": "A?", "schema": schema, "timeout": "10m"},
        {"id": "b", "type": "elicitation", "message": "B?", "schema": schema, "timeout": "10m",
         "onCancel": {"action": "continue"}},
        {"id": "act", "tool": "be.t", "dependsOn": ["a", "b"], "arguments": {
            "a": "{{.steps.a.output.content.n}}", "b": "{{.steps.b.output.action}}"}},
    ]}])
}

fn accept(n: &Value) -> Value {
    json!({"action": "accept", "content": {"n": n}})
}

async fn update(client: &Client, id: &str, answers: Value) -> ClientResponse {
    client.ask("tasks/update", json!({"taskId": id, "inputResponses": answers})).await
}

fn assert_acknowledged(said: &ClientResponse) {
    assert_eq!(said.json()["result"], json!({"resultType": "complete"}), "{said:?}");
}

async fn open(client: &Client, id: &str) -> Vec<String> {
    let state = get(client, id).await;
    assert_eq!(state["status"], "input_required", "{state}");
    state["inputRequests"].as_object().unwrap().keys().cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_one_by_one() {
    let mut scene = task_scene(&approvals()).await;
    let id = scene.begin("approve").await;
    let state = get(&scene.client, &id).await;
    let question = &state["inputRequests"]["a"];
    assert_eq!(question["method"], "elicitation/create", "{state}");
    assert_eq!(question["params"]["message"], "A?");
    assert_eq!(question["params"]["requestedSchema"]["required"], json!(["n"]));
    assert!(state.get("requestState").is_none(), "{state}");
    assert_eq!(open(&scene.client, &id).await, ["a", "b"]);

    assert_acknowledged(&update(&scene.client, &id, json!({"a": accept(&json!(1))})).await);
    assert_eq!(open(&scene.client, &id).await, ["b"]);
    // The user answers after eight minutes, on another connection.
    scene.clock.advance(Duration::from_mins(8));
    let later = client(&scene.gateway, "alice").await;
    assert_acknowledged(&update(&later, &id, json!({"b": accept(&json!(2))})).await);
    let step = scene.step().await;
    let arguments = json!({"a": "1", "b": "accept"});
    assert_eq!(step.message["params"]["arguments"], arguments);
    assert_eq!(get(&later, &id).await["statusMessage"], "running step act");
    step.answer(&done());
    assert_eq!(status(&later, &id).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn other_answers_are_refused() {
    let mut scene = task_scene(&approvals()).await;
    let id = scene.begin("approve").await;
    assert_eq!(open(&scene.client, &id).await, ["a", "b"]);
    let both = json!({"a": accept(&json!(1)), "b": accept(&json!(2))});
    for _ in 0..2 {
        assert_acknowledged(&update(&scene.client, &id, both.clone()).await);
    }
    scene.step().await.answer(&done());
    assert_eq!(status(&scene.client, &id).await, "completed");
    assert_acknowledged(&update(&scene.client, &id, both).await);
    let said = update(&scene.client, &id, json!({"a": accept(&json!(3))})).await;
    assert_eq!((said.status, code(&said)), (400, -32602), "{said:?}");
    assert!(said.json()["error"]["message"].to_string().contains("differently"), "{said:?}");
    assert!(scene.calls.try_recv().is_err(), "nothing is called twice");
}

#[tokio::test(start_paused = true)]
async fn wrong_answers_leave_questions_open() {
    let scene = task_scene(&approvals()).await;
    let id = scene.begin("approve").await;
    assert_eq!(open(&scene.client, &id).await, ["a", "b"]);
    for wrong in [json!({"a": accept(&json!("one"))}), json!({"a": {"action": "maybe"}})] {
        let said = update(&scene.client, &id, wrong).await;
        assert_eq!((said.status, code(&said)), (400, -32602), "{said:?}");
    }
    for params in [json!({"taskId": id}), json!({"taskId": id, "inputResponses": []})] {
        assert_eq!(code(&scene.client.ask("tasks/update", params).await), -32602);
    }
    // Keys that no question has are ignored (Tasks, Task Update Requests).
    assert_acknowledged(&update(&scene.client, &id, json!({"x": {"ignored": true}})).await);
    assert_eq!(open(&scene.client, &id).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn expired_question_lets_task_continue() {
    let mut scene = task_scene(&approvals()).await;
    let id = scene.begin("approve").await;
    assert_eq!(open(&scene.client, &id).await, ["a", "b"]);
    assert_acknowledged(&update(&scene.client, &id, json!({"a": accept(&json!(1))})).await);
    scene.clock.advance(Duration::from_mins(10));
    // No request is needed: the process waits for the expiry.
    tokio::time::sleep(Duration::from_mins(10)).await;
    let step = scene.step().await;
    assert_eq!(step.message["params"]["arguments"], json!({"a": "1", "b": "timeout"}));
    step.answer(&done());
    assert_eq!(status(&scene.client, &id).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn question_fails_without_elicitation() {
    let scene = task_scene(&approvals()).await;
    let capabilities = json!({"extensions": {TASKS: {}}});
    let mute = Client::declaring(&scene.gateway, Generation::Stateless, "alice", capabilities);
    let mute = mute.await;
    let id = begin(&mute, "approve").await;
    let state = get(&mute, &id).await;
    assert_eq!(
        (&state["status"], &state["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_question_ends_task() {
    let scene = task_scene(&approvals()).await;
    let id = scene.begin("approve").await;
    assert_eq!(open(&scene.client, &id).await, ["a", "b"]);
    assert_eq!(about(&scene.client, "tasks/cancel", &id).await.status, 200);
    assert_eq!(status(&scene.client, &id).await, "cancelled");
    let late = json!({"a": accept(&json!(1)), "b": accept(&json!(2))});
    assert_acknowledged(&update(&scene.client, &id, late).await);
    assert_eq!(status(&scene.client, &id).await, "cancelled");
}
