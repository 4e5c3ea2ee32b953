//! Format of an event: one line of JSON.

use std::time::Duration;

use vmcp_audit::{
    BoundedText, ClientInfo, Event, EventDetails, EventSource, EventTarget, FieldValue,
};
use vmcp_core::{Backend, Identity};

use crate::json::Object;
use crate::{delegation, redact, rfc3339};

/// Component of operations that the gateway performs itself.
const COMPOSER_COMPONENT: &str = "vmcp-composer";

/// Component of requests.
const SERVER_COMPONENT: &str = "vmcp-server";

/// Component of logins.
const AUTH_SERVER_COMPONENT: &str = "vmcp-auth-server";

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `event` and a line feed. Without a `component`, the type of the event determines it.
pub(crate) fn write(event: &Event, id: [u8; 16], component: Option<&str>, out: &mut Vec<u8>) {
    Object::write(out, |line| fill(event, id, component, line));
    out.push(b'\n');
}

fn fill(event: &Event, id: [u8; 16], component: Option<&str>, line: &mut Object<'_>) {
    let Event { kind, outcome, at, source, caller, client, target, details, request, response } =
        event;
    let (default, transport) = match source {
        EventSource::Local => (COMPOSER_COMPONENT, "local"),
        EventSource::Network { .. } => (SERVER_COMPONENT, "http"),
    };
    let default = if kind.is_auth_server_event() { AUTH_SERVER_COMPONENT } else { default };
    let time = rfc3339::quoted(*at);
    line.name("time");
    line.out.extend_from_slice(&time);
    line.literal("level", "AUDIT");
    line.literal("msg", "audit_event");
    line.name("audit_id");
    write_uuid(id, line.out);
    line.literal("type", kind.name());
    line.name("logged_at");
    line.out.extend_from_slice(&time);
    line.literal("outcome", outcome.name());
    match component {
        Some(component) => line.text("component", component),
        None => line.literal("component", default),
    }
    line.object("source", |members| fill_source(source, default, members));
    line.object("subjects", |members| fill_subjects(caller.as_ref(), client.as_ref(), members));
    if let Some(claims) = caller.as_ref().and_then(Identity::claims) {
        delegation::write(claims, line);
    }
    line.object("target", |members| fill_target(target, members));
    line.object("metadata", |metadata| {
        metadata.object("extra", |extra| {
            extra.literal("transport", transport);
            fill_details(details, extra);
        });
    });
    if request.is_some() || response.is_some() {
        line.object("data", |members| {
            for (name, data) in [("request", request), ("response", response)] {
                let excerpt = data.as_ref().map(redact::excerpt);
                members.text(name, excerpt.as_deref());
            }
        });
    }
}

fn fill_source(source: &EventSource, local: &'static str, members: &mut Object<'_>) {
    match source {
        EventSource::Local => {
            members.literal("type", "local");
            members.literal("value", local);
        }
        EventSource::Network { address, user_agent, request_id } => {
            members.literal("type", "network");
            match address {
                Some(address) => members.address("value", *address),
                None => members.literal("value", "unknown"),
            }
            members.object("extra", |extra| {
                extra.text("user_agent", user_agent.as_deref());
                extra.text("request_id", request_id.as_deref());
            });
        }
    }
}

/// Writes the caller: `user` is a display name, `user_id` the subject of the issuer.
fn fill_subjects(caller: Option<&Identity>, client: Option<&ClientInfo>, members: &mut Object<'_>) {
    let claims = caller.and_then(Identity::claims);
    let named = ["name", "preferred_username", "email"]
        .into_iter()
        .find_map(|claim| claims?.text(claim).filter(|name| !name.is_empty()));
    members.text("user", BoundedText::truncate(named.unwrap_or("anonymous")));
    members.text("user_id", caller.and_then(Identity::subject).map(BoundedText::truncate));
    members.text("client_name", client.and_then(|client| client.name.as_deref()));
    members.text("client_version", client.and_then(|client| client.version.as_deref()));
}

fn fill_target(target: &EventTarget, members: &mut Object<'_>) {
    let EventTarget { endpoint, method, name, kind, more } = target;
    for (name, value) in [("type", *kind), ("endpoint", endpoint), ("method", method)] {
        members.text(name, Some(value).filter(|value| !value.is_empty()));
    }
    members.text("name", name.as_deref());
    for (name, value) in more {
        members.text(name, &**value);
    }
}

fn fill_details(details: &EventDetails, extra: &mut Object<'_>) {
    let EventDetails {
        duration,
        size,
        backend,
        error_code,
        error_message,
        tool_error,
        denied,
        cancelled,
        more,
    } = details;
    let milliseconds = |duration: Duration| duration.as_millis().try_into().unwrap_or(u64::MAX);
    extra.number("duration_ms", duration.map(milliseconds));
    extra.number("response_size_bytes", *size);
    extra.text("backend_name", backend.as_ref().map(Backend::name));
    extra.display("jsonrpc_error_code", *error_code);
    extra.text("jsonrpc_error_message", error_message.as_ref().map(redact::message).as_deref());
    extra.display("tool_error", tool_error.then_some(true));
    extra.text("denied_reason", *denied);
    extra.display("cancelled", cancelled.then_some(true));
    for (name, fact) in more {
        match fact {
            FieldValue::Number(number) => extra.number(name, Some(*number)),
            FieldValue::Text(text) => extra.text(name, &**text),
            FieldValue::Flag(flag) => extra.display(name, Some(flag)),
        }
    }
}

/// Writes a version 4 UUID (RFC 9562 section 5.4) of random bytes, in quotes.
fn write_uuid(mut id: [u8; 16], out: &mut Vec<u8>) {
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    out.push(b'"');
    for (at, byte) in id.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
    out.push(b'"');
}
