//! Notifications of tasks on `subscriptions/listen`.

use vmcp_aggregate::{CallerAccess, CallerAuthorizer};
use vmcp_core::Body;

use super::*;
use crate::fake::heard;

/// A call, a question, and a call.
fn asks() -> Value {
    json!([{"name": "asks", "steps": [
        {"id": "first", "tool": "be.look"},
        {"id": "ask", "type": "elicitation", "dependsOn": ["first"], "message": "Sure?",
         "schema": {"type": "object", "properties": {}}},
        {"id": "last", "tool": "be.look", "dependsOn": ["ask"]},
    ]}])
}

pub(super) async fn listen(client: &Client, ids: &[&str]) -> Body {
    let filter = json!({"notifications": {"taskIds": ids}});
    client.send("subscriptions/listen", filter).await.0.into_body()
}

/// Returns the messages sent on a stream within a second.
pub(super) async fn messages(stream: &mut Body) -> Vec<Value> {
    let text = heard(stream).await;
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn statuses(messages: &[Value]) -> Vec<&str> {
    let of = |message: &Value| assert_eq!(message["method"], "notifications/tasks", "{message}");
    messages.iter().for_each(of);
    messages.iter().map(|it| it["params"]["status"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn listener_hears_of_each_status() {
    let mut scene = task_scene(&asks()).await;
    let id = scene.begin("asks").await;
    let bob = client(&scene.gateway, "bob").await;
    let mut foreign = listen(&bob, &[&id]).await;
    let mut stream = listen(&scene.client, &[&id, &id, "unknown"]).await;
    let acknowledged = messages(&mut stream).await;
    assert_eq!(acknowledged[0]["params"]["notifications"], json!({"taskIds": [id]}));
    assert_eq!(acknowledged.len(), 1);

    scene.step().await.answer(&done());
    let heard = messages(&mut stream).await;
    assert_eq!(statuses(&heard), ["input_required"]);
    let params = &heard[0]["params"];
    assert_eq!(params["taskId"], json!(id));
    assert_eq!(params["inputRequests"]["ask"]["params"]["message"], "Sure?");
    assert!(params.get("resultType").is_none() && params["_meta"].is_object(), "{params}");

    let answers = json!({"ask": {"action": "accept", "content": {}}});
    let update = json!({"taskId": id, "inputResponses": answers});
    assert_eq!(scene.client.ask("tasks/update", update).await.status, 200);
    let step = scene.step().await;
    assert_eq!(statuses(&messages(&mut stream).await), ["working"]);
    step.answer(&done());
    let heard = messages(&mut stream).await;
    assert_eq!(statuses(&heard), ["completed"]);
    let result = get(&scene.client, &id).await["result"].clone();
    assert_eq!(heard[0]["params"]["result"], result);
    let acknowledged = messages(&mut foreign).await;
    assert_eq!(acknowledged.len(), 1, "{acknowledged:?}");
    assert_eq!(acknowledged[0]["params"]["notifications"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn listener_hears_of_cancelled_task() {
    let mut scene = task_scene(&asks()).await;
    let id = scene.begin("asks").await;
    let _step = scene.step().await;
    let mut stream = listen(&scene.client, &[&id]).await;
    assert_eq!(messages(&mut stream).await.len(), 1);
    about(&scene.client, "tasks/cancel", &id).await;
    assert_eq!(statuses(&messages(&mut stream).await), ["cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn hidden_task_is_not_announced() {
    let mut scene = task_scene(&asks()).await;
    let id = scene.begin("asks").await;
    let step = scene.step().await;
    let mut stream = listen(&scene.client, &[&id]).await;
    assert_eq!(messages(&mut stream).await.len(), 1);
    let blind = CallerAuthorizer::new(|_| CallerAccess::Restricted(without("be_look")));
    scene.gateway.set_caller_authorizer(Some(blind));
    step.answer(&done());
    let heard = messages(&mut stream).await;
    assert!(heard.iter().all(|it| it["method"] != "notifications/tasks"), "{heard:?}");
}
