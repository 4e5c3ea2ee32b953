//! `notifications/cancelled` to a stateful backend: one for each call that ends without an answer, and none for
//! others (MCP 2025-11-25, Cancellation).

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use vmcp_breaker::CircuitOpen;
use vmcp_core::{BoxError, CredentialError, NotSent, Trail, cause};
use vmcp_timeout::Elapsed;

use crate::backend::ask::tell;
use crate::backend::failure::Failure;
use crate::backend::handshake::Live;
use crate::backend::request::{asking, post};
use crate::catalog::define_literal;
use crate::session::{Upstream, lock};

const METHOD: &str = "notifications/cancelled";

/// Why the backend need not go on.
pub(crate) const SESSION_ENDED: &str = "the client ended its session";
const DISCONNECTED: &str = "the client disconnected";

/// A call that the backend works on. Dropped without an answer, it is cancelled.
#[derive(Debug)]
pub(crate) struct Cancellation {
    pub(crate) upstream: Arc<Upstream>,
    /// The id that the backend was given, as JSON.
    id: Bytes,
    /// The request of the client that it is made for, if a layer observes that.
    cause: Option<Trail>,
    /// The session that the request is under way in: `None` until it is sent, and as soon as there is nothing to
    /// cancel. Taken once.
    live: Mutex<Option<Arc<Live>>>,
}

impl Cancellation {
    pub(crate) fn new(upstream: Arc<Upstream>, id: Bytes, cause: Option<&Trail>) -> Self {
        Self { upstream, id, cause: cause.cloned(), live: Mutex::default() }
    }

    /// Notes that the request is sent in this session.
    pub(crate) fn arm(&self, live: &Arc<Live>) {
        *lock(&self.live) = Some(Arc::clone(live));
    }

    /// Whether there is something to cancel.
    pub(crate) fn is_armed(&self) -> bool {
        lock(&self.live).is_some()
    }

    /// Notes that there is nothing to cancel. Gives the session if there was.
    pub(crate) fn disarm(&self) -> Option<Arc<Live>> {
        lock(&self.live).take()
    }

    /// Notes that the call failed, and cancels it if the backend may still work on it.
    pub(crate) fn failed(&self, error: &BoxError) {
        match reason(error) {
            Some(reason) => self.send(&reason),
            None => _ = self.disarm(),
        }
    }

    /// Cancels the call, if there is something to cancel.
    pub(crate) fn send(&self, reason: &str) {
        let Some(request) = self.request(reason) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let link = Arc::clone(&self.upstream.link);
        runtime.spawn(async move { tell(&link, request).await });
    }

    /// The request that cancels the call, if there is something to cancel.
    pub(crate) fn request(&self, reason: &str) -> Option<Request<Full<Bytes>>> {
        let live = self.disarm()?;
        let message = message(&self.id, reason);
        let request = live.sign(post(&self.upstream.link, &live.caller(), message));
        Some(asking(request, METHOD, self.cause.as_ref()))
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.send(DISCONNECTED);
    }
}

/// The notification about the request with this id, which is JSON.
pub(crate) fn message(id: &[u8], reason: &str) -> Bytes {
    let start = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#;
    [&start[..], id, br#","reason":"#, &define_literal(reason), b"}}"].concat().into()
}

/// Why a call that failed so is cancelled; `None` where the backend has answered, or does not work on it.
pub(crate) fn reason(error: &BoxError) -> Option<Cow<'static, str>> {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    if cause::<NotSent>(error).is_some()
        || cause::<CircuitOpen>(error).is_some()
        || cause::<CredentialError>(error).is_some()
    {
        return None;
    }
    if let Some(Elapsed { limit }) = cause(error) {
        return Some(format!("no message for {limit:?}").into());
    }
    match cause::<Failure>(error) {
        Some(Failure::Question(problem)) => Some(Cow::Borrowed(problem)),
        Some(Failure::Detached { reason, .. }) => reason.map(Cow::Borrowed),
        // The connection broke, not the call.
        None | Some(Failure::Ended) => Some("the response was lost".into()),
        Some(
            Failure::SessionGone
            | Failure::Status(_)
            | Failure::ContentType
            | Failure::Malformed(_)
            | Failure::Rpc { .. }
            | Failure::Handshake { .. }
            | Failure::TooLarge { .. }
            | Failure::NoRoom
            | Failure::Offer(_)
            | Failure::Generation
            | Failure::Revision
            | Failure::Busy
            | Failure::Cancelled
            | Failure::Capability(_)
            | Failure::Task(_),
        ) => None,
    }
}
