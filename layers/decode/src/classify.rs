//! Which generation a message belongs to, and whether its headers say the same as its body.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use vmcp_core::{Generation, Rejection, STATEFUL, STATELESS};
use vmcp_wire::{Envelope, Key, Params, Said, Span, Text, unquote};

use crate::name;

const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// The generation of the message (MCP 2026-07-28, Versioning and Streamable HTTP, Request Headers).
///
/// A stateless request shows itself by its header or by its `_meta`. From then on everything that
/// its revision requires is required, so that what a middle box routed by is what runs here.
pub(crate) fn generation(
    headers: &HeaderMap,
    bytes: &[u8],
    envelope: &Envelope,
) -> Result<Generation, Rejection> {
    match envelope {
        Envelope::Answer { .. } => Ok(Generation::Stateful),
        Envelope::Notification { .. } => match single(headers, &VERSION_HEADER)? {
            Some(version) if version == STATELESS => Ok(Generation::Stateless),
            version => stateful(version),
        },
        Envelope::Request { method, params, .. } => request(headers, bytes, *method, params),
    }
}

/// The id of a request.
pub(crate) fn id(envelope: &Envelope) -> Option<Span> {
    match envelope {
        Envelope::Request { id, .. } => Some(*id),
        Envelope::Notification { .. } | Envelope::Answer { .. } => None,
    }
}

fn request(
    headers: &HeaderMap,
    bytes: &[u8],
    method: Text,
    params: &Params,
) -> Result<Generation, Rejection> {
    let generation = generation_of(headers, bytes, method, params)?;
    standard_headers(headers, bytes, method, params, generation)?;
    Ok(generation)
}

fn generation_of(
    headers: &HeaderMap,
    bytes: &[u8],
    method: Text,
    params: &Params,
) -> Result<Generation, Rejection> {
    let header = single(headers, &VERSION_HEADER)?;
    let meta = params.get(Key::Meta);
    if meta.is_some_and(|meta| meta.of(bytes).first() != Some(&b'{')) {
        return Err(Rejection::invalid_params("params._meta must be an object"));
    }
    // Only a handshake names a revision in its parameters, and only a stateful client shakes hands.
    if method.is(bytes, "initialize") && params.get(Key::ProtocolVersion).is_some() {
        return Ok(Generation::Stateful);
    }
    let said = |said| params.said(said).map(|span| span.of(bytes));
    let signal = header.is_some_and(|version| version == STATELESS)
        || Said::HANDSHAKE.iter().any(|member| params.said(*member).is_some());
    if !signal && !method.is(bytes, "server/discover") {
        return stateful(header);
    }
    let version = said(Said::ProtocolVersion).and_then(unquote);
    let Some(version) = version.filter(|version| !version.is_empty()) else {
        // Some connectors send client metadata on a session of an older revision.
        return match header.and_then(text) {
            Some(known) if STATEFUL.contains(&known) => Ok(Generation::Stateful),
            _ => Err(missing(Said::ProtocolVersion)),
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
    if said(Said::ClientCapabilities).is_none_or(|value| value.first() != Some(&b'{')) {
        return Err(missing(Said::ClientCapabilities));
    }
    Ok(Generation::Stateless)
}

/// A stateful message may name any revision of that generation, or none.
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

/// `Mcp-Method` on every request, `Mcp-Name` where the method has a target. A request of an older revision need not have
/// them, but must not lie: whatever stands in front may decide by them.
fn standard_headers(
    headers: &HeaderMap,
    bytes: &[u8],
    method: Text,
    params: &Params,
    generation: Generation,
) -> Result<(), Rejection> {
    let is_optional = generation == Generation::Stateful;
    let method = method.read(bytes);
    match single(headers, &METHOD_HEADER)? {
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
    // A target that is missing or no string is refused with the method's own words later.
    let Some(target) = params.text(bytes, key) else { return Ok(()) };
    let Some(value) = single(headers, &NAME_HEADER)? else {
        let missing = || Rejection::header_mismatch("Mcp-Name", "is missing");
        return if is_optional { Ok(()) } else { Err(missing()) };
    };
    let expected: Cow<'_, str> = target.read(bytes);
    match name::decode(value) {
        Some(named) if named == expected => Ok(()),
        Some(_) => Err(Rejection::header_mismatch("Mcp-Name", "differs from the name in params")),
        None => Err(Rejection::header_mismatch("Mcp-Name", "is not valid base64 text")),
    }
}

/// The only value of a header. A proxy that routed the request could have read the other of two values.
fn single<'a>(
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

fn missing(said: Said) -> Rejection {
    Rejection::invalid_params(format!("params._meta lacks a valid {}", said.name()))
}
