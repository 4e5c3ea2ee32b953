//! An event as one line of JSON.

use std::io::Write;

use vmcp_core::Identity;
use vmcp_wire::quote;

use crate::delegation;
use crate::event::{Client, Data, Event, Fact, Result, Source, Target, text};
use crate::redact;

/// The component of events that say nothing else.
const COMPOSER: &str = "vmcp-composer";

/// What all lines of a log share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style<'a> {
    /// `component`; `None` is a default by what the event is about.
    pub(crate) component: Option<&'a str>,
    /// The most bytes of `data.request` and of `data.response`.
    pub(crate) max_data: usize,
}

/// Appends `event` and a line feed.
pub(crate) fn write(event: &Event, id: [u8; 16], style: Style<'_>, out: &mut Vec<u8>) {
    let Event {
        kind,
        outcome,
        at,
        source,
        caller,
        client,
        target,
        result,
        more_target,
        more_facts,
        request,
        response,
    } = event;
    out.extend_from_slice(b"{\"time\":\"");
    crate::time::write(*at, out);
    out.extend_from_slice(b"\",\"level\":\"AUDIT\",\"msg\":\"audit_event\",\"audit_id\":\"");
    write_uuid(id, out);
    raw(b"\",\"type\":\"", kind.name(), out);
    out.extend_from_slice(b"\",\"logged_at\":\"");
    crate::time::write(*at, out);
    raw(b"\",\"outcome\":\"", outcome.name(), out);
    let default = if let Source::Local = source { COMPOSER } else { "vmcp-server" };
    out.push(b'"');
    member("component", style.component.unwrap_or(default), out);
    write_source(source, out);
    write_subjects(caller.as_ref(), client.as_ref(), out);
    if let Some(claims) = caller.as_ref().and_then(Identity::claims) {
        delegation::write(claims, out);
    }
    write_target(target, more_target, out);
    out.extend_from_slice(b",\"metadata\":{\"extra\":{\"transport\":");
    quote(if let Source::Local = source { "local" } else { "http" }, out);
    write_result(result, out);
    for (name, fact) in more_facts {
        match fact {
            Fact::Number(number) => number_member(name, *number, out),
            Fact::Text(text) => member(name, text, out),
            Fact::Flag(flag) => literal_member(name, if *flag { "true" } else { "false" }, out),
        }
    }
    out.extend_from_slice(b"}}");
    write_data(request.as_ref(), response.as_ref(), style.max_data, out);
    out.extend_from_slice(b"}\n");
}

fn write_source(source: &Source, out: &mut Vec<u8>) {
    match source {
        Source::Local => {
            out.extend_from_slice(b",\"source\":{\"type\":\"local\",\"value\":\"");
            raw(b"", COMPOSER, out);
            out.extend_from_slice(b"\"}");
        }
        Source::Network { address, user_agent, request_id } => {
            out.extend_from_slice(b",\"source\":{\"type\":\"network\",\"value\":\"");
            if let Some(address) = address {
                // Writing into memory does not fail.
                _ = write!(out, "{address}");
            } else {
                out.extend_from_slice(b"unknown");
            }
            out.extend_from_slice(b"\",\"extra\":{");
            first_member("user_agent", user_agent.as_deref(), out);
            first_member("request_id", request_id.as_deref(), out);
            out.extend_from_slice(b"}}");
        }
    }
}

/// `user` is what people call the caller; `user_id` what its issuer does.
fn write_subjects(caller: Option<&Identity>, client: Option<&Client>, out: &mut Vec<u8>) {
    let claims = caller.and_then(Identity::claims);
    let named = ["name", "preferred_username", "email"]
        .into_iter()
        .find_map(|claim| claims?.text(claim).filter(|name| !name.is_empty()));
    out.extend_from_slice(b",\"subjects\":{");
    first_member("user", Some(&text(named.unwrap_or("anonymous"))), out);
    if let Some(subject) = caller.and_then(Identity::subject) {
        member("user_id", &text(subject), out);
    }
    if let Some(Client { name, version }) = client {
        for (key, value) in [("client_name", name), ("client_version", version)] {
            if let Some(value) = value {
                member(key, value, out);
            }
        }
    }
    out.push(b'}');
}

fn write_target(target: &Target, more: &[(&'static str, Box<str>)], out: &mut Vec<u8>) {
    let Target { endpoint, method, name, kind } = target;
    out.extend_from_slice(b",\"target\":{");
    first_member("type", Some(kind).filter(|kind| !kind.is_empty()).copied(), out);
    for (key, value) in [("endpoint", endpoint), ("method", method)] {
        first_member(key, Some(&**value).filter(|value| !value.is_empty()), out);
    }
    first_member("name", name.as_deref(), out);
    for (key, value) in more {
        first_member(key, Some(value), out);
    }
    out.push(b'}');
}

fn write_result(result: &Result, out: &mut Vec<u8>) {
    let Result {
        duration,
        size,
        backend,
        error_code,
        error_message,
        tool_error,
        denied,
        cancelled,
    } = result;
    if let Some(duration) = duration {
        number_member("duration_ms", u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), out);
    }
    if let Some(size) = size {
        number_member("response_size_bytes", *size, out);
    }
    if let Some(backend) = backend {
        member("backend_name", backend.name(), out);
    }
    if let Some(code) = error_code {
        literal_member("jsonrpc_error_code", &code.to_string(), out);
    }
    if let Some(message) = error_message {
        member("jsonrpc_error_message", message, out);
    }
    if *tool_error {
        literal_member("tool_error", "true", out);
    }
    if let Some(reason) = denied {
        member("denied_reason", reason, out);
    }
    if *cancelled {
        literal_member("cancelled", "true", out);
    }
}

fn write_data(request: Option<&Data>, response: Option<&Data>, limit: usize, out: &mut Vec<u8>) {
    if request.is_none() && response.is_none() {
        return;
    }
    out.extend_from_slice(b",\"data\":{");
    for (key, data) in [("request", request), ("response", response)] {
        let text = data.map(|data| {
            let cut = data.cut || data.start.len() > limit;
            redact::excerpt(&data.start, cut, limit)
        });
        first_member(key, text.as_deref(), out);
    }
    out.push(b'}');
}

/// A member whose value needs no escapes, being one of our own names. The quotes are the caller's.
fn raw(before: &[u8], value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(before);
    out.extend_from_slice(value.as_bytes());
}

/// A member of an object that may have none yet; nothing if there is no value.
fn first_member(name: &str, value: Option<&str>, out: &mut Vec<u8>) {
    let Some(value) = value else { return };
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    quote(name, out);
    out.push(b':');
    quote(value, out);
}

fn member(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b',');
    quote(name, out);
    out.push(b':');
    quote(value, out);
}

fn literal_member(name: &str, literal: &str, out: &mut Vec<u8>) {
    out.push(b',');
    quote(name, out);
    out.push(b':');
    out.extend_from_slice(literal.as_bytes());
}

fn number_member(name: &str, number: u64, out: &mut Vec<u8>) {
    literal_member(name, &number.to_string(), out);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A version 4 UUID (RFC 9562 section 5.4) of random bytes.
fn write_uuid(mut id: [u8; 16], out: &mut Vec<u8>) {
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    for (at, byte) in id.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}
