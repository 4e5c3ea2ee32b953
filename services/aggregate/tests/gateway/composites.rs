//! Runs of composite tools: their places in a session, their permissions, and their questions.

mod backend_questions;
mod calls;
mod detached;
mod messages;
mod permissions;
mod places;
mod questions;
mod result_limits;
mod step_tools;
mod suspended;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{BackendSettings, Limits, PartialFailure, Settings};
use vmcp_compose::Workflow;
use vmcp_core::Generation;
use vmcp_seal::KeyRing;

use crate::script::{PendingCall, ScriptedBackend, ScriptedClient, Wire, messages, text};

/// Gateway with composite tools over one backend, and a client.
struct Scene {
    gateway: Gateway,
    backend: Arc<ScriptedBackend>,
    calls: UnboundedReceiver<PendingCall>,
    client: ScriptedClient,
}

/// Returns settings with these composite tools.
pub(crate) fn settings(backends: Vec<BackendSettings>, definitions: &Value) -> Settings {
    let compile = |definition: &Value| {
        let definition = serde_json::from_value(definition.clone()).unwrap();
        Workflow::compile(&definition, "compositeTools[0]").unwrap()
    };
    let workflows = definitions.as_array().unwrap().iter().map(compile).collect();
    let mut settings = crate::fake::settings(backends, PartialFailure::BestEffort, None);
    settings.rules.workflows = workflows;
    settings
}

async fn scene(client: Generation, wire: Wire, definitions: &Value) -> Scene {
    scene_with(client, wire, definitions, Limits::default()).await
}

async fn scene_with(client: Generation, wire: Wire, definitions: &Value, limits: Limits) -> Scene {
    let (backend, calls) = ScriptedBackend::new("be", wire);
    let settings = settings(vec![backend.settings(None)], definitions);
    let ring = KeyRing::ephemeral(limits.clock.clone()).unwrap();
    let gateway = Gateway::new(settings, limits, ring);
    gateway.wait_ready().await;
    let client = ScriptedClient::new(&gateway, client, "alice").await;
    Scene { gateway, backend, calls, client }
}

impl Scene {
    /// Calls a tool, and reads the response to its end.
    fn begin(&self, id: u64, tool: &str) -> JoinHandle<Vec<Value>> {
        let (client, params) = (self.client.clone(), json!({"name": tool, "arguments": {}}));
        tokio::spawn(async move {
            let response = client.request(&json!(id), "tools/call", params).await;
            messages(&text(response.into_body()).await)
        })
    }

    /// Receives the calls that reach the backend within a second.
    async fn received(&mut self) -> Vec<PendingCall> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut received = Vec::new();
        while let Ok(call) = self.calls.try_recv() {
            received.push(call);
        }
        received
    }
}

/// Returns a workflow of one `forEach` over this number of items.
fn for_each(items: usize) -> Value {
    let items: Vec<_> = (0..items).collect();
    json!([{"name": "each", "steps": [{"id": "f", "type": "forEach", "timeout": "20s",
        "collection": json!(items).to_string(), "maxParallel": 50, "maxIterations": 1000,
        "step": {"tool": "be.t"}}]}])
}

fn done() -> Value {
    json!({"content": [{"type": "text", "text": "done"}], "resultType": "complete"})
}
