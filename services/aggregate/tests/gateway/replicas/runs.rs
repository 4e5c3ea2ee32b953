//! Runs of composite tools in the memory of a replica.

use serde_json::{Value, json};
use vmcp_aggregate::settings::Settings;
use vmcp_compose::Workflow;
use vmcp_core::Generation;

use super::answer;
use super::fixtures::{Pair, events, forwards};
use crate::fake::Client;
use crate::script::{ScriptedClient, Wire, messages, text};

const TASKS: &str = "io.modelcontextprotocol/tasks";

async fn pair() -> Pair {
    let definition = json!({"name": "asks", "steps": [
        {"id": "ask", "type": "elicitation", "message": "Sure?",
            "schema": {"type": "object", "properties": {}}}]});
    let definition = serde_json::from_value(definition).unwrap();
    let workflow = Workflow::compile(&definition, "compositeTools[0]").unwrap();
    Pair::with(Wire::Stateless, |mut settings: Settings| {
        settings.rules.workflows = vec![workflow.clone()];
        settings
    })
    .await
}

async fn call(client: &ScriptedClient, params: Value) -> Value {
    let response = client.request(&json!(1), "tools/call", params).await;
    let body = text(response.into_body()).await;
    messages(&body).pop().unwrap_or_else(|| serde_json::from_str(&body).unwrap())
}

