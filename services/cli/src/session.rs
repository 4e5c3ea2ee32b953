//! In-process client of the aggregating service, without listener, policies and callers.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower_layer::Layer;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{Limits, Settings, Sharing};
use vmcp_core::{Body, CallerPermissions, Generation, MediaType, STATELESS};
use vmcp_decode::DecodeLayer;
use vmcp_optimize::{Query, SearchResult, View};
use vmcp_seal::KeyRing;
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
        let ring = KeyRing::ephemeral(limits.clock.clone())
            .map_err(|error| Failure::Error(error.to_string()))?;
        let gateway = Gateway::new(settings, limits, ring);
        gateway.wait_ready().await;
        Ok(Self { gateway, is_strict: info.is_strict })
    }

    /// Returns the reason why clients would get no lists; `None` if they would.
    pub(crate) fn no_lists(&self) -> Option<&'static str> {
        super::survey::no_lists(&self.gateway.report(), self.is_strict)
    }

    /// Returns the backends whose tools depend on the caller's own credentials, which a command does not have.
    pub(crate) fn per_caller_backends(&self) -> Vec<String> {
        let backends = self.gateway.report().backends.into_iter();
        let own = backends.filter(|backend| backend.catalog == Sharing::PerCaller);
        own.map(|backend| backend.name).collect()
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
        params["_meta"] = meta(&json!({}));
        let response = self.send(method, name, &params).await?;
        let status = response.status();
        let message = last_message(response, |_| {}).await;
        let message = message.map_err(|error| fault(method, &error))?;
        let message = message.ok_or_else(|| fault(method, &format!("status {status}")))?;
        result(&message, status).map_err(|error| fault(method, &error))
    }

    /// Calls a tool for a user who can be asked, and returns the response: a JSON-RPC message. Hands on each progress
    /// notification as it arrives.
    pub(crate) async fn call(
        &self,
        mut params: Value,
        observe: impl FnMut(&Value),
    ) -> Result<Value, Failure> {
        params["_meta"] = meta(&json!({"elicitation": {"form": {}}}));
        params["_meta"]["progressToken"] = 1.into();
        let name = params["name"].as_str().map(ToOwned::to_owned);
        let response = self.send("tools/call", name.as_deref(), &params).await?;
        let status = response.status();
        let message = last_message(response, observe).await;
        let message = message.map_err(|error| fault("tools/call", &error))?;
        message.ok_or_else(|| fault("tools/call", &format!("status {status}")))
    }

    async fn send(
        &self,
        method: &str,
        name: Option<&str>,
        params: &Value,
    ) -> Result<Response<Body>, Failure> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = Request::post("/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", STATELESS)
            .header("mcp-method", method);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        let request = request.body(Full::new(Bytes::from(message.to_string())));
        let request = request.map_err(|error| fault(method, &error.to_string()))?;
        let service = DecodeLayer::new().layer(self.gateway.clone());
        Ok(service.oneshot(request).await.unwrap_or_else(|never| match never {}))
    }

    /// Searches the tools that a caller with these permissions sees. `None` without an optimizer, or if a policy fails.
    pub(crate) async fn search_tools(
        &self,
        permissions: &CallerPermissions,
        query: &Query,
    ) -> Option<(View, SearchResult)> {
        self.gateway.search_tools(permissions, Generation::Stateless, query).await
    }

    /// Ends the sessions with the backends.
    pub(crate) async fn close(self) {
        self.gateway.close().await;
    }
}

/// Returns the `_meta` of a request of a client with these capabilities.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "vmcp", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

fn fault(method: &str, error: &str) -> Failure {
    Failure::Error(format!("failed to ask {method}: {error}"))
}

/// Returns the response: the body, or the last event with the request's id. Hands on progress notifications.
async fn last_message<B>(
    response: Response<B>,
    mut observe: impl FnMut(&Value),
) -> Result<Option<Value>, String>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let is_stream = MediaType::of(response.headers()) == MediaType::EventStream;
    let mut body = response.into_body();
    if !is_stream {
        let body = body.collect().await.map_err(|error| error.to_string())?;
        return Ok(serde_json::from_slice(&body.to_bytes()).ok());
    }
    let (mut reader, mut last) = (Reader::new(MAX_EVENT), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else { continue };
        reader.push(data);
        for event in reader.by_ref().filter_map(Result::ok) {
            let Ok(message) = serde_json::from_slice::<Value>(&event.data) else { continue };
            if message["id"] == 1 {
                last = Some(message);
            } else if message["method"] == "notifications/progress" {
                observe(&message);
            }
        }
    }
    Ok(last)
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

    #[tokio::test]
    async fn finds_response_and_progress_in_stream() {
        let body = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
                    data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":2}}\n\n";
        let response = Response::builder().header("content-type", "text/event-stream");
        let response = response.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
        let mut progress = 0;
        let message = last_message(response, |_| progress += 1).await.unwrap().unwrap();
        assert_eq!(result(&message, StatusCode::OK), Ok(json!({"a": 2})));
        assert_eq!(progress, 1);
    }

    #[test]
    fn shows_message_and_code_of_errors() {
        let message = json!({"error": {"code": -32602, "message": "unknown\u{1b} tool"}});
        let error = result(&message, StatusCode::BAD_REQUEST).unwrap_err();
        assert_eq!(error, "unknown\u{fffd} tool (-32602)");
    }
}
