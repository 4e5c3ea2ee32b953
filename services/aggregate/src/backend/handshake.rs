//! Protocol detection and the handshake of the stateful generation.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use vmcp_core::{
    BoxError, Caller, LATEST_STATEFUL, RequestContext, STATEFUL, STATELESS, cause_ref,
};
use vmcp_wire::{elements, find, parse_json_string};

use super::error::BackendError;
use super::request::{REVISION, SESSION, delete, post, stateless, with_operation};
use super::rpc::{notify, notify_or_log, send_request};
use super::sse_transport::ChannelHandle;
use super::{BackendHandle, SupportedModes, is_unauthorized};
use vmcp_core::lock;

/// Open session with a stateful backend.
#[derive(Debug)]
pub(crate) struct BackendSession {
    /// `None` if the backend does not use session ids.
    session: Option<HeaderValue>,
    revision: HeaderValue,
    /// Channel of an HTTP+SSE session.
    lease: Option<ChannelHandle>,
    /// `true` if the backend declared `logging`.
    pub(crate) logs: bool,
    /// Caller for whom the session was opened, with its most recent token. The identity never changes.
    caller: Mutex<Caller>,
}

/// State of a backend session that another replica needs to use it. A session of HTTP+SSE is its connection, which none can take
/// over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BackendSessionState<'a> {
    pub(crate) session: Option<&'a HeaderValue>,
    /// One of [`STATEFUL`].
    pub(crate) revision: &'a HeaderValue,
    pub(crate) logs: bool,
}

/// Guard of a session. Dropping it ends the session.
#[derive(Debug)]
pub(crate) struct SessionGuard {
    backend: Arc<BackendHandle>,
    backend_session: Arc<BackendSession>,
    is_disarmed: bool,
}

/// Client information that is sent to a backend, encoded as JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientInfo<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) capabilities: &'a [u8],
    pub(crate) client: &'a [u8],
    /// Client request that caused the handshake, if any.
    pub(crate) cause: Option<&'a RequestContext>,
    /// Address of an anonymous caller, if known.
    pub(crate) address: Option<IpAddr>,
}

/// Opens a session (MCP 2025-11-25, Lifecycle) and returns it with the `result` of the handshake. Dropping the future or the
/// guard ends the session.
pub(crate) async fn open(
    backend: &Arc<BackendHandle>,
    client_info: ClientInfo<'_>,
) -> Result<(SessionGuard, Bytes), BoxError> {
    let (hello, id) = initialize(backend, client_info);
    let mut reply = match send_request(backend, hello, &id).await {
        Ok(reply) => reply,
        Err(error) => return Err(refused(error)),
    };
    let spoken = find(&reply.result, "protocolVersion").and_then(parse_json_string);
    let known = STATEFUL.into_iter().find(|revision| spoken.as_deref() == Some(*revision));
    let revision = HeaderValue::from_static(known.unwrap_or(LATEST_STATEFUL));
    // Copied: the header is a slice of the read buffer, and a session is long-lived.
    let session = reply.headers.get(SESSION);
    let session = session.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok());
    let lease = reply.extensions.remove();
    let logs = offers(&reply.result, "logging");
    let caller = Mutex::new(client_info.caller.clone());
    let closing =
        SessionGuard::new(backend, BackendSession { session, revision, lease, logs, caller });
    // The session is open all the same; dropping the guard ends it.
    known.ok_or(BackendError::Revision)?;
    let ready = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let ready = closing.backend_session().sign(post(backend, client_info.caller, ready));
    notify(backend, with_operation(ready, "notifications/initialized", client_info.cause)).await?;
    Ok((closing, reply.result))
}

