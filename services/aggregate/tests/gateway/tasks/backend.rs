//! Backend with the tasks extension.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream::iter;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use vmcp_aggregate::settings::{BackendService, BackendSettings};
use vmcp_core::{Body, BoxError, Generation};
use vmcp_decode::header_value;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{PendingRequest, Protocol, json_response};

use crate::fake::FakeBackend;

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Stateless backend whose tool `slow` creates a task.
pub(crate) struct TaskBackend {
    name: &'static str,
    pub(crate) fake: McpBackend,
    state: Arc<State>,
    is_away: AtomicBool,
}

struct State {
    /// Id of the next task.
    id: Mutex<String>,
    /// Members of its tasks other than the id, by id.
    tasks: Mutex<BTreeMap<String, Value>>,
    /// Members of the next task.
    members: Mutex<Value>,
    /// `true` to send results as two frames without a length.
    is_in_frames: AtomicBool,
}

impl TaskBackend {
    pub(crate) fn new(name: &'static str) -> Arc<Self> {
        let state = Arc::new(State {
            id: Mutex::new(format!("{name}-task")),
            tasks: Mutex::default(),
            members: Mutex::new(json!({"status": "working", "ttlMs": 60000, "pollIntervalMs": 10})),
            is_in_frames: AtomicBool::new(false),
        });
        let mut fake = McpBackend::builder(Protocol::Stateless)
            .name(name)
            .capabilities(json!({"tools": {}, "prompts": {}, "extensions": {TASKS: {}}}))
            .tools(&["slow", "plain"])
            .items("prompts", [json!({"name": "odd"}).to_string()])
            .notification_streams()
            .on_tool("plain", |call| {
                let asked = call.params().clone();
                call.succeed(&json!({"content": [], "asked": asked}));
            });
        for method in ["tools/call", "prompts/get"] {
            let state = Arc::clone(&state);
            fake = fake.on(method, move |request| state.create(request));
        }
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let state = Arc::clone(&state);
            fake = fake.on(method, move |request| state.respond_about_task(request));
        }
        Arc::new(Self { name, fake: fake.build(), state, is_away: AtomicBool::new(false) })
    }

    pub(crate) fn settings(self: &Arc<Self>) -> BackendSettings {
        let backend = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let backend = Arc::clone(&backend);
            async move {
                if backend.is_away.load(Ordering::Relaxed) {
                    return Err(BoxError::from("connection refused"));
                }
                let (parts, body) = request.into_parts();
                let request = Request::from_parts(parts, body.collect().await?.to_bytes());
                Ok(backend.fake.handle(request).await.map(Body::wrap))
            }
        });
        let fake = FakeBackend::new(self.name, Generation::Stateless);
        BackendSettings { service: BackendService::new(service), ..fake.settings() }
    }

    /// Sets the id of the next task.
    pub(crate) fn set_next(&self, id: &str) {
        id.clone_into(&mut self.state.id.lock().unwrap());
    }

    /// Sets the members of the next task.
    pub(crate) fn set_members(&self, members: Value) {
        *self.state.members.lock().unwrap() = members;
    }

    pub(crate) fn set_task(&self, id: &str, task: Value) {
        self.state.tasks.lock().unwrap().insert(id.to_owned(), task);
    }

    pub(crate) fn set_in_frames(&self, is_in_frames: bool) {
        self.state.is_in_frames.store(is_in_frames, Ordering::Relaxed);
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Sends a task's state on the open streams.
    pub(crate) fn tell(&self, id: &str, task: &Value) {
        let mut params = task.clone();
        params["taskId"] = json!(id);
        self.set_task(id, task.clone());
        self.fake.notify("notifications/tasks", &params);
    }

    /// Returns the requests with this method: `Mcp-Name` and the parameters.
    pub(crate) fn asked(&self, method: &str) -> Vec<(Option<String>, Value)> {
        let requests = self.fake.requests().into_iter();
        let asked = requests.filter(|request| request.message()["method"] == method);
        let name_and_params = asked.map(|request| {
            let name = request.headers.get("mcp-name").and_then(header_value::decode);
            (name.map(Cow::into_owned), request.message()["params"].clone())
        });
        name_and_params.collect()
    }
}

impl State {
    fn create(&self, request: PendingRequest) {
        let id = self.id.lock().unwrap().clone();
        let mut task = self.members.lock().unwrap().clone();
        self.tasks.lock().unwrap().insert(id.clone(), task.clone());
        task["resultType"] = json!("task");
        task["taskId"] = json!(id);
        self.respond(request, &task);
    }

    fn respond_about_task(&self, request: PendingRequest) {
        let id = request.params()["taskId"].as_str().unwrap_or_default().to_owned();
        let Some(task) = self.tasks.lock().unwrap().get(&id).cloned() else {
            request.fail(-32602, &format!("no task {id}"));
            return;
        };
        let mut result = json!({});
        if request.method() == "tasks/get" {
            result = task;
            result["taskId"] = json!(id);
        }
        result["resultType"] = json!("complete");
        self.respond(request, &result);
    }

    /// Responds with exactly this result.
    fn respond(&self, request: PendingRequest, result: &Value) {
        let message = json!({"jsonrpc": "2.0", "id": request.message()["id"], "result": result});
        let mut response = json_response(StatusCode::OK, &message);
        if self.is_in_frames.load(Ordering::Relaxed) {
            let mut head = Bytes::from(message.to_string());
            let rest = head.split_off(head.len() - 3);
            let frames = iter([head, rest].map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))));
            let body = StreamBody::new(frames).map_err(|never| match never {});
            *response.body_mut() = BodyExt::boxed(body);
        }
        request.respond(response);
    }
}
