//! Questions to the client of a session: their end without an answer.

use std::time::SystemTime;

use vmcp_core::{Clock, Identity};

use super::*;

/// Question with this timeout, beside a call.
fn asks(timeout: &str) -> Value {
    json!([
        {"name": "asks", "steps": [{"id": "ask", "type": "elicitation", "message": "Sure?",
            "schema": {"type": "object", "properties": {}}, "timeout": timeout}]},
        {"name": "both", "steps": [
            {"id": "ask", "type": "elicitation", "message": "Sure?",
                "schema": {"type": "object", "properties": {}}},
            {"id": "call", "tool": "be.t"},
        ]},
    ])
}

/// Asserts that the question is withdrawn before the result, and returns its id and the result.
fn withdrawn(messages: &[Value]) -> (Value, Value) {
    let [question, withdrawal, result] = messages else { panic!("three messages: {messages:?}") };
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(withdrawal["method"], "notifications/cancelled", "{withdrawal}");
    assert_eq!(withdrawal["params"]["requestId"], question["id"], "{withdrawal}");
    (question["id"].clone(), result["result"].clone())
}

#[tokio::test(start_paused = true)]
async fn withdraws_question_that_timed_out() {
    let scene = scene(Generation::Stateful, Wire::Stateful, &asks("3s")).await;
    // A session may have 64 open server requests.
    for call in 1..=70 {
        let (id, result) = withdrawn(&scene.begin(call, "asks").await.unwrap());
        assert!(result["content"][0]["text"].to_string().contains("in time"), "{result}");
        let late = scene.client.reply(&id, json!({"action": "cancel"})).await;
        assert_eq!(late.status(), 400);
    }
}

#[tokio::test(start_paused = true)]
async fn withdraws_question_of_failed_run() {
    let mut scene = scene(Generation::Stateful, Wire::Stateful, &asks("3s")).await;
    let run = scene.begin(1, "both");
    scene.received().await.pop().unwrap().refuse_with(-32603);
    let (_, result) = withdrawn(&run.await.unwrap());
    assert_eq!(result["isError"], true, "{result}");
}

#[tokio::test(start_paused = true)]
async fn withdraws_question_of_cancelled_run() {
    let mut scene = scene(Generation::Stateful, Wire::Stateful, &asks("3s")).await;
    let run = scene.begin(1, "both");
    assert_eq!(scene.received().await.len(), 1);
    scene.client.notify("notifications/cancelled", json!({"requestId": 1})).await;
    let messages = run.await.unwrap();
    assert_eq!(messages[1]["params"]["requestId"], messages[0]["id"], "{messages:?}");
    assert_eq!(messages.len(), 2, "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn withdraws_question_of_stateless_backend() {
    let mut scene = scene(Generation::Stateful, Wire::Stateless, &asks("3s")).await;
    let call = scene.begin(1, "be_t");
    let params = json!({"message": "Sure?", "requestedSchema": {"type": "object"}});
    let requests = json!({"q": {"method": "elicitation/create", "params": params}});
    let asked = json!({"resultType": "input_required", "inputRequests": requests});
    scene.received().await.pop().unwrap().answer(&asked);
    let messages = call.await.unwrap();
    assert_eq!(messages[1]["method"], "notifications/cancelled", "{messages:?}");
    assert_eq!(messages[1]["params"]["requestId"], messages[0]["id"], "{messages:?}");
    assert!(messages[2]["error"]["message"].to_string().contains("in time"), "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn revoked_token_ends_question() {
    let mut scene = scene(Generation::Stateful, Wire::Stateful, &asks("9m")).await;
    let revoked = || async { tokio::time::sleep(Duration::from_mins(1)).await };
    let known = Identity::builder("https://idp.test", "alice").revocation(Arc::new(revoked));
    scene.client.identity = known.build();
    let begun = tokio::time::Instant::now();
    let (_, result) = withdrawn(&scene.begin(1, "asks").await.unwrap());
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the token was revoked"), "{text}");
    assert!(begun.elapsed() < Duration::from_mins(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn answer_with_new_token_continues_run() {
    let definition = json!([{"name": "then", "steps": [
        {"id": "ask", "type": "elicitation", "message": "Sure?", "timeout": "9m",
            "schema": {"type": "object", "properties": {}}},
        {"id": "act", "tool": "be.t", "dependsOn": ["ask"]},
    ]}]);
    let clock = Clock::manual(SystemTime::now());
    let limits = Limits { clock: clock.clone(), ..Limits::default() };
    let mut scene = scene_with(Generation::Stateful, Wire::Stateful, &definition, limits).await;
    let token = || {
        let expires_at = clock.now() + Duration::from_mins(1);
        Identity::builder("https://idp.test", "alice").expires_at(expires_at).build()
    };
    scene.client.identity = token();
    let run = scene.begin(1, "then");
    tokio::time::sleep(Duration::from_mins(5)).await;
    clock.advance(Duration::from_mins(5));
    scene.client.identity = token();
    let answer = json!({"action": "accept", "content": {}});
    assert_eq!(scene.client.reply(&json!(1), answer).await.status(), 202);
    assert!(scene.received().await.pop().unwrap().answer(&done()));
    let outcome = run.await.unwrap().pop().unwrap();
    assert_eq!(outcome["result"]["structuredContent"]["text"], "done", "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn questions_wait_for_place_in_session() {
    let question = |number: usize| {
        json!({"id": format!("q{number}"), "type": "elicitation", "message": "Sure?",
            "schema": {"type": "object", "properties": {}}})
    };
    let questions: Vec<_> = (0..10).map(question).collect();
    let definition = json!([{"name": "many", "steps": questions}]);
    let scene = scene(Generation::Stateful, Wire::Stateful, &definition).await;
    let runs: Vec<_> = (1..=7).map(|id| scene.begin(id, "many")).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let accept = json!({"action": "accept", "content": {}});
    // A session may have 64 open server requests.
    assert_eq!(scene.client.reply(&json!(65), accept.clone()).await.status(), 400);
    for id in 1..=70 {
        let replied = scene.client.reply(&json!(id), accept.clone()).await;
        assert_eq!(replied.status(), 202, "{id}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for run in runs {
        let outcome = run.await.unwrap().pop().unwrap();
        assert!(outcome["result"]["isError"].is_null(), "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_question_names_error_of_answer() {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let definition = json!([{"name": "asks", "steps": [
        {"id": "ask", "type": "elicitation", "message": "How many?", "schema": schema}]}]);
    let scene = scene(Generation::Stateful, Wire::Stateful, &definition).await;
    let run = scene.begin(1, "asks");
    // The tenth invalid answer fails the step.
    for id in 1..=10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let wrong = json!({"action": "accept", "content": {"n": "x"}});
        assert_eq!(scene.client.reply(&json!(id), wrong).await.status(), 202, "{id}");
    }
    let messages = run.await.unwrap();
    let asked = |message: &Value| message["params"]["message"].as_str().map(str::to_owned);
    let asked: Vec<_> = messages.iter().filter_map(asked).collect();
    assert_eq!((asked.len(), &*asked[0]), (10, "How many?"));
    for repeated in &asked[1..] {
        let expected = "How many?\n\nanswer to step \"ask\" is invalid at content.n: the value \
                        is not of type \"integer\"";
        assert_eq!(repeated, expected);
    }
    let text = messages[10]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("too many invalid answers"), "{text}");
}
