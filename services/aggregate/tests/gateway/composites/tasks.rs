//! Runs of composite tools as tasks.

mod audit;
mod interruptions;
mod limits;
mod notifications;
mod questions;
mod reloads;
mod replicas;

use std::time::SystemTime;

use vmcp_compose::{MemoryWorkflowStore, StoreLimits, WorkflowStore};
use vmcp_core::{Authorizer, CallerPermissions, Clock, Decision, Fingerprint, Item};
use vmcp_seal::SealKey;

use super::*;
use crate::fake::{Client, ClientResponse};
use crate::tasks::without;

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Gateway with composite tools over one backend, a client that declares tasks, and the clock of the runs.
struct TaskScene {
    gateway: Gateway,
    backend: Arc<ScriptedBackend>,
    calls: UnboundedReceiver<PendingCall>,
    client: Client,
    store: Arc<dyn WorkflowStore>,
    clock: Clock,
}

fn declaring() -> Value {
    json!({"elicitation": {}, "extensions": {TASKS: {}}})
}

async fn client(gateway: &Gateway, subject: &str) -> Client {
    Client::declaring(gateway, Generation::Stateless, subject, declaring()).await
}

/// Returns the key ring of each replica.
fn keys(clock: &Clock) -> KeyRing {
    KeyRing::new("", &[SealKey::from_bytes([7; 32])], clock.clone()).unwrap()
}

/// Tools of one step: `acts` may not be repeated, `looks` may.
fn tools() -> Value {
    json!([
        {"name": "acts", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
         "steps": [{"id": "act", "tool": "be.t", "arguments": {"n": "{{.params.n}}"}}]},
        {"name": "looks", "steps": [{"id": "look", "tool": "be.look"}]},
    ])
}

async fn task_scene(definitions: &Value) -> TaskScene {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let store = MemoryWorkflowStore::new(StoreLimits::default(), clock.clone());
    task_scene_with(definitions, Arc::new(store), clock).await
}

async fn task_scene_with(
    definitions: &Value,
    store: Arc<dyn WorkflowStore>,
    clock: Clock,
) -> TaskScene {
    let (backend, calls) = ScriptedBackend::new("be", Wire::Stateless);
    let settings = settings(vec![backend.settings(None)], definitions);
    let limits =
        Limits { workflow_store: Arc::clone(&store), clock: clock.clone(), ..Limits::default() };
    let gateway = Gateway::new(settings, limits, keys(&clock));
    gateway.wait_ready().await;
    let client = client(&gateway, "alice").await;
    TaskScene { gateway, backend, calls, client, store, clock }
}

impl TaskScene {
    /// Begins a task and returns its id.
    async fn begin(&self, tool: &str) -> String {
        begin(&self.client, tool).await
    }

    /// Receives the call of a step within a second.
    async fn step(&mut self) -> PendingCall {
        let call = tokio::time::timeout(Duration::from_secs(1), self.calls.recv()).await;
        call.expect("a step calls the backend").unwrap()
    }
}

async fn begin(client: &Client, tool: &str) -> String {
    let said = client.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
    let result = &said.json()["result"];
    assert_eq!((said.status, &result["resultType"]), (200, &json!("task")), "{said:?}");
    result["taskId"].as_str().unwrap().to_owned()
}

async fn about(client: &Client, method: &str, id: &str) -> ClientResponse {
    let mut params = json!({"taskId": id});
    if method == "tasks/update" {
        params["inputResponses"] = json!({});
    }
    client.ask(method, params).await
}

/// Returns the state of a task, after the gateway had time to change it.
async fn get(client: &Client, id: &str) -> Value {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let said = about(client, "tasks/get", id).await;
    assert_eq!(said.status, 200, "{said:?}");
    let state = said.json()["result"].clone();
    assert_eq!((&state["taskId"], &state["resultType"]), (&json!(id), &json!("complete")));
    state
}

/// Returns the status of a task.
async fn status(client: &Client, id: &str) -> Value {
    get(client, id).await["status"].clone()
}

fn code(said: &ClientResponse) -> i64 {
    said.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {said:?}"))
}

