//! Tasks of stateless backends through the gateway.

mod backend;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vmcp_aggregate::settings::{Limits, PartialFailure, Rules};
use vmcp_aggregate::settings::{Override, WorkloadRules};
use vmcp_aggregate::{CallerAccess, CallerAuthorizer, Gateway};
use vmcp_core::{
    Authorizer, Backend, Body, CallerPermissions, Clock, Decision, Fingerprint, Generation, Item,
};
use vmcp_seal::{KeyRing, SealKey};

use self::backend::{TASKS, TaskBackend};
use crate::fake::{
    Client, ClientResponse, FakeBackend, begin_replica, gateway, heard, settings, with,
};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn declaring() -> Value {
    json!({"elicitation": {}, "extensions": {TASKS: {}}})
}

/// Creates a gateway with one backend, and a client that declares tasks.
async fn cell() -> (Arc<TaskBackend>, Gateway, Client) {
    let backend = TaskBackend::new("be");
    let gateway = with(vec![backend.settings()], PartialFailure::BestEffort).await;
    let client = client(&gateway, "ann").await;
    (backend, gateway, client)
}

/// Creates a replica whose ring has one key.
async fn replica(backend: &Arc<TaskBackend>, key: u8) -> Gateway {
    let key = SealKey::from_bytes([key; 32]);
    let ring = KeyRing::new("gateway", &[key], Clock::system()).unwrap();
    let settings = settings(vec![backend.settings()], PartialFailure::BestEffort, None);
    begin_replica(settings, Limits::default(), ring).await
}

async fn client(gateway: &Gateway, subject: &str) -> Client {
    Client::declaring(gateway, Generation::Stateless, subject, declaring()).await
}

async fn begin(client: &Client) -> String {
    let said = client.ask("tools/call", json!({"name": "be_slow"})).await;
    let result = &said.json()["result"];
    assert_eq!((said.status, &result["resultType"]), (200, &json!("task")), "{said:?}");
    result["taskId"].as_str().unwrap().to_owned()
}

async fn about(client: &Client, method: &str, id: &str) -> ClientResponse {
    client.ask(method, json!({"taskId": id})).await
}

fn code(said: &ClientResponse) -> i64 {
    said.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {said:?}"))
}

#[tokio::test(start_paused = true)]
async fn maps_ids_in_bodies_and_headers() {
    for in_frames in [false, true] {
        let (backend, _gateway, client) = cell().await;
        backend.set_in_frames(in_frames);
        let id = begin(&client).await;
        assert!(id.len() <= 1024 && !id.contains("be-task"), "{id}");
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let said = about(&client, method, &id).await;
            assert_eq!(said.status, 200, "{said:?}");
            let expected = if method == "tasks/get" { json!(id) } else { Value::Null };
            assert_eq!(said.json()["result"]["taskId"], expected, "{method}");
            let (name, params) = backend.asked(method).remove(0);
            assert_eq!(name.as_deref(), Some("be-task"));
            assert_eq!(params["taskId"], "be-task");
            assert_eq!(said.request_context.backend().map(Backend::name), Some("be"));
        }
        let said = client.ask("tools/call", json!({"name": "be_plain"})).await;
        assert_eq!(said.json()["result"]["resultType"], "complete");
    }
}

#[tokio::test(start_paused = true)]
async fn repeats_task_id_of_client() {
    let (_backend, _gateway, client) = cell().await;
    let id = begin(&client).await;
    let again = about(&client, "tasks/get", &id).await.json();
    assert_eq!(about(&client, "tasks/get", &id).await.json(), again);
    assert_eq!(again["result"]["taskId"], json!(id));
}

#[tokio::test(start_paused = true)]
async fn rejects_undeclared_task_requests() {
    let (backend, gateway, client) = cell().await;
    let id = begin(&client).await;
    let undeclared = Client::new(&gateway, Generation::Stateless, "ann").await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in [&*id, "unknown"] {
            let said = about(&undeclared, method, id).await;
            assert_eq!((said.status, code(&said)), (400, -32021), "{said:?}");
            let required = &said.json()["error"]["data"]["requiredCapabilities"];
            assert_eq!(*required, json!({"extensions": {TASKS: {}}}));
        }
        assert_eq!(backend.asked(method).len(), 0);
    }
    let listen = json!({"notifications": {"taskIds": [id]}});
    assert_eq!(code(&undeclared.ask("subscriptions/listen", listen).await), -32021);
    for method in ["tasks/list", "tasks/result"] {
        assert_eq!(code(&about(&client, method, &id).await), -32601);
    }
    assert_eq!(code(&client.ask("tasks/get", json!({"taskId": 7})).await), -32602);
}

