//! A client of each generation.

use serde_json::{Value, json};

use crate::http::{Answer, request};

const MEDIA: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

/// A client of MCP 2025-11-25 with its session.
#[derive(Debug)]
pub(crate) struct Stateful {
    port: u16,
    session: String,
    pub(crate) welcome: Value,
}

/// A client of MCP 2026-07-28.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stateless(pub(crate) u16);

impl Stateful {
    /// A client whose user can be asked.
    pub(crate) fn open(port: u16) -> Self {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "tests", "version": "1"},
        });
        let hello = message(Some(1), "initialize", &params);
        let answer = request(port, "POST", "/mcp", &MEDIA, &hello);
        assert_eq!(answer.status, 200);
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        let client = Self { port, session, welcome: answer.message()["result"].clone() };
        let ready = message(None, "notifications/initialized", &json!({}));
        assert_eq!(client.post(&ready).status, 202);
        client
    }

    pub(crate) fn post(&self, text: &str) -> Answer {
        let own = [("mcp-session-id", &*self.session), ("mcp-protocol-version", "2025-11-25")];
        request(self.port, "POST", "/mcp", &[&MEDIA[..], &own].concat(), text)
    }

    /// The stream on which the server speaks unasked.
    pub(crate) fn listen(&self) -> Answer {
        let headers = [
            ("accept", "text/event-stream"),
            ("mcp-session-id", &*self.session),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        request(self.port, "GET", "/mcp", &headers, "")
    }

    pub(crate) fn send(&self, method: &str, params: &Value) -> Answer {
        self.post(&message(Some(2), method, params))
    }

    pub(crate) fn ask(&self, method: &str, params: &Value) -> Value {
        self.send(method, params).message()
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn tools(&self) -> Vec<String> {
        names(&self.ask("tools/list", &json!({})))
    }
}

impl Stateless {
    pub(crate) fn ask(self, method: &str, params: &Value) -> Value {
        let mut params = params.clone();
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "tests", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {"form": {}}});
        let mut headers = MEDIA.to_vec();
        headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]);
        let name = params["name"].as_str().unwrap_or_default();
        if !name.is_empty() {
            headers.push(("mcp-name", name));
        }
        request(self.0, "POST", "/mcp", &headers, &message(Some(3), method, &params)).message()
    }

    pub(crate) fn call(self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn tools(self) -> Vec<String> {
        names(&self.ask("tools/list", &json!({})))
    }
}

fn message(id: Option<u32>, method: &str, params: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    message.to_string()
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The text of a tool's result.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}
