//! Facts about a message for its event.

use vmcp_core::McpRequest;
use vmcp_wire::{Key, MetaKey, find, members, parse_json_string};

use crate::{BoundedText, ClientInfo, EventTarget};

/// Method that opens a stream for server messages for stateless clients (MCP 2026-07-28).
pub(crate) const LISTEN: &str = "subscriptions/listen";

/// Returns the target of the message, without the endpoint.
pub(crate) fn target(message: &McpRequest, method: &str) -> EventTarget {
    let kind = match method.split_once('/') {
        Some(("tools", _)) => "tool",
        Some(("resources", _)) => "resource",
        Some(("prompts", _)) => "prompt",
        // Without the id: it grants access to the result of an anonymous caller's task.
        Some(("tasks", _)) => "task",
        _ => "endpoint",
    };
    let name = name(message, method);
    EventTarget { method: method.into(), name, kind, ..EventTarget::default() }
}

fn name(message: &McpRequest, method: &str) -> Option<BoundedText> {
    let key = match method {
        "tools/call" | "prompts/get" => Key::Name,
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Key::Uri,
        "logging/setLevel" => Key::Level,
        "notifications/cancelled" => Key::RequestId,
        "notifications/progress" => Key::ProgressToken,
        "completion/complete" => {
            let reference = message.param(Key::Ref)?;
            let name = find(reference, "name").or_else(|| find(reference, "uri"))?;
            return parse_json_string(name).map(BoundedText::from);
        }
        "initialize" => return client(message).and_then(|client| client.name),
        _ => return None,
    };
    match message.text(key) {
        Some(name) => Some(name.read(&message.bytes).into()),
        None => message.param(key).map(|raw| String::from_utf8_lossy(raw).into()),
    }
}

/// Returns the client program as it identifies itself in `initialize`, or in each message.
pub(crate) fn client(message: &McpRequest) -> Option<ClientInfo> {
    let params = message.params()?;
    let span = params.get(Key::ClientInfo).or_else(|| params.meta(MetaKey::ClientInfo))?;
    let client_info = span.of(&message.bytes);
    let text = |value| parse_json_string(value).map(BoundedText::from);
    let mut client = ClientInfo { name: None, version: None };
    for member in members(client_info) {
        if client.name.is_none() && member.key.is("name") {
            client.name = text(member.value);
        } else if client.version.is_none() && member.key.is("version") {
            client.version = text(member.value);
        }
    }
    Some(client)
}