/// Begins a run. Returns the parameters of the request with the answer.
async fn begin(client: &ScriptedClient) -> Value {
    let asked = call(client, json!({"name": "asks", "arguments": {}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    json!({"name": "asks", "arguments": {}, "inputResponses": {"ask": answer()},
        "requestState": asked["result"]["requestState"]})
}

#[tokio::test]
async fn answer_continues_run_of_other_replica() {
    let pair = pair().await;
    let client = pair.client(Generation::Stateless, "ann").await;
    let params = begin(&client).await;
    let thief = pair.client(Generation::Stateless, "bob").await.on(&pair.second);
    assert_eq!(call(&thief, params.clone()).await["error"]["code"], -32602);
    let moved = client.on(&pair.second);
    let said = call(&moved, params).await;
    assert_eq!(said["result"]["resultType"], "complete", "{said}");
    assert_eq!(forwards(&pair.second, "workflow_run"), [1, 0, 0]);
}

#[tokio::test]
async fn answer_to_lost_run_is_told() {
    let pair = pair().await;
    let client = pair.client(Generation::Stateless, "ann").await;
    let params = begin(&client).await;
    pair.kill_first();
    let said = call(&client.on(&pair.second), params).await;
    let message = said["error"]["message"].as_str().unwrap();
    assert!(message.contains("lost with its replica"), "{said}");
}

#[tokio::test]
async fn response_reaches_question_of_run() {
    let pair = pair().await;
    let client = pair.client(Generation::Stateful, "ann").await;
    let params = json!({"name": "asks", "arguments": {}});
    let mut events = events(client.request(&json!(1), "tools/call", params).await);
    let (_, asked) = events.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let moved = client.clone().on(&pair.second);
    assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 202);
    let (_, said) = events.next().await.unwrap();
    assert_eq!(said["id"], 1, "{said}");
    assert!(said["result"].is_object(), "{said}");
}

#[tokio::test]
async fn task_requests_reach_run_of_other_replica() {
    let pair = pair().await;
    let declared = json!({"elicitation": {}, "extensions": {TASKS: {}}});
    let mut client = Client::declaring(&pair.first, Generation::Stateless, "ann", declared).await;
    client.identity = pair.client(Generation::Stateless, "ann").await.identity;
    let begun = client.ask("tools/call", json!({"name": "asks", "arguments": {}})).await.json();
    let id = begun["result"]["taskId"].clone();
    assert!(id.as_str().unwrap().len() <= 1024, "{begun}");
    let moved = client.clone().on(&pair.second);
    let mut status = Value::Null;
    for _ in 0..100 {
        status =
            moved.ask("tasks/get", json!({"taskId": id})).await.json()["result"]["status"].take();
        if status == "input_required" {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(status, "input_required");
    let update = json!({"taskId": id, "inputResponses": {"ask": answer()}});
    let updated = moved.ask("tasks/update", update).await;
    assert_eq!(updated.status, 200, "{updated:?}");
    let mut said = Value::Null;
    for _ in 0..1000 {
        said = moved.ask("tasks/get", json!({"taskId": id})).await.json();
        if said["result"]["status"] == "completed" {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(said["result"]["status"], "completed", "{said}");
    assert_eq!(said["result"]["taskId"], id);
    assert_eq!(forwards(&pair.second, "task")[1..], [0, 0]);
    let mut other = Client::declaring(
        &pair.second,
        Generation::Stateless,
        "bob",
        json!({"extensions": {TASKS: {}}}),
    )
    .await;
    other.identity = pair.client(Generation::Stateless, "bob").await.identity;
    assert_eq!(other.ask("tasks/get", json!({"taskId": id})).await.json()["error"]["code"], -32602);
}

/// Begins a task at the first replica. Returns its client there, and its id.
async fn begin_task(pair: &Pair) -> (Client, Value) {
    let declared = json!({"elicitation": {}, "extensions": {TASKS: {}}});
    let mut client = Client::declaring(&pair.first, Generation::Stateless, "ann", declared).await;
    client.identity = pair.client(Generation::Stateless, "ann").await.identity;
    let begun = client.ask("tools/call", json!({"name": "asks", "arguments": {}})).await.json();
    (client, begun["result"]["taskId"].clone())
}

fn filter(ids: &[&Value]) -> Value {
    json!({"notifications": {"toolsListChanged": true, "taskIds": ids}})
}

#[tokio::test]
async fn listener_hears_of_task_in_memory_elsewhere() {
    let pair = pair().await;
    let (client, id) = begin_task(&pair).await;
    let (_, ended) = begin_task(&pair).await;
    assert_eq!(client.ask("tasks/cancel", json!({"taskId": ended})).await.status, 200);
    let moved = client.on(&pair.second);
    let unknown = json!("unknown");
    let filter = filter(&[&id, &unknown, &ended, &id]);
    let mut stream = events(moved.send("subscriptions/listen", filter).await.0);
    let (_, acknowledged) = stream.next().await.unwrap();
    let followed = &acknowledged["params"]["notifications"];
    assert_eq!(followed["toolsListChanged"], true, "{acknowledged}");
    let ids = followed["taskIds"].as_array().unwrap();
    assert!(ids.contains(&id) && !ids.contains(&unknown), "{acknowledged}");
    let update = json!({"taskId": id, "inputResponses": {"ask": answer()}});
    assert_eq!(moved.ask("tasks/update", update).await.status, 200);
    let mut statuses = Vec::new();
    while statuses.last() != Some(&json!("completed")) {
        let (_, changed) = stream.next().await.unwrap();
        assert_eq!(changed["method"], "notifications/tasks", "{changed}");
        let meta = &changed["params"]["_meta"];
        assert!(!meta["io.modelcontextprotocol/subscriptionId"].is_null(), "{changed}");
        if changed["params"]["taskId"] == id {
            statuses.push(changed["params"]["status"].clone());
        }
    }
    drop(stream);
    pair.until(|_| pair.first.cache_sizes().listeners == 0).await;
}

#[tokio::test]
async fn listener_omits_tasks_of_lost_replica() {
    let pair = pair().await;
    let (client, id) = begin_task(&pair).await;
    pair.kill_first();
    let moved = client.on(&pair.second);
    let mut stream = events(moved.send("subscriptions/listen", filter(&[&id])).await.0);
    let (_, acknowledged) = stream.next().await.unwrap();
    let followed = json!({"toolsListChanged": true});
    assert_eq!(acknowledged["params"]["notifications"], followed);
}

#[tokio::test]
async fn listener_follows_replica_that_was_frozen() {
    let pair = pair().await;
    let (client, id) = begin_task(&pair).await;
    let moved = client.on(&pair.second);
    pair.freeze_first(true);
    let mut stream = events(moved.send("subscriptions/listen", filter(&[&id])).await.0);
    let (_, acknowledged) = stream.next().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]));
    pair.freeze_first(false);
    let (_, changed) = stream.next().await.unwrap();
    assert_eq!(changed["params"]["status"], "input_required", "{changed}");
}
