//! How a backend is met: which generation it speaks, and the handshake of the stateful one.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use vmcp_core::{BoxError, Caller, LATEST_STATEFUL, STATEFUL, STATELESS, Trail, cause};
use vmcp_wire::{elements, find, unquote};

use super::ask::{ask, tell};
use super::channel::Lease;
use super::failure::Failure;
use super::request::{REVISION, SESSION, asking, delete, post, stateless};
use super::{Link, Speaks, asks_for_credentials};
use crate::session::{lock, renew};

/// An open session with a stateful backend.
#[derive(Debug)]
pub(crate) struct Live {
    /// `None` when the backend keeps none.
    session: Option<HeaderValue>,
    revision: HeaderValue,
    /// What the session is bound to when it is one of HTTP+SSE.
    lease: Option<Lease>,
    /// Whether it declared `logging`.
    pub(crate) logs: bool,
    /// On whose behalf it was opened, with the token that was seen last.
    caller: Mutex<Caller>,
}

/// A session of the gateway's, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Closing {
    link: Arc<Link>,
    live: Arc<Live>,
    kept: bool,
}

/// Who is behind the gateway, and what a backend is told about them, which is JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Introduction<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) capabilities: &'a [u8],
    pub(crate) client: &'a [u8],
    /// The request of a client that the backend is met for, if for any.
    pub(crate) cause: Option<&'a Trail>,
    /// The address of an anonymous caller, if it is known.
    pub(crate) address: Option<IpAddr>,
}

/// Opens a session (MCP 2025-11-25, Lifecycle). The value of `result` of the handshake comes along. Whoever
/// gives up, here or later, leaves none behind.
pub(crate) async fn open(
    link: &Arc<Link>,
    who: Introduction<'_>,
) -> Result<(Closing, Bytes), BoxError> {
    let (hello, id) = initialize(link, who);
    let mut reply = match ask(link, hello, &id).await {
        Ok(reply) => reply,
        Err(error) => return Err(refused(error)),
    };
    let spoken = find(&reply.result, "protocolVersion").and_then(unquote).unwrap_or_default();
    let known = STATEFUL.into_iter().find(|revision| *revision == spoken);
    let revision = HeaderValue::from_static(known.unwrap_or(LATEST_STATEFUL));
    // Copied: the header is a slice of everything that was read with it, and a session lives long.
    let session = reply.headers.get(SESSION);
    let session = session.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok());
    let lease = reply.extensions.remove();
    let logs = offers(&reply.result, "logging");
    let caller = Mutex::new(who.caller.clone());
    let closing = Closing::new(link, Live { session, revision, lease, logs, caller });
    // The session is open all the same: dropped, it is ended.
    known.ok_or(Failure::Revision)?;
    let ready = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let ready = closing.live().sign(post(link, who.caller, ready));
    tell(link, asking(ready, "notifications/initialized", who.cause)).await?;
    Ok((closing, reply.result))
}

/// The request that opens a session, and its id.
pub(super) fn initialize(link: &Link, who: Introduction<'_>) -> (Request<Full<Bytes>>, String) {
    let id = format!("\"vmcp:{}\"", link.serial());
    let mut message = Vec::with_capacity(256);
    // No `_meta`, not even an empty one: servers of both generations classify by it.
    for piece in [
        br#"{"jsonrpc":"2.0","id":"#,
        id.as_bytes(),
        br#","method":"initialize","params":{"protocolVersion":""#,
        LATEST_STATEFUL.as_bytes(),
        br#"","capabilities":"#,
        who.capabilities,
        br#","clientInfo":"#,
        who.client,
        b"}}",
    ] as [&[u8]; 9]
    {
        message.extend_from_slice(piece);
    }
    let mut request = post(link, who.caller, message.into());
    if let Some(account) = link.account(who.caller, who.address) {
        request.extensions_mut().insert(account);
    }
    (asking(request, "initialize", who.cause), id)
}

/// Whether the result of a handshake or discovery declares a capability.
pub(crate) fn offers(result: &[u8], capability: &str) -> bool {
    find(result, "capabilities")
        .is_some_and(|capabilities| find(capabilities, capability).is_some())
}

/// An answer that says no is a refusal of the handshake; the rest are failures like any other.
fn refused(error: BoxError) -> BoxError {
    match cause::<Failure>(error.as_ref()) {
        // There is no session yet that could be gone.
        Some(Failure::SessionGone) => {
            let reason = Failure::Status(http::StatusCode::NOT_FOUND).to_string();
            Failure::Handshake { reason }.into()
        }
        Some(Failure::Rpc { .. }) => Failure::Handshake { reason: error.to_string() }.into(),
        Some(Failure::Status(status))
            if status.is_client_error() && !asks_for_credentials(&error) =>
        {
            Failure::Handshake { reason: error.to_string() }.into()
        }
        _ => error,
    }
}

