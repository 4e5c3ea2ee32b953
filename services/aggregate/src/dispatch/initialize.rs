//! Handshake with clients: `initialize` of the stateful generation and `server/discover` of the stateless one. Neither waits
//! for a backend.

use std::net::IpAddr;

use http::{HeaderValue, Response};
use vmcp_core::{Body, Caller, Identity, LATEST_STATEFUL, Rejection, STATEFUL, STATELESS};
use vmcp_wire::Key;

use crate::backend::request::SESSION;
use crate::call::Call;
use crate::capabilities::{BRIDGED_IN_SESSIONS, bridged};
use crate::catalog::define_literal;
use crate::response::result;
use crate::session::Session;
use crate::session::store::{SessionError, SessionStore};

/// Capabilities of the gateway, independent of its backends.
const CAPABILITIES: &str = r#""tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}"#;

/// Extensions bridged for clients with and without a session.
const SESSION_EXTENSIONS: &str = r#"{"io.modelcontextprotocol/ui":{}}"#;
const EXTENSIONS: &str = r#"{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}"#;

/// Maximum number of bytes stored of a client's `initialize` parameters.
const MAX_CLIENT_INFO_BYTES: usize = 16 << 10;

/// Opens a session (MCP 2025-11-25, Lifecycle). `address` is that of the client, if known.
pub(crate) fn initialize(
    call: &Call,
    sessions: &SessionStore,
    address: Option<IpAddr>,
) -> Result<Response<Body>, Rejection> {
    let session = session(call, address)?;
    let revision = session.revision;
    let opened = sessions.open(&call.caller, address, session);
    opened_response(call, &opened.map_err(SessionError::into_rejection)?, revision)
}

/// Opens a session whose record replicas share.
pub(crate) async fn initialize_shared(
    call: &Call,
    sessions: &SessionStore,
) -> Result<Response<Body>, Rejection> {
    let session = session(call, call.address)?;
    let revision = session.revision;
    let opened = sessions.open_shared(&call.caller, call.address, session).await;
    opened_response(call, &opened.map_err(SessionError::into_rejection)?, revision)
}

/// Creates the session that a request asks for.
fn session(call: &Call, address: Option<IpAddr>) -> Result<Session, Rejection> {
    let message = &call.message;
    let Some(requested) = message.text(Key::ProtocolVersion) else {
        return Err(Rejection::invalid_params("initialize needs params.protocolVersion, a string"));
    };
    let requested = requested.read(&message.bytes);
    let revision =
        STATEFUL.into_iter().find(|known| *known == requested).unwrap_or(LATEST_STATEFUL);
    let capabilities = object(call, Key::Capabilities)?.unwrap_or(b"{}");
    let client = object(call, Key::ClientInfo)?.unwrap_or(br#"{"name":"unknown","version":"0"}"#);
    if capabilities.len() + client.len() > MAX_CLIENT_INFO_BYTES {
        return Err(Rejection::invalid_params("capabilities and clientInfo are too long"));
    }
    let capabilities = bridged(capabilities, BRIDGED_IN_SESSIONS);
    Ok(Session::new(revision, call.caller.clone(), address, &capabilities, client))
}

/// Returns the result of the handshake, with the id of the session.
fn opened_response(call: &Call, id: &str, revision: &str) -> Result<Response<Body>, Rejection> {
    let mut out = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{{{CAPABILITIES},"extensions":{SESSION_EXTENSIONS}}},"serverInfo":"#
    )
    .into_bytes();
    out.extend_from_slice(call.context.catalogs.client_info().as_bytes());
    append_instructions(&mut out, call);
    out.push(b'}');
    let mut response = result(&call.id(), &out);
    let id = HeaderValue::from_str(id).map_err(|_| Rejection::internal())?;
    response.headers_mut().insert(SESSION, id);
    Ok(response)
}

/// Returns the supported revisions and capabilities (MCP 2026-07-28, Discovery).
pub(crate) fn discover(call: &Call) -> Response<Body> {
    let mut out = format!(
        r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["{STATELESS}""#
    )
    .into_bytes();
    for revision in STATEFUL {
        out.extend_from_slice(format!(",\"{revision}\"").as_bytes());
    }
    out.extend_from_slice(
        format!(
            r#"],"capabilities":{{{CAPABILITIES},"extensions":{EXTENSIONS}}},"_meta":{{"io.modelcontextprotocol/serverInfo":"#
        )
        .as_bytes(),
    );
    out.extend_from_slice(call.context.catalogs.client_info().as_bytes());
    out.push(b'}');
    append_instructions(&mut out, call);
    out.push(b'}');
    result(&call.id(), &out)
}

fn append_instructions(out: &mut Vec<u8>, call: &Call) {
    if let Some(instructions) = &call.snapshot.catalog(call.generation()).instructions {
        out.extend_from_slice(b",\"instructions\":");
        out.extend_from_slice(&define_literal(instructions));
    }
}

/// Returns a member of `params`, which has to be an object.
fn object(call: &Call, key: Key) -> Result<Option<&[u8]>, Rejection> {
    match call.message.param(key) {
        Some(value) if value.first() != Some(&b'{') => {
            Err(Rejection::invalid_params(format!("params.{} must be an object", key.name())))
        }
        value => Ok(value),
    }
}

/// Returns the caller that authentication established.
pub(crate) fn caller(extensions: &http::Extensions) -> Caller {
    Caller::User(extensions.get::<Identity>().cloned().unwrap_or_else(Identity::anonymous))
}