/// Builds the `initialize` request and its id.
pub(super) fn initialize(
    backend: &BackendHandle,
    client_info: ClientInfo<'_>,
) -> (Request<Full<Bytes>>, String) {
    let id = backend.request_id();
    let mut message = Vec::with_capacity(256);
    // No `_meta`, not even an empty one: servers of both generations use it to detect the generation.
    for piece in [
        br#"{"jsonrpc":"2.0","id":"#,
        id.as_bytes(),
        br#","method":"initialize","params":{"protocolVersion":""#,
        LATEST_STATEFUL.as_bytes(),
        br#"","capabilities":"#,
        client_info.capabilities,
        br#","clientInfo":"#,
        client_info.client,
        b"}}",
    ] as [&[u8]; 9]
    {
        message.extend_from_slice(piece);
    }
    let mut request = post(backend, client_info.caller, message.into());
    if let Some(account) = backend.account(client_info.caller, client_info.address) {
        request.extensions_mut().insert(account);
    }
    (with_operation(request, "initialize", client_info.cause), id)
}

/// Returns `true` if the result of a handshake or discovery declares a capability.
pub(crate) fn offers(result: &[u8], capability: &str) -> bool {
    find(result, "capabilities")
        .is_some_and(|capabilities| find(capabilities, capability).is_some())
}

/// Converts an error response into a rejected handshake; other errors are returned unchanged.
fn refused(error: BoxError) -> BoxError {
    match cause_ref::<BackendError>(error.as_ref()) {
        // A handshake has no session that the backend could have forgotten.
        Some(BackendError::SessionGone) => {
            let reason = BackendError::Status(http::StatusCode::NOT_FOUND).to_string();
            BackendError::Handshake { reason }.into()
        }
        Some(BackendError::Rpc { .. }) => {
            BackendError::Handshake { reason: error.to_string() }.into()
        }
        Some(BackendError::Status(status))
            if status.is_client_error() && !is_unauthorized(&error) =>
        {
            BackendError::Handshake { reason: error.to_string() }.into()
        }
        _ => error,
    }
}

impl<'a> ClientInfo<'a> {
    /// Sets the client request that caused the handshake.
    pub(crate) fn caused_by(self, cause: Option<&'a RequestContext>) -> Self {
        Self { cause, ..self }
    }
}

impl SessionGuard {
    fn new(backend: &Arc<BackendHandle>, backend_session: BackendSession) -> Self {
        Self {
            backend: Arc::clone(backend),
            backend_session: Arc::new(backend_session),
            is_disarmed: false,
        }
    }

    pub(crate) fn backend_session(&self) -> &Arc<BackendSession> {
        &self.backend_session
    }

    /// Disarms the guard; the receiver becomes responsible for ending the session.
    pub(crate) fn keep(mut self) -> Arc<BackendSession> {
        self.is_disarmed = true;
        Arc::clone(&self.backend_session)
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if self.is_disarmed || !self.backend_session.can_end() {
            return;
        }
        let (backend, backend_session) =
            (Arc::clone(&self.backend), Arc::clone(&self.backend_session));
        self.backend.spawn_close(async move { backend_session.close(&backend).await });
    }
}

impl BackendSession {
    /// Creates the session that another replica opened for the same caller.
    pub(crate) fn from_state(state: &BackendSessionState<'_>, caller: Caller) -> Self {
        let BackendSessionState { session, revision, logs } = *state;
        let (session, revision) = (session.cloned(), revision.clone());
        Self { session, revision, lease: None, logs, caller: Mutex::new(caller) }
    }

    /// Returns the state that another replica needs. The caller is that of the client's session.
    pub(crate) fn state(&self) -> BackendSessionState<'_> {
        let Self { session, revision, lease: _, logs, caller: _ } = self;
        BackendSessionState { session: session.as_ref(), revision, logs: *logs }
    }

    /// Adds the session to a request.
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

    /// Returns `true` if the backend can forget the session.
    pub(crate) fn can_end(&self) -> bool {
        self.session.is_some() || self.lease.is_some()
    }

    /// Ends the session at the backend.
    pub(crate) async fn close(&self, backend: &BackendHandle) {
        if self.can_end() {
            let request = self.sign(delete(backend, &self.caller()));
            notify_or_log(backend, request, "failed to close a session at a backend").await;
        }
    }

    /// Returns the caller for whom the session was opened, with its most recent token.
    pub(crate) fn caller(&self) -> Caller {
        lock(&self.caller).clone()
    }

    /// Stores a newer token of the same caller for requests that are not caused by one of the caller's.
    pub(crate) fn update_token(&self, caller: &Caller) {
        update_token(&self.caller, caller);
    }
}

