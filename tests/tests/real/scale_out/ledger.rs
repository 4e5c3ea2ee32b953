//! Backends of the rig: they count each call by its key, and the calls of each session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{PendingRequest, Protocol};

/// Processing time of a call, so that a killed replica has calls in flight.
const WORK: Duration = Duration::from_millis(30);

/// Tools by their annotations. A call with the argument `question` asks the user first.
pub(crate) const TOOLS: [&str; 3] = ["act", "put", "read"];

/// One backend.
pub(crate) struct Ledger {
    pub(crate) backend: McpBackend,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Number of completed calls with a key.
    calls: HashMap<String, usize>,
    /// Number of completed calls of a session.
    sessions: HashMap<String, usize>,
}

/// Returns `true` if calls of this tool may be repeated.
pub(crate) fn is_repeatable(tool: &str) -> bool {
    tool.ends_with("put") || tool.ends_with("read")
}

impl Ledger {
    pub(crate) fn start(protocol: Protocol) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let annotations = |tool| match tool {
            "put" => json!({ "idempotentHint": true }),
            "read" => json!({ "readOnlyHint": true }),
            _ => json!({}),
        };
        let schema = json!({ "type": "object", "properties": { "key": { "type": "string" } } });
        let tools = TOOLS.map(|name| {
            json!({ "name": name, "inputSchema": schema, "annotations": annotations(name) })
                .to_string()
        });
        let name = format!("{protocol:?}").to_lowercase();
        let mut backend = McpBackend::builder(protocol).name(&name).items("tools", tools);
        for name in TOOLS {
            let state = Arc::clone(&state);
            backend = backend.on_tool(name, move |call| {
                tokio::spawn(perform(Arc::clone(&state), call));
            });
        }
        Self { backend: backend.start(), state }
    }

    /// Returns the number of completed calls with this key.
    pub(crate) fn calls(&self, key: &str) -> usize {
        self.state.lock().unwrap().calls.get(key).copied().unwrap_or_default()
    }
}

async fn perform(state: Arc<Mutex<State>>, mut call: PendingRequest) {
    let key = call.argument("key").as_str().unwrap_or_default().to_owned();
    let mut answer = Value::Null;
    if call.argument("question") == true {
        let question = json!({
            "message": key,
            "requestedSchema": { "type": "object", "properties": { "word": { "type": "string" } } },
        });
        if call.is_stateless() {
            answer = call.params()["inputResponses"]["user"].clone();
            if answer.is_null() {
                let request = json!({ "method": "elicitation/create", "params": question });
                call.succeed(&json!({
                    "resultType": "input_required",
                    "inputRequests": { "user": request },
                    "requestState": key,
                }));
                return;
            }
        } else {
            let Some(result) = call.request("elicitation/create", question).await else { return };
            answer = result;
        }
    }
    sleep(WORK).await;
    let session = call.session().unwrap_or_default().to_owned();
    let number = {
        let mut state = state.lock().unwrap();
        *state.calls.entry(key.clone()).or_default() += 1;
        let number = state.sessions.entry(session.clone()).or_default();
        *number += 1;
        *number
    };
    let word = answer["content"]["word"].clone();
    let told = json!({ "key": key, "session": session, "number": number, "word": word });
    call.succeed(&json!({ "content": [], "structuredContent": told }));
}
