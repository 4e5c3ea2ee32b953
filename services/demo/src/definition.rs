//! Definitions that the servers share.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations, object,
};
use serde_json::{Value, json};

/// Revisions of a server without sessions.
pub(crate) const STATELESS: &[ProtocolVersion] = &[ProtocolVersion::V_2026_07_28];

/// Result of a tool.
pub(crate) type ToolResult = Result<CallToolResponse, ErrorData>;

/// Returns the description of a server.
pub(crate) fn server(
    name: &str,
    capabilities: ServerCapabilities,
    instructions: &str,
) -> ServerConfig {
    ServerConfig::new(capabilities)
        .with_server_info(Implementation::new(name, env!("CARGO_PKG_VERSION")))
        .with_instructions(instructions)
}

/// Returns the definition of a tool whose arguments are all required.
pub(crate) fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    arguments: &Value,
) -> Tool {
    Tool::new(name, description, schema(arguments)).with_title(title)
}

/// Returns the annotations of a tool that changes nothing.
pub(crate) fn read_only() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).open_world(false)
}

/// Returns the schema of an object whose properties are all required.
pub(crate) fn schema(properties: &Value) -> Arc<JsonObject> {
    let required: Vec<&String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    Arc::new(object(json!({"type": "object", "properties": properties, "required": required})))
}

/// Returns the arguments of a request; null for absent ones.
pub(crate) fn arguments(arguments: Option<JsonObject>) -> Value {
    arguments.map(Value::Object).unwrap_or_default()
}

/// Returns the result of a successful tool.
pub(crate) fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// Returns the result of a failed tool, with a message for the model.
pub(crate) fn failed(message: impl Into<String>) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(message)]).into()
}

/// Returns the error for the name of a tool or prompt that does not exist.
pub(crate) fn unknown(kind: &str, name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("unknown {kind}: {name}"), None)
}