/// Stores a newer token if the caller is the same.
pub(crate) fn update_token(known: &Mutex<Caller>, caller: &Caller) {
    if !caller.identity().is_anonymous() {
        lock(known).clone_from(caller);
    }
}

/// Returns the members of `_meta` that describe the client in a stateless request.
pub(crate) fn meta_members(
    client_info: ClientInfo<'_>,
    level: Option<&[u8]>,
) -> Vec<(&'static str, Vec<u8>)> {
    let mut members = vec![
        ("io.modelcontextprotocol/protocolVersion", format!("\"{STATELESS}\"").into_bytes()),
        ("io.modelcontextprotocol/clientInfo", client_info.client.to_vec()),
        ("io.modelcontextprotocol/clientCapabilities", client_info.capabilities.to_vec()),
    ];
    members.extend(level.map(|level| ("io.modelcontextprotocol/logLevel", level.to_vec())));
    members
}

/// Builds a request of the gateway to a stateless backend. `members` are further members of `params`, each followed by a comma.
pub(crate) fn request(
    backend: &BackendHandle,
    method: &'static str,
    members: &str,
    client_info: ClientInfo<'_>,
) -> (Request<Full<Bytes>>, String) {
    let id = backend.serial().to_string();
    let meta: Vec<String> = meta_members(client_info, None)
        .iter()
        .map(|(key, value)| format!("\"{key}\":{}", String::from_utf8_lossy(value)))
        .collect();
    let meta = meta.join(",");
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{{{meta}}}}}}}"#
    );
    let mut request = post(backend, client_info.caller, message.into());
    stateless(request.headers_mut(), method, None);
    (with_operation(request, method, client_info.cause), id)
}

/// Detects the supported generations. Returns the `server/discover` result if there is one.
pub(crate) async fn probe(
    backend: &BackendHandle,
    client_info: ClientInfo<'_>,
) -> Result<(SupportedModes, Option<Bytes>), BoxError> {
    let (request, id) = request(backend, "server/discover", "", client_info);
    match send_request(backend, request, &id).await {
        Ok(reply) => {
            let lists = |known: &dyn Fn(&str) -> bool| {
                let versions = find(&reply.result, "supportedVersions").into_iter();
                let mut versions = versions.flat_map(elements).filter_map(parse_json_string);
                versions.any(|version| known(&version))
            };
            let stateless = lists(&|version| version == STATELESS);
            let stateful = lists(&|version| STATEFUL.contains(&version));
            match (stateless, stateful) {
                (true, true) => Ok((SupportedModes::Both, Some(reply.result))),
                (true, false) => Ok((SupportedModes::Stateless, Some(reply.result))),
                (false, _) => Ok((SupportedModes::Stateful, None)),
            }
        }
        Err(error) => match cause_ref::<BackendError>(error.as_ref()) {
            // These two error codes exist only in the stateless generation.
            Some(BackendError::Rpc { code: -32020 | -32021, .. }) => {
                Ok((SupportedModes::Stateless, None))
            }
            Some(BackendError::Status(status))
                if status.is_server_error()
                    || matches!(status.as_u16(), 401 | 403 | 407 | 408 | 429) =>
            {
                Err(error)
            }
            Some(BackendError::TooLarge { .. } | BackendError::Ended) | None => Err(error),
            Some(_) => Ok((SupportedModes::Stateful, None)),
        },
    }
}
