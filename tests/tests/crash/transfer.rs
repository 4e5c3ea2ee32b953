//! The workflow under test, and its owner.

use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use vmcp_tests::authority::Authority;
use vmcp_tests::caller::{Caller, Line};
use vmcp_tests::counterparts::TestError;

use crate::bank::Bank;

const AUDIENCE: &str = "http://localhost/mcp";

/// Calls of a run before its question.
pub(crate) const CALLS_BEFORE: usize = 2;

/// Calls of a whole run.
pub(crate) const CALLS: usize = 10;

/// Steps whose tool is neither read-only nor idempotent.
pub(crate) const ACTING: [&str; 3] = ["reserve", "left", "charge"];

/// Returns a configuration with the workflow: parallel steps, a question, parallel steps with a `forEach`, and two more.
pub(crate) fn config(authority: &Authority, bank: &Bank) -> String {
    let tool = |id: &str, tool: &str, before: &[&str]| json!({"id": id, "tool": format!("bank.{tool}"), "dependsOn": before});
    let workflow = json!({
        "name": "transfer",
        "steps": [
            tool("quote", "read", &[]),
            tool("reserve", "act", &[]),
            {"id": "ask", "type": "elicitation", "message": "Transfer?", "dependsOn": ["quote", "reserve"],
             "schema": {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}},
            tool("left", "act", &["ask"]),
            tool("right", "read", &["ask"]),
            {"id": "each", "type": "forEach", "dependsOn": ["ask"], "collection": "[1,2,3,4]", "maxParallel": 2,
             "step": {"tool": "bank.put", "arguments": {"item": "{{.forEach.item}}"}}},
            tool("charge", "act", &["left", "right", "each"]),
            tool("end", "read", &["charge"]),
        ],
        "output": {"properties": {
            "sum": {"type": "integer", "value": "{{.steps.ask.output.content.sum}}"},
            "sent": {"type": "integer", "value": "{{.steps.each.output.completed}}"},
        }},
    });
    format!(
        "name: tests\n{}backends:\n- {{name: bank, url: \"{}\", transport: streamable-http}}\n\
         compositeTools: [{workflow}]\n",
        authority.section(AUDIENCE),
        bank.backend.url(),
    )
}

/// Output of a run that completed.
pub(crate) fn output() -> Value {
    json!({"sum": 7, "sent": 4})
}

/// The user who began the runs, at one gateway.
pub(crate) struct Owner {
    token: String,
    url: String,
}

impl Owner {
    pub(crate) fn at(url: &str, authority: &Authority) -> Self {
        Self { token: authority.token("ann", AUDIENCE, 1), url: url.to_owned() }
    }

    /// Begins a run and returns its first result.
    pub(crate) async fn begin(&self) -> Result<Value, TestError> {
        self.call(json!({"name": "transfer", "arguments": {}})).await
    }

    /// Answers the question of a run, which is in the sealed state.
    pub(crate) async fn answer(&self, state: &Value) -> Result<Value, TestError> {
        let answers = json!({"ask": {"action": "accept", "content": {"sum": 7}}});
        let params = json!({"name": "transfer", "arguments": {}, "requestState": state,
            "inputResponses": answers});
        self.call(params).await
    }

    async fn call(&self, params: Value) -> Result<Value, TestError> {
        self.request("tools/call", json!({}), params).await
    }

    /// Begins a run as a task and returns the id of the task.
    pub(crate) async fn begin_task(&self) -> Value {
        let params = json!({"name": "transfer", "arguments": {}});
        self.request("tools/call", tasks(), params).await.unwrap()["taskId"].clone()
    }

    /// Returns the state of a task.
    pub(crate) async fn task(&self, id: &Value) -> Value {
        self.request("tasks/get", tasks(), json!({"taskId": id})).await.unwrap()
    }

    /// Answers the question of a task.
    pub(crate) async fn answer_task(&self, id: &Value) -> Result<Value, TestError> {
        let answers = json!({"ask": {"action": "accept", "content": {"sum": 7}}});
        let params = json!({"taskId": id, "inputResponses": answers});
        self.request("tasks/update", tasks(), params).await
    }

    /// Cancels a task.
    pub(crate) async fn cancel_task(&self, id: &Value) -> Value {
        self.request("tasks/cancel", tasks(), json!({"taskId": id})).await.unwrap()
    }

    async fn request(
        &self,
        method: &str,
        extensions: Value,
        params: Value,
    ) -> Result<Value, TestError> {
        let capabilities = json!({"elicitation": {"form": {}}, "extensions": extensions});
        let mut caller = Caller::stateless_with(&self.url, capabilities);
        caller.comes_with(&self.token);
        caller.result(method, params).await
    }

    /// Returns the newest run, as `/api/workflows/{id}` shows it.
    pub(crate) async fn newest_run(&self) -> Value {
        let list = self.get("/api/workflows").await;
        let id = list["runs"][0]["id"].as_str().unwrap().to_owned();
        self.get(&format!("/api/workflows/{id}")).await
    }

    async fn get(&self, path: &str) -> Value {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        let reply = Line::to(&self.url).send(Method::GET, path, &headers, "").await.unwrap();
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.message().unwrap()
    }
}

/// Returns the extensions of a client that uses tasks.
fn tasks() -> Value {
    json!({"io.modelcontextprotocol/tasks": {}})
}
