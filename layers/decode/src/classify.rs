//! Generation of a message, and comparison of its headers with its body.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use vmcp_core::{Generation, Rejection, STATEFUL, STATELESS};
use vmcp_wire::{Envelope, Key, MetaKey, Params, Span, StringSpan, parse_json_string};

use crate::header_value;

const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// Returns the generation of a message (MCP 2026-07-28, Versioning and Streamable HTTP, Request Headers).
///
/// A stateless request is recognized by its header or by its `_meta`. It must then have everything that its revision
/// requires, so that the gateway runs the same request that an intermediary routed by its headers.
pub(crate) fn classify(
    headers: &HeaderMap,
    bytes: &[u8],
    envelope: &Envelope,
) -> Result<Generation, Rejection> {
    match envelope {
        Envelope::Response { .. } => Ok(Generation::Stateful),
        Envelope::Notification { .. } => match single_value(headers, &VERSION_HEADER)? {
            Some(version) if version == STATELESS => Ok(Generation::Stateless),
            version => stateful(version),
        },
        Envelope::Request { method, params, .. } => {
            classify_request(headers, bytes, *method, params)
        }
    }
}

/// Returns the id of a request.
pub(crate) fn request_id(envelope: &Envelope) -> Option<Span> {
    match envelope {
        Envelope::Request { id, .. } => Some(*id),
        Envelope::Notification { .. } | Envelope::Response { .. } => None,
    }
}

fn classify_request(
    headers: &HeaderMap,
    bytes: &[u8],
    method: StringSpan,
    params: &Params,
) -> Result<Generation, Rejection> {
    let generation = request_generation(headers, bytes, method, params)?;
    check_standard_headers(headers, bytes, method, params, generation)?;
    Ok(generation)
}

fn request_generation(
    headers: &HeaderMap,
    bytes: &[u8],
    method: StringSpan,
    params: &Params,
) -> Result<Generation, Rejection> {
    let header = single_value(headers, &VERSION_HEADER)?;
    let meta = params.get(Key::Meta);
    if meta.is_some_and(|meta| meta.of(bytes).first() != Some(&b'{')) {
        return Err(Rejection::invalid_params("params._meta must be an object"));
    }
    // Only a handshake names a revision in its parameters, and only a stateful client shakes hands.
    if method.is(bytes, "initialize") && params.get(Key::ProtocolVersion).is_some() {
        return Ok(Generation::Stateful);
    }
    let meta_value = |key| params.meta(key).map(|span| span.of(bytes));
    let is_stateless = header.is_some_and(|version| version == STATELESS)
        || MetaKey::HANDSHAKE.iter().any(|member| params.meta(*member).is_some());
    if !is_stateless && !method.is(bytes, "server/discover") {
        return stateful(header);
    }
    let version = meta_value(MetaKey::ProtocolVersion).and_then(parse_json_string);
    let Some(version) = version.filter(|version| !version.is_empty()) else {
        // Some connectors send client metadata on a session of an older revision.
        return match header.and_then(text) {
            Some(known) if STATEFUL.contains(&known) => Ok(Generation::Stateful),
            _ => Err(missing_meta_key(MetaKey::ProtocolVersion)),
        };
    };
    let Some(header) = header else {
        return Err(Rejection::header_mismatch("MCP-Protocol-Version", "is missing"));
    };
    if header.as_bytes() != version.as_bytes() {
        return Err(Rejection::header_mismatch(
            "MCP-Protocol-Version",
            "differs from the protocolVersion in params._meta",
        ));
    }
    if version != STATELESS {
        return stateful(Some(header));
    }
    if meta_value(MetaKey::ClientCapabilities).is_none_or(|value| value.first() != Some(&b'{')) {
        return Err(missing_meta_key(MetaKey::ClientCapabilities));
    }
    Ok(Generation::Stateless)
}

/// Checks the revision of a stateful message: any of that generation, or none.
fn stateful(header: Option<&HeaderValue>) -> Result<Generation, Rejection> {
    match header {
        None => Ok(Generation::Stateful),
        Some(value) => match text(value) {
            Some(version) if STATEFUL.contains(&version) => Ok(Generation::Stateful),
            Some(version) => Err(Rejection::unsupported_revision(version)),
            None => Err(Rejection::unsupported_revision("(not text)")),
        },
    }
}

/// Checks `Mcp-Method` on every request, and `Mcp-Name` where the method has a target. A request of an older revision may
/// lack them, but they must match the body: an intermediary may decide by them.
fn check_standard_headers(
    headers: &HeaderMap,
    bytes: &[u8],
    method: StringSpan,
    params: &Params,
    generation: Generation,
) -> Result<(), Rejection> {
    let is_optional = generation == Generation::Stateful;
    let method = method.read(bytes);
    match single_value(headers, &METHOD_HEADER)? {
        None if is_optional => {}
        None => return Err(Rejection::header_mismatch("Mcp-Method", "is missing")),
        Some(value) if value.as_bytes() != method.as_bytes() => {
            return Err(Rejection::header_mismatch("Mcp-Method", "differs from the method"));
        }
        Some(_) => {}
    }
    let key = match &*method {
        "tools/call" | "prompts/get" => Key::Name,
        "resources/read" => Key::Uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => Key::TaskId,
        _ => return Ok(()),
    };
    // A target that is missing or no string is rejected by the method later.
    let Some(target) = params.text(bytes, key) else { return Ok(()) };
    let Some(value) = single_value(headers, &NAME_HEADER)? else {
        let missing = || Rejection::header_mismatch("Mcp-Name", "is missing");
        return if is_optional { Ok(()) } else { Err(missing()) };
    };
    let expected: Cow<'_, str> = target.read(bytes);
    match header_value::decode(value) {
        Some(named) if named == expected => Ok(()),
        Some(_) => Err(Rejection::header_mismatch("Mcp-Name", "differs from the name in params")),
        None => Err(Rejection::header_mismatch("Mcp-Name", "is not valid base64 text")),
    }
}

/// Returns the only value of a header. A proxy that routed the request could have read the other of two values.
fn single_value<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Rejection::header_mismatch(name.as_str(), "appears more than once"));
    }
    Ok(first)
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

fn missing_meta_key(key: MetaKey) -> Rejection {
    Rejection::invalid_params(format!("params._meta lacks a valid {}", key.name()))
}
