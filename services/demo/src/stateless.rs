//! Stateless generation (MCP 2026-07-28): every request is self-contained.

use std::sync::Arc;

use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json};
use vmcp_core::{Body, STATELESS, code};

use crate::http::{
    ProtocolServer, error_response, json_response, status, stream_response, to_response,
};
use crate::mcp_server::{ClientChannel, McpServer, RpcError};

/// Example server without sessions.
#[derive(Debug)]
pub(crate) struct Stateless<E>(pub(crate) E);

impl<E: McpServer> ProtocolServer for Stateless<E> {
    type McpServer = E;

    async fn respond(
        self: Arc<Self>,
        method: Method,
        headers: HeaderMap,
        message: Value,
    ) -> Response<Body> {
        if method != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let (Some(id), Some(rpc_method)) = (message.get("id"), message["method"].as_str()) else {
            return status(StatusCode::ACCEPTED);
        };
        let revision = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
        if revision != Some(STATELESS) {
            let mut rejection = error_response(
                id,
                RpcError {
                    code: code::UNSUPPORTED_REVISION,
                    message: "unsupported protocol version".to_owned(),
                },
            );
            rejection["error"]["data"] =
                json!({"supported": [STATELESS], "requested": revision.unwrap_or_default()});
            return json_response(StatusCode::BAD_REQUEST, &rejection);
        }
        if rpc_method == "server/discover" {
            return json_response(
                StatusCode::OK,
                &to_response(id, Ok(complete(rpc_method, discovered::<E>()))),
            );
        }
        let (id, rpc_method) = (id.clone(), rpc_method.to_owned());
        if rpc_method == "tools/call" {
            let token = message["params"]["_meta"].get("progressToken").cloned();
            return stream_response(
                id,
                |client| async move {
                    let result = self.0.handle(&rpc_method, &message["params"], &client).await;
                    result.map(|result| complete(&rpc_method, result))
                },
                |messages| ClientChannel { token, messages, session: None },
            );
        }
        let (messages, _) = tokio::sync::mpsc::channel(1);
        let client = ClientChannel { token: None, messages, session: None };
        match self.0.handle(&rpc_method, &message["params"], &client).await {
            Ok(result) => {
                json_response(StatusCode::OK, &to_response(&id, Ok(complete(&rpc_method, result))))
            }
            Err(error) => {
                let unknown = error.code == code::METHOD_NOT_FOUND;
                let status = if unknown { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
                json_response(status, &error_response(&id, error))
            }
        }
    }
}

fn discovered<E: McpServer>() -> Value {
    json!({
        "supportedVersions": [STATELESS],
        "capabilities": E::capabilities(),
        "instructions": E::INSTRUCTIONS,
        "_meta": {
            "io.modelcontextprotocol/serverInfo":
                {"name": E::NAME, "version": env!("CARGO_PKG_VERSION")},
        },
    })
}

/// Returns the members of every result, and those of cacheable results.
fn complete(method: &str, mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    if method != "tools/call" && method != "prompts/get" {
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
    result
}