#[tokio::test(start_paused = true)]
async fn call_becomes_task_until_its_result() {
    let mut scene = task_scene(&tools()).await;
    let params = json!({"name": "acts", "arguments": {"n": 1}, "_meta": {"progressToken": "p"}});
    let mut created = scene.client.ask("tools/call", params).await.json()["result"].take();
    let id = created["taskId"].take().as_str().unwrap().to_owned();
    assert!(id.len() <= 1024, "{id}");
    let at = "2023-11-14T22:13:20Z";
    let expected = json!({"resultType": "task", "taskId": null, "status": "working",
        "createdAt": at, "lastUpdatedAt": at, "ttlMs": 3_600_000, "pollIntervalMs": 1000});
    assert_eq!(created, expected);

    let step = scene.step().await;
    scene.clock.advance(Duration::from_secs(5));
    let working = get(&scene.client, &id).await;
    let expected = json!({"resultType": "complete", "taskId": id, "status": "working",
        "statusMessage": "running step act", "createdAt": at, "lastUpdatedAt": at,
        "ttlMs": 3_605_000, "pollIntervalMs": 1000});
    assert_eq!(working, expected);

    scene.clock.advance(Duration::from_secs(5));
    assert!(step.answer(&json!({"content": [], "structuredContent": {"n": 7}})));
    let completed = get(&scene.client, &id).await;
    let undeclared = Client::new(&scene.gateway, Generation::Stateless, "alice").await;
    let direct = tokio::spawn(async move {
        undeclared.ask("tools/call", json!({"name": "acts", "arguments": {"n": 1}})).await
    });
    scene.step().await.answer(&json!({"content": [], "structuredContent": {"n": 7}}));
    let direct = direct.await.unwrap().json()["result"].take();
    let expected = json!({"resultType": "complete", "taskId": id, "status": "completed",
        "result": direct, "createdAt": at, "lastUpdatedAt": "2023-11-14T22:13:30Z",
        "ttlMs": 3_610_000, "pollIntervalMs": 1000});
    assert_eq!(completed, expected);
    assert_eq!(direct["structuredContent"], json!({"n": 7}));
}