/// Authorizer that hides names containing the word.
struct HideWord(&'static str);

impl Authorizer for HideWord {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        !item.name.contains(self.0)
    }

    fn authorize(&self, item: &Item<'_>, _: Option<&[u8]>) -> Decision {
        if self.is_visible(item) { Decision::Allow } else { Decision::Hide }
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint([self.0.as_bytes()[0]; 16])
    }
}

pub(crate) fn without(word: &'static str) -> CallerPermissions {
    CallerPermissions::new(HideWord(word))
}

#[tokio::test(start_paused = true)]
async fn rejects_task_of_hidden_tool() {
    let (backend, _gateway, client) = cell().await;
    let seeing = client.clone().with(without("nothing"));
    let id = begin(&seeing).await;
    assert_eq!(about(&seeing, "tasks/get", &id).await.status, 200);
    let blind = client.with(without("slow"));
    for method in ["tasks/get", "tasks/update"] {
        let said = about(&blind, method, &id).await;
        assert_eq!((said.status, code(&said)), (400, -32602));
        assert_eq!(said.request_context.denied(), Some("hidden from the caller"));
    }
    assert_eq!(backend.asked("tasks/get").len(), 1);
    assert_eq!(about(&blind, "tasks/cancel", &id).await.status, 200);
    assert_eq!(backend.asked("tasks/cancel").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_and_foreign_tasks_get_equal_responses() {
    let (backend, gateway, client) = cell().await;
    let id = begin(&client).await;
    let bob = self::client(&gateway, "bob").await;
    let blind = client.clone().with(without("slow"));
    let other = TaskBackend::new("other");
    let without_be = with(vec![other.settings()], PartialFailure::BestEffort).await;
    let elsewhere = self::client(&without_be, "ann").await;
    let long = "x".repeat(1025);
    for (client, id) in [
        (&bob, &*id),
        (&blind, &id),
        (&elsewhere, &id),
        (&client, "tasks-conformance-nonexistent-12345"),
        (&client, "be-task"),
        (&client, &long),
        (&client, ""),
    ] {
        let said = about(client, "tasks/get", id).await;
        let echo: String = id.chars().take(256).collect();
        let echo = if id.len() > 256 { echo + "…" } else { echo };
        let expected = json!({"jsonrpc": "2.0", "id": 1, "error":
            {"code": -32602, "message": format!("unknown task: {echo}")}});
        assert_eq!((said.status, said.json()), (400, expected));
    }
    assert_eq!(backend.asked("tasks/get").len(), 0);
    assert_eq!(other.asked("tasks/get").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn rejects_overlong_task_id_and_cancels() {
    let (backend, _gateway, client) = cell().await;
    let raw = "x".repeat(2000);
    backend.set_next(&raw);
    let said = client.ask("tools/call", json!({"name": "be_slow"})).await;
    let error = &said.json()["error"];
    assert_eq!((said.status, &error["code"]), (200, &json!(-32603)), "{said:?}");
    assert_eq!(error["data"]["retryable"], false);
    assert!(error["message"].to_string().contains("too long"), "{error}");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (name, params) = backend.asked("tasks/cancel").remove(0);
    assert_eq!((name.as_deref(), &params["taskId"]), (Some(&*raw), &json!(raw)));
}

#[tokio::test(start_paused = true)]
async fn rejects_task_that_was_not_declared() {
    for generation in [Generation::Stateless, Generation::Stateful] {
        for (method, name) in [("tools/call", "be_slow"), ("prompts/get", "be_odd")] {
            for in_frames in [false, true] {
                let (backend, gateway, declaring) = cell().await;
                backend.set_in_frames(in_frames);
                let client = match (generation, method) {
                    // Only tools have tasks, whatever the client declares.
                    (Generation::Stateless, "prompts/get") => declaring,
                    _ => Client::new(&gateway, generation, "ann").await,
                };
                let said = client.ask(method, json!({"name": name})).await;
                assert_eq!(code(&said), -32603, "{said:?}");
                assert!(!String::from_utf8_lossy(&said.body).contains("be-task"));
                tokio::time::sleep(Duration::from_millis(1)).await;
                let cancelled = backend.asked("tasks/cancel");
                assert_eq!(cancelled.len(), 1, "{generation:?} {method} {in_frames}");
                assert_eq!(cancelled[0].1["taskId"], "be-task");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn forwards_task_status() {
    let (backend, _gateway, client) = cell().await;
    backend.set_members(json!({"status": "working", "ttlMs": null, "statusMessage": "s"}));
    let said = client.ask("tools/call", json!({"name": "be_slow"})).await.json();
    let id = said["result"]["taskId"].as_str().unwrap();
    assert_eq!(said["result"]["ttlMs"], 604_800_000);
    assert_eq!(said["result"]["statusMessage"], "s");
    let result = json!({"content": [{"type": "text", "text": "done"}], "requestState": "own"});
    let task = json!({"status": "completed", "ttlMs": 1000, "result": result,
        "requestState": "raw", "_meta": {RELATED: {"taskId": "be-task"}, "a": 1}});
    backend.set_task("be-task", task);
    let said = about(&client, "tasks/get", id).await.json();
    let expected = json!({"status": "completed", "ttlMs": 1000, "result": result, "taskId": id,
        "resultType": "complete", "_meta": {RELATED: {"taskId": id}, "a": 1}});
    assert_eq!(said["result"], expected);
}

#[tokio::test(start_paused = true)]
async fn maps_related_task_of_request() {
    let (backend, gateway, client) = cell().await;
    let id = begin(&client).await;
    let related =
        |id: &str| json!({"name": "be_plain", "_meta": {RELATED: {"taskId": id, "a": 1}}});
    let bob = self::client(&gateway, "bob").await;
    for (client, id, expected) in [
        (&client, &*id, json!({"taskId": "be-task", "a": 1})),
        (&client, "be-task", Value::Null),
        (&bob, &id, Value::Null),
    ] {
        let said = client.ask("tools/call", related(id)).await.json();
        assert_eq!(said["result"]["asked"]["_meta"][RELATED], expected);
    }
    assert_eq!(backend.asked("tools/call").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn task_survives_replica_with_same_keys() {
    let backend = TaskBackend::new("be");
    let first = replica(&backend, 7).await;
    let id = begin(&client(&first, "ann").await).await;
    for (key, known) in [(7, true), (8, false)] {
        let replica = replica(&backend, key).await;
        let said = about(&client(&replica, "ann").await, "tasks/get", &id).await;
        assert_eq!(said.status == 200, known, "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn task_survives_renamed_and_missing_tool() {
    let (backend, gateway, client) = cell().await;
    let id = begin(&client).await;
    let mut settings = settings(vec![backend.settings()], PartialFailure::BestEffort, None);
    let rename = Override { name: Some("other".to_owned()), ..Override::default() };
    let overrides = [("slow".to_owned(), rename)].into();
    let workload = WorkloadRules { overrides, ..WorkloadRules::default() };
    settings.rules = Rules { workloads: [("be".to_owned(), workload)].into(), ..Rules::default() };
    gateway.reload(settings.clone()).await;
    assert_eq!(about(&client, "tasks/get", &id).await.status, 200);
    // Policies are evaluated with the current advertised name.
    let blind = client.clone().with(without("other"));
    assert_eq!(about(&blind, "tasks/get", &id).await.status, 400);
    let seeing = client.clone().with(without("slow"));
    assert_eq!(about(&seeing, "tasks/get", &id).await.status, 200);
    // A tool hidden by configuration has no visible tasks, but they can be cancelled.
    let workload = WorkloadRules { exclude_all: true, ..WorkloadRules::default() };
    settings.rules = Rules { workloads: [("be".to_owned(), workload)].into(), ..Rules::default() };
    gateway.reload(settings).await;
    assert_eq!(about(&client, "tasks/get", &id).await.status, 400);
    assert_eq!(about(&client, "tasks/cancel", &id).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn task_of_missing_backend_is_not_unknown() {
    let backend = TaskBackend::new("be");
    let first = replica(&backend, 7).await;
    let id = begin(&client(&first, "ann").await).await;
    backend.set_away(true);
    // A replica that has not fetched the backend's tools yet.
    let replica = replica(&backend, 7).await;
    let client = client(&replica, "ann").await;
    for client in [client.clone(), client.with(without("nothing"))] {
        for method in ["tasks/get", "tasks/cancel"] {
            let said = about(&client, method, &id).await;
            let error = &said.json()["error"];
            assert_eq!((said.status, &error["code"]), (200, &json!(-32603)), "{said:?}");
            assert_eq!(error["data"]["retryable"], true);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stateful_backends_have_no_tasks() {
    let fake =
        FakeBackend::new("be", Generation::Stateful).offer("*", json!({"tools": [{"name": "x"}]}));
    let (_backend, _other, client) = cell().await;
    let id = begin(&client).await;
    let gateway = gateway(std::slice::from_ref(&fake)).await;
    let client = self::client(&gateway, "ann").await;
    assert_eq!(code(&about(&client, "tasks/get", &id).await), -32602);
    assert_eq!(fake.times("tasks/get", "ann"), 0);
    let session = Client::new(&gateway, Generation::Stateful, "ann").await;
    assert_eq!(code(&about(&session, "tasks/get", &id).await), -32601);
}

/// Returns the messages sent on a stream within a second.
async fn messages(stream: &mut Body) -> Vec<Value> {
    let text = heard(stream).await;
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn follows_tasks_on_listen() {
    let (backend, gateway, client) = cell().await;
    let id = begin(&client).await;
    backend.set_next("second");
    let second = begin(&client).await;
    backend.set_next("foreign");
    let foreign = begin(&self::client(&gateway, "bob").await).await;
    let listen = json!({"notifications": {"taskIds": [id, second, foreign, "made up", id]}});
    let (response, _) = client.send("subscriptions/listen", listen).await;
    let mut stream = response.into_body();
    let agreed = messages(&mut stream).await;
    assert_eq!(agreed.len(), 1, "{agreed:?}");
    assert_eq!(agreed[0]["params"]["notifications"], json!({"taskIds": [id, second]}));
    let (_, asked) = backend.asked("subscriptions/listen").pop().unwrap();
    assert_eq!(asked["notifications"], json!({"taskIds": ["be-task", "second"]}));
    let capabilities = &asked["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*capabilities, json!({"extensions": {TASKS: {}}}));
    let task = json!({"status": "input_required", "ttlMs": null, "inputRequests": {"k": {}}});
    backend.tell("be-task", &task);
    backend.tell("foreign", &task);
    backend.tell("unheard", &task);
    let told = messages(&mut stream).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["method"], "notifications/tasks");
    let expected = json!({"status": "input_required", "ttlMs": 604_800_000, "taskId": id,
        "inputRequests": {"k": {}}, "_meta": {"io.modelcontextprotocol/subscriptionId": 1}});
    assert_eq!(told[0]["params"], expected);
    for (raw, known) in [("second", &second), ("be-task", &id)] {
        backend.tell(raw, &json!({"status": "completed", "result": {}}));
        assert_eq!(messages(&mut stream).await[0]["params"]["taskId"], json!(known));
    }
    // All tasks have ended, so the backend is not polled any more.
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(backend.fake.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn refetches_tasks_after_reconnect() {
    let (backend, _gateway, client) = cell().await;
    let id = begin(&client).await;
    let listen = json!({"notifications": {"taskIds": [id]}});
    let (response, _) = client.send("subscriptions/listen", listen).await;
    let mut stream = response.into_body();
    assert_eq!(messages(&mut stream).await.len(), 1, "acknowledged");
    backend.set_away(true);
    backend.fake.close_streams();
    assert_eq!(messages(&mut stream).await.len(), 0);
    let done = json!({"status": "completed", "result": {"content": []}});
    backend.set_task("be-task", done);
    backend.set_away(false);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let told = messages(&mut stream).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["params"]["taskId"], json!(id));
    assert_eq!(told[0]["params"]["status"], "completed");
    assert_eq!(told[0]["params"]["resultType"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn drops_notifications_of_hidden_tools() {
    let (backend, gateway, client) = cell().await;
    let id = begin(&client).await;
    let listen = json!({"notifications": {"taskIds": [id]}});
    let blind = client.clone().with(without("slow"));
    let (response, _) = blind.send("subscriptions/listen", listen.clone()).await;
    let agreed = messages(&mut response.into_body()).await;
    assert_eq!(agreed[0]["params"]["notifications"], json!({}));
    let (response, _) = client.send("subscriptions/listen", listen).await;
    let mut stream = response.into_body();
    assert_eq!(messages(&mut stream).await.len(), 1);
    let authorizer = CallerAuthorizer::new(|_| CallerAccess::Restricted(without("slow")));
    gateway.set_caller_authorizer(Some(authorizer));
    backend.tell("be-task", &json!({"status": "completed", "result": {}}));
    let told = messages(&mut stream).await;
    assert!(told.iter().all(|it| it["method"] != "notifications/tasks"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn bounds_listened_tasks() {
    let (_backend, _gateway, client) = cell().await;
    for ids in [json!(7), json!([7]), json!(vec!["x"; 1025]), json!({"a": "b"})] {
        let listen = json!({"notifications": {"taskIds": ids}});
        assert_eq!(code(&client.ask("subscriptions/listen", listen).await), -32602);
    }
}
