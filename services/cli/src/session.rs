//! In-process client of the aggregating service, without listener, policies and callers.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower_layer::Layer;
use vmcp_aggregate::settings::{Limits, Settings};
use vmcp_aggregate::{Gateway, Seal};
use vmcp_core::{MediaType, STATELESS};
use vmcp_decode::DecodeLayer;
use vmcp_server::parts::Parts;
use vmcp_wire::sse::Reader;

use super::output::Failure;

/// Maximum size of an event in a response, in bytes.
const MAX_EVENT: usize = 64 << 20;

/// Running service with a stateless client (MCP 2026-07-28).
#[derive(Debug)]
pub(crate) struct Session {
    gateway: Gateway,
    /// `true` if lists fail while a backend has not responded.
    is_strict: bool,
}

impl Session {
    /// Starts the service and waits until every backend has responded or failed.
    pub(crate) async fn start(parts: Parts) -> Result<Self, Failure> {
        let Parts { settings, info, .. } = parts;
        let settings = Settings { checks: None, ..settings };
        let limits = Limits::default();
        let seal = Seal::ephemeral(limits.suspension_timeout)
            .map_err(|error| Failure::Error(error.to_string()))?;
        let gateway = Gateway::new(settings, limits, seal);
        gateway.wait_ready().await;
        Ok(Self { gateway, is_strict: info.is_strict })
    }

    /// Returns the reason why clients would get no lists; `None` if they would.
    pub(crate) fn no_lists(&self) -> Option<&'static str> {
        super::survey::no_lists(&self.gateway.report(), self.is_strict)
    }

    /// Returns the unreachable backends, with the reasons.
    pub(crate) fn unreachable(&self) -> Vec<String> {
        let backends = self.gateway.report().backends;
        let failed = backends.iter().filter(|backend| !backend.offered);
        let describe = |backend: &vmcp_aggregate::status::BackendReport| {
            let reason = backend
                .detail
                .as_deref()
                .or(backend.failure.as_deref())
                .unwrap_or("no answer within 5s");
            format!("backend {} offers nothing: {reason}", backend.name)
        };
        failed.map(describe).collect()
    }

    /// Returns all items of a list, page by page.
    pub(crate) async fn list(&self, method: &str, member: &str) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut params = json!({});
        loop {
            let result = self.request(method, None, params).await?;
            items.extend(result[member].as_array().into_iter().flatten().cloned());
            match result.get("nextCursor") {
                Some(cursor) if cursor.is_string() => params = json!({"cursor": cursor}),
                _ => return Ok(items),
            }
        }
    }

    /// Sends a request and returns its result.
    pub(crate) async fn request(
        &self,
        method: &str,
        name: Option<&str>,
        mut params: Value,
    ) -> Result<Value, Failure> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "vmcp", "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let fault = |error: String| Failure::Error(format!("failed to ask {method}: {error}"));
        let mut request = Request::post("/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", STATELESS)
            .header("mcp-method", method);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        let request = request.body(Full::new(Bytes::from(message.to_string())));
        let request = request.map_err(|error| fault(error.to_string()))?;
        let service = DecodeLayer::new().layer(self.gateway.clone());
        let response = service.oneshot(request).await.unwrap_or_else(|never| match never {});
        let status = response.status();
        let is_stream = MediaType::of(response.headers()) == MediaType::EventStream;
        let body =
            response.into_body().collect().await.map_err(|error| fault(error.to_string()))?;
        let message = last_message(body.to_bytes(), is_stream);
        let message = message.ok_or_else(|| fault(format!("status {status}")))?;
        result(&message, status).map_err(fault)
    }

    /// Ends the sessions with the backends.
    pub(crate) async fn close(self) {
        self.gateway.close().await;
    }
}

/// Returns the response: the body, or the last event with a request's id.
fn last_message(body: Bytes, is_stream: bool) -> Option<Value> {
    if !is_stream {
        return serde_json::from_slice(&body).ok();
    }
    let mut reader = Reader::new(MAX_EVENT);
    reader.push(body);
    let events = reader.filter_map(Result::ok);
    let messages = events.filter_map(|event| serde_json::from_slice::<Value>(&event.data).ok());
    messages.filter(|message| message["id"] == 1).last()
}

fn result(message: &Value, status: StatusCode) -> Result<Value, String> {
    if let Some(error) = message.get("error") {
        let text = error["message"].as_str().unwrap_or("no message");
        return Err(format!("{} ({})", super::table::plain(text), error["code"]));
    }
    message.get("result").cloned().ok_or_else(|| format!("status {status} without a result"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_response_in_stream() {
        let body = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
                    data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":2}}\n\n";
        let message = last_message(Bytes::from_static(body.as_bytes()), true).unwrap();
        assert_eq!(result(&message, StatusCode::OK), Ok(json!({"a": 2})));
    }

    #[test]
    fn shows_message_and_code_of_errors() {
        let message = json!({"error": {"code": -32602, "message": "unknown\u{1b} tool"}});
        let error = result(&message, StatusCode::BAD_REQUEST).unwrap_err();
        assert_eq!(error, "unknown\u{fffd} tool (-32602)");
    }
}
