//! Stateless generation (MCP 2026-07-28): every request is self-contained.

use std::sync::Arc;

use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json};
use vmcp_core::{Body, STATELESS, code};

use super::http::{Speaks, json_response, refusal, reply, status, work};
use super::mcp_server::{Example, Fault, Talk};

/// Example server without sessions.
#[derive(Debug)]
pub(super) struct Stateless<E>(pub(super) E);

impl<E: Example> Speaks for Stateless<E> {
    type Example = E;

    async fn speak(
        self: Arc<Self>,
        method: Method,
        headers: HeaderMap,
        message: Value,
    ) -> Response<Body> {
        if method != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let (Some(id), Some(asked)) = (message.get("id"), message["method"].as_str()) else {
            return status(StatusCode::ACCEPTED);
        };
        let revision = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
        if revision != Some(STATELESS) {
            let mut refused = refusal(
                id,
                Fault {
                    code: code::UNSUPPORTED_REVISION,
                    message: "unsupported protocol version".to_owned(),
                },
            );
            refused["error"]["data"] =
                json!({"supported": [STATELESS], "requested": revision.unwrap_or_default()});
            return json_response(StatusCode::BAD_REQUEST, &refused);
        }
        if asked == "server/discover" {
            return json_response(
                StatusCode::OK,
                &reply(id, Ok(complete(asked, discovered::<E>()))),
            );
        }
        let (id, asked) = (id.clone(), asked.to_owned());
        if asked == "tools/call" {
            let token = message["params"]["_meta"].get("progressToken").cloned();
            return work(
                id,
                |talk| async move {
                    let result = self.0.answer(&asked, &message["params"], &talk).await;
                    result.map(|result| complete(&asked, result))
                },
                |messages| Talk { token, messages, session: None },
            );
        }
        let (messages, _) = tokio::sync::mpsc::channel(1);
        let talk = Talk { token: None, messages, session: None };
        match self.0.answer(&asked, &message["params"], &talk).await {
            Ok(result) => json_response(StatusCode::OK, &reply(&id, Ok(complete(&asked, result)))),
            Err(fault) => {
                let unknown = fault.code == code::METHOD_NOT_FOUND;
                let status = if unknown { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
                json_response(status, &refusal(&id, fault))
            }
        }
    }
}

fn discovered<E: Example>() -> Value {
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