impl<'a> Introduction<'a> {
    /// The same, for a request of a client.
    pub(crate) fn caused_by(self, cause: Option<&'a Trail>) -> Self {
        Self { cause, ..self }
    }
}

impl Closing {
    fn new(link: &Arc<Link>, live: Live) -> Self {
        Self { link: Arc::clone(link), live: Arc::new(live), kept: false }
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The session, which somebody else ends.
    pub(crate) fn keep(mut self) -> Arc<Live> {
        self.kept = true;
        Arc::clone(&self.live)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if self.kept || !self.live.can_end() {
            return;
        }
        let (link, live) = (Arc::clone(&self.link), Arc::clone(&self.live));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { live.close(&link).await });
        }
    }
}

impl Live {
    /// Puts a request into the session.
    pub(crate) fn sign(&self, mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
        let headers = request.headers_mut();
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        headers.insert(REVISION, self.revision.clone());
        if let Some(lease) = &self.lease {
            request.extensions_mut().insert(lease.clone());
        }
        request
    }

    /// Whether the backend can forget it.
    pub(crate) fn can_end(&self) -> bool {
        self.session.is_some() || self.lease.is_some()
    }

    /// Tells the backend that the session is over. That it may not listen changes nothing.
    pub(crate) async fn close(&self, link: &Link) {
        if self.can_end() {
            _ = tell(link, self.sign(delete(link, &self.caller()))).await;
        }
    }

    /// On whose behalf it was opened, with the token that was seen last.
    pub(crate) fn caller(&self) -> Caller {
        lock(&self.caller).clone()
    }

    /// Remembers a newer token of the same caller, for what is sent when no request of theirs is at hand.
    pub(crate) fn renew(&self, caller: &Caller) {
        renew(&self.caller, caller);
    }
}

/// What the `_meta` of a stateless request says of the client.
pub(crate) fn meta_members(
    who: Introduction<'_>,
    level: Option<&[u8]>,
) -> Vec<(&'static str, Vec<u8>)> {
    let mut members = vec![
        ("io.modelcontextprotocol/protocolVersion", format!("\"{STATELESS}\"").into_bytes()),
        ("io.modelcontextprotocol/clientInfo", who.client.to_vec()),
        ("io.modelcontextprotocol/clientCapabilities", who.capabilities.to_vec()),
    ];
    members.extend(level.map(|level| ("io.modelcontextprotocol/logLevel", level.to_vec())));
    members
}

/// A request of the gateway to a stateless backend. `members` are further members of `params`, each
/// with a comma behind it.
pub(crate) fn request(
    link: &Link,
    method: &'static str,
    members: &str,
    who: Introduction<'_>,
) -> (Request<Full<Bytes>>, String) {
    let id = link.serial().to_string();
    let meta: Vec<String> = meta_members(who, None)
        .iter()
        .map(|(key, value)| format!("\"{key}\":{}", String::from_utf8_lossy(value)))
        .collect();
    let meta = meta.join(",");
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{{{meta}}}}}}}"#
    );
    let mut request = post(link, who.caller, message.into());
    stateless(request.headers_mut(), method, None);
    (asking(request, method, who.cause), id)
}

/// Asks a backend what it speaks. The `discover` result comes along when there is one.
pub(crate) async fn probe(
    link: &Link,
    who: Introduction<'_>,
) -> Result<(Speaks, Option<Bytes>), BoxError> {
    let (request, id) = request(link, "server/discover", "", who);
    match ask(link, request, &id).await {
        Ok(reply) => {
            let versions = find(&reply.result, "supportedVersions").unwrap_or_default();
            let lists = |known: &dyn Fn(&str) -> bool| {
                elements(versions).filter_map(unquote).any(|version| known(&version))
            };
            let stateless = lists(&|version| version == STATELESS);
            let stateful = lists(&|version| STATEFUL.contains(&version));
            match (stateless, stateful) {
                (true, true) => Ok((Speaks::Both, Some(reply.result))),
                (true, false) => Ok((Speaks::Stateless, Some(reply.result))),
                (false, _) => Ok((Speaks::Stateful, None)),
            }
        }
        Err(error) => match cause::<Failure>(error.as_ref()) {
            // Only a stateless server knows these two.
            Some(Failure::Rpc { code: -32020 | -32021, .. }) => Ok((Speaks::Stateless, None)),
            Some(Failure::Status(status))
                if status.is_server_error()
                    || matches!(status.as_u16(), 401 | 403 | 407 | 408 | 429) =>
            {
                Err(error)
            }
            Some(Failure::TooLarge { .. } | Failure::Ended) | None => Err(error),
            Some(_) => Ok((Speaks::Stateful, None)),
        },
    }
}
