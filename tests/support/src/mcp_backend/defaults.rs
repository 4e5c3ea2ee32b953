//! Responses to the methods without a handler.

use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::pending_request::{PendingRequest, Reply};
use super::response::{event_stream, full_response};
use super::state::{NotificationStream, lock};
use super::{Protocol, SESSION, STATELESS};

/// Responds like a plain server.
pub(super) fn respond(request: PendingRequest) {
    if request.message.get("id").is_none() {
        return accept(request);
    }
    match request.method() {
        "initialize" if !request.is_stateless => initialize(request),
        "server/discover" if request.is_stateless => discover(request),
        "subscriptions/listen" if request.is_stateless && request.state.settings.has_streams => {
            listen(request);
        }
        "tools/list" => list(request, "tools"),
        "prompts/list" => list(request, "prompts"),
        "resources/list" => list(request, "resources"),
        "resources/templates/list" => list(request, "resourceTemplates"),
        "tools/call" => {
            request.succeed(&json!({"content": [{"type": "text", "text": "done"}]}));
        }
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            request.succeed(&json!({}));
        }
        _ => {
            request.fail(-32601, "method not found");
        }
    }
}

/// Accepts a notification.
fn accept(request: PendingRequest) {
    // HTTP+SSE has accepted the message already.
    if !request.has_begun() {
        request.respond(full_response(StatusCode::ACCEPTED, "application/json", ""));
    }
}

fn initialize(mut request: PendingRequest) {
    let settings = &request.state.settings;
    let mut result = json!({
        "protocolVersion": settings.revision(),
        "capabilities": settings.capabilities,
        "serverInfo": {"name": settings.name, "version": "1.0.0"},
    });
    if let Some(instructions) = &settings.instructions {
        result["instructions"] = json!(instructions);
    }
    let message = json!({"jsonrpc": "2.0", "id": request.message["id"], "result": result});
    if settings.protocol == Protocol::LegacySse {
        request.complete(&message.to_string());
        return;
    }
    let session = request.state.open_session();
    if let Reply::Head(head) = std::mem::replace(&mut request.reply, Reply::Done) {
        let mut response = full_response(StatusCode::OK, "application/json", message.to_string());
        let id = HeaderValue::from_str(&session.id).expect("the name is ASCII");
        response.headers_mut().insert(SESSION, id);
        // A client that is gone opens no session; its id is unknown to it.
        _ = head.send(response);
    }
}

fn discover(request: PendingRequest) {
    let settings = &request.state.settings;
    let versions = match settings.protocol {
        Protocol::Both => json!([STATELESS, settings.revision()]),
        _ => json!([STATELESS]),
    };
    let mut result = json!({"supportedVersions": versions, "capabilities": settings.capabilities});
    if let Some(instructions) = &settings.instructions {
        result["instructions"] = json!(instructions);
    }
    let object = result.to_string();
    // A server whose lists break off still announces its revisions.
    let message = request.result(&object[1..object.len() - 1]);
    request.complete(&message);
}

/// Opens the stream of `subscriptions/listen`.
fn listen(mut request: PendingRequest) {
    let (response, sender) = event_stream(request.in_flight.upgrade());
    let Reply::Head(head) = std::mem::replace(&mut request.reply, Reply::Done) else { return };
    let subscription = Some(request.message["id"].clone());
    let stream = NotificationStream { session: None, subscription, sender };
    let wanted = json!({"notifications": request.params()["notifications"]});
    request.state.notify(&stream, "notifications/subscriptions/acknowledged", &wanted);
    lock(&request.state.streams).push(stream);
    // A client that is gone closes the stream.
    _ = head.send(response);
}

fn list(request: PendingRequest, member: &str) {
    let members = {
        let catalog = lock(&request.state.catalog);
        let items = catalog.items(member, request.is_stateless);
        let cursor = request.params()["cursor"].as_str();
        let start: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let end = items.len().min(start.saturating_add(request.state.settings.page_size));
        let page = items.get(start..end).unwrap_or_default().join(",");
        let next = json!(end.to_string());
        let next =
            if end < items.len() { format!(r#","nextCursor":{next}"#) } else { String::new() };
        format!(r#""{member}":[{page}]{next}"#)
    };
    request.succeed_with(&members);
}