#[tokio::test(start_paused = true)]
async fn failed_step_completes_task_with_error() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("acts").await;
    scene.step().await.answer(&json!({"content": [], "isError": true}));
    let state = get(&scene.client, &id).await;
    assert_eq!(
        (&state["status"], &state["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
}

/// Authorizer that shows everything and denies calls of one tool.
struct DenyTool(&'static str);

impl Authorizer for DenyTool {
    fn is_visible(&self, _: &Item<'_>) -> bool {
        true
    }

    fn authorize(&self, item: &Item<'_>, _: Option<&[u8]>) -> Decision {
        if item.name == self.0 { Decision::Deny } else { Decision::Allow }
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint([9; 16])
    }
}

#[tokio::test(start_paused = true)]
async fn denied_step_fails_task() {
    let scene = task_scene(&tools()).await;
    let denied = scene.client.clone().with(CallerPermissions::new(DenyTool("be_t")));
    let id = begin(&denied, "acts").await;
    let state = get(&denied, &id).await;
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("failed"), &json!(403)));
    assert!(state["error"]["message"].to_string().contains("step \\\"act\\\""), "{state}");
    assert!(state.get("result").is_none(), "{state}");
}

#[tokio::test(start_paused = true)]
async fn later_steps_obey_policies_of_latest_request() {
    let tools = json!([{"name": "both", "steps": [{"id": "look", "tool": "be.look"},
        {"id": "act", "tool": "be.t", "dependsOn": ["look"]}]}]);
    let mut scene = task_scene(&tools).await;
    let id = scene.begin("both").await;
    let look = scene.step().await;
    let denied = scene.client.clone().with(CallerPermissions::new(DenyTool("be_t")));
    assert_eq!(status(&denied, &id).await, "working");
    look.answer(&done());
    assert_eq!(status(&scene.client, &id).await, "failed");
    assert_eq!(scene.backend.messages("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_begin_no_task() {
    let scene = task_scene(&tools()).await;
    let params = json!({"name": "acts", "arguments": {"n": "one"}});
    let said = scene.client.ask("tools/call", params).await;
    assert_eq!((said.status, code(&said)), (400, -32602), "{said:?}");
    assert_eq!(scene.store.counts().await.unwrap().runs, 0);
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_calls_of_steps() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("acts").await;
    let step = scene.step().await;
    for _ in 0..2 {
        let said = about(&scene.client, "tasks/cancel", &id).await;
        assert_eq!(said.json()["result"], json!({"resultType": "complete"}), "{said:?}");
    }
    let state = get(&scene.client, &id).await;
    assert_eq!(state["status"], "cancelled");
    assert!(state.get("result").is_none() && state.get("error").is_none(), "{state}");
    assert!(step.is_gone());
}

#[tokio::test(start_paused = true)]
async fn cancel_keeps_earlier_result() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("acts").await;
    scene.step().await.answer(&done());
    assert_eq!(status(&scene.client, &id).await, "completed");
    assert_eq!(about(&scene.client, "tasks/cancel", &id).await.status, 200);
    assert_eq!(status(&scene.client, &id).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn task_belongs_to_its_owner() {
    let mut scene = task_scene(&tools()).await;
    let id = scene.begin("acts").await;
    let step = scene.step().await;
    let bob = client(&scene.gateway, "bob").await;
    let undeclared = Client::new(&scene.gateway, Generation::Stateless, "alice").await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let said = about(&bob, method, &id).await;
        let shown = id.chars().take(256).collect::<String>();
        assert_eq!((said.status, code(&said)), (400, -32602), "{said:?}");
        let message = said.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(&format!("unknown task: {shown}")), "{message}");
        assert_eq!(code(&about(&undeclared, method, &id).await), -32021);
    }
    let session = Client::new(&scene.gateway, Generation::Stateful, "alice").await;
    assert_eq!(code(&about(&session, "tasks/get", &id).await), -32601);
    assert_eq!(status(&scene.client, &id).await, "working");
    assert!(!step.is_gone());
}

#[tokio::test(start_paused = true)]
async fn id_of_anonymous_task_is_enough() {
    let mut scene = task_scene(&tools()).await;
    let here = client(&scene.gateway, "").await.at("10.0.0.1");
    let id = begin(&here, "acts").await;
    scene.step().await.answer(&done());
    let elsewhere = client(&scene.gateway, "").await.at("10.0.0.2");
    assert_eq!(status(&elsewhere, &id).await, "completed");
    assert_eq!(code(&about(&scene.client, "tasks/get", &id).await), -32602);
}

#[tokio::test(start_paused = true)]
async fn hidden_tool_hides_its_tasks() {
    let mut scene = task_scene(&tools()).await;
    let seeing = scene.client.clone().with(without("nothing"));
    let id = begin(&seeing, "acts").await;
    let step = scene.step().await;
    assert_eq!(status(&seeing, &id).await, "working");
    // The composite tool itself, and the tool of its step.
    for hidden in ["acts", "be_t"] {
        let blind = scene.client.clone().with(without(hidden));
        for method in ["tasks/get", "tasks/update"] {
            let said = about(&blind, method, &id).await;
            assert_eq!((said.status, code(&said)), (400, -32602), "{said:?}");
            assert_eq!(said.request_context.denied(), Some("hidden from the caller"));
        }
    }
    let blind = scene.client.clone().with(without("acts"));
    assert_eq!(about(&blind, "tasks/cancel", &id).await.status, 200);
    assert_eq!(status(&scene.client, &id).await, "cancelled");
    assert!(step.is_gone());
}

#[tokio::test(start_paused = true)]
async fn step_waits_for_valid_token() {
    let mut scene = task_scene(&tools()).await;
    let expired = scene.client.clone().until(Duration::ZERO);
    let now = SystemTime::now() + Duration::from_secs(1);
    scene.clock.advance(now.duration_since(scene.clock.now()).unwrap());
    let id = begin(&expired, "acts").await;
    assert!(tokio::time::timeout(Duration::from_mins(1), scene.calls.recv()).await.is_err());
    let renewed = scene.client.clone().until(Duration::from_hours(1));
    assert_eq!(status(&renewed, &id).await, "working");
    scene.step().await.answer(&done());
    assert_eq!(status(&renewed, &id).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn sessions_get_results_in_place_of_tasks() {
    let mut scene = task_scene(&tools()).await;
    let session =
        Client::declaring(&scene.gateway, Generation::Stateful, "alice", declaring()).await;
    let params = json!({"name": "acts", "arguments": {}});
    let call = tokio::spawn(async move { session.ask("tools/call", params).await });
    scene.step().await.answer(&json!({"content": [{"type": "text", "text": "direct"}]}));
    let text = String::from_utf8_lossy(&call.await.unwrap().body).into_owned();
    assert!(text.contains("structuredContent") && !text.contains("taskId"), "{text}");
}
