//! Forwarding of requests to the replica that has the stream, the call or the run that they name.

mod rejection;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{Method, Request, Response};
use secrecy::ExposeSecret;
use tokio::time::timeout;
use vmcp_core::{Body, Caller};
use vmcp_peer::{ForwardError, ForwardOptions, PeerClient, ReplicaHandle};
use vmcp_session::SessionStorage;

pub(crate) use self::rejection::{adapt, call_rejection, task_rejection, unresponsive};
use crate::status::ForwardCount;

/// Path of the MCP endpoint. Peers have no other one.
const PATH: &str = "/mcp";

/// Maximum number of replicas that a cancellation is sent to.
const MAX_CANCELLATIONS: usize = 16;

/// Time for a cancellation at other replicas. Longer than that for a connection, so that replicas that cannot be reached are forgotten.
const CANCELLATION_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for the response to a request that a replica processes at once. Its own work for one is a notification to a backend, which
/// takes seconds at most; a replica that needs longer is stopped or overloaded, and the client should try again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers of another replica's response that the client gets. The layers of this one add those of CORS.
const RESPONSE_HEADERS: [HeaderName; 5] = [
    CACHE_CONTROL,
    CONTENT_TYPE,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    HeaderName::from_static("x-accel-buffering"),
];

/// Reason for which a request belongs to another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum ForwardKind {
    /// Response to a server request.
    Response,
    /// Resumption of a stream.
    Resumption,
    /// `notifications/cancelled`.
    Cancellation,
    /// Retry of a suspended call.
    SuspendedCall,
    /// Run of a composite tool in the memory of a replica.
    WorkflowRun,
    /// Request about a run that is a task.
    Task,
}

/// Outcome of a forwarded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum ForwardOutcome {
    /// The replica responded.
    Responded,
    /// The replica is gone.
    Gone,
    /// The request failed otherwise.
    Failed,
}

/// Other replicas of the server, if they forward requests to each other.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    peers: Option<PeerClient>,
    /// Storage that knows all replicas.
    storage: Option<Arc<dyn SessionStorage>>,
    /// Forwarded requests by kind and outcome. Relaxed: they are only reported.
    counters: [[AtomicU64; ForwardOutcome::NAMES.len()]; ForwardKind::NAMES.len()],
}

/// Request of a client as another replica gets it.
#[derive(Debug)]
pub(crate) struct ForwardedRequest {
    request: Request<Bytes>,
    client: Option<SocketAddr>,
}

impl ForwardKind {
    const NAMES: [(Self, &str); 6] = [
        (Self::Response, "response"),
        (Self::Resumption, "resumption"),
        (Self::Cancellation, "cancellation"),
        (Self::SuspendedCall, "suspended_call"),
        (Self::WorkflowRun, "workflow_run"),
        (Self::Task, "task"),
    ];

    /// Returns the time for the head of the response. Calls take as long as their backends need, as long as the replica responds to
    /// pings.
    fn response_timeout(self) -> Option<Duration> {
        match self {
            Self::Response | Self::Resumption | Self::Cancellation | Self::Task => {
                Some(RESPONSE_TIMEOUT)
            }
            Self::SuspendedCall | Self::WorkflowRun => None,
        }
    }
}

impl ForwardOutcome {
    const NAMES: [(Self, &str); 3] =
        [(Self::Responded, "responded"), (Self::Gone, "gone"), (Self::Failed, "failed")];
}

impl Replicas {
    pub(crate) fn new(peers: Option<PeerClient>, storage: Option<Arc<dyn SessionStorage>>) -> Self {
        let replicas = Self { peers, storage, ..Self::default() };
        replicas.announce();
        replicas
    }

    /// Announces this replica to the others. Repeated because the handle changes with the key that seals it.
    pub(crate) fn announce(&self) {
        if let (Some(storage), Some(handle)) = (&self.storage, self.own_handle()) {
            storage.announce(&handle);
        }
    }

    /// Returns the other replicas: those that the storage knows, or those that this one has met.
    fn others(&self) -> Vec<ReplicaHandle> {
        match (&self.peers, &self.storage) {
            (None, _) => Vec::new(),
            (Some(peers), None) => peers.known(),
            (Some(_), Some(storage)) => {
                storage.replicas().iter().filter_map(|handle| self.other(handle)).collect()
            }
        }
    }

    /// Returns the sealed handle of this replica, if others forward requests to it.
    pub(crate) fn own_handle(&self) -> Option<Arc<str>> {
        let handle = self.peers.as_ref()?.sealed_handle();
        Some(handle.expect("the operating system has random numbers"))
    }

    /// Returns the replica that a sealed handle names, unless it is this one.
    pub(crate) fn other(&self, handle: &str) -> Option<ReplicaHandle> {
        let peers = self.peers.as_ref()?;
        peers.open(handle).ok().filter(|handle| !peers.is_own(handle))
    }

    /// Forwards a request to a replica.
    pub(crate) async fn forward(
        &self,
        kind: ForwardKind,
        replica: &ReplicaHandle,
        request: ForwardedRequest,
    ) -> Result<Response<Body>, ForwardError> {
        let Some(peers) = &self.peers else { return Err(ForwardError::Overloaded) };
        let ForwardedRequest { request, client } = request;
        let options = ForwardOptions { client, response_timeout: kind.response_timeout() };
        let result = peers.forward(replica, request, options).await;
        let outcome = match &result {
            Ok(_) => ForwardOutcome::Responded,
            Err(error) => {
                let address = replica.address();
                tracing::warn!(?kind, %address, %error, "failed to forward a request to a replica");
                if error.is_gone() { ForwardOutcome::Gone } else { ForwardOutcome::Failed }
            }
        };
        self.counters[kind as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
        result.map(without_connection_headers)
    }

    /// Sends a cancellation to the other replicas that this one knows.
    pub(crate) async fn cancel(&self, request: impl Fn() -> ForwardedRequest) {
        let cancelling = self.others().into_iter().take(MAX_CANCELLATIONS).map(async |replica| {
            let request = request();
            // The replica that has the call is not known, so most responses say nothing.
            drop(self.forward(ForwardKind::Cancellation, &replica, request).await);
        });
        if timeout(CANCELLATION_TIMEOUT, join_all(cancelling)).await.is_err() {
            tracing::debug!("replicas did not acknowledge a cancellation in time");
        }
    }

    /// Returns the numbers of forwarded requests.
    pub(crate) fn counts(&self) -> Vec<ForwardCount> {
        if self.peers.is_none() {
            return Vec::new();
        }
        let kinds = ForwardKind::NAMES.iter().zip(&self.counters);
        kinds
            .flat_map(|((_, kind), counters)| {
                ForwardOutcome::NAMES.iter().zip(counters).map(|((_, outcome), counter)| {
                    let requests = counter.load(Ordering::Relaxed);
                    ForwardCount { kind, outcome, requests }
                })
            })
            .collect()
    }
}

impl ForwardedRequest {
    /// Returns the request with a message.
    pub(crate) fn of_message(
        message: Bytes,
        headers: &HeaderMap,
        caller: &Caller,
        address: Option<IpAddr>,
    ) -> Self {
        let mut request = Request::new(message);
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers.clone();
        Self::new(request, caller, address)
    }

    /// Returns the request that opens a stream.
    pub(crate) fn of_stream(headers: &HeaderMap, caller: &Caller, address: Option<IpAddr>) -> Self {
        let mut request = Request::new(Bytes::new());
        *request.headers_mut() = headers.clone();
        Self::new(request, caller, address)
    }

    fn new(mut request: Request<Bytes>, caller: &Caller, address: Option<IpAddr>) -> Self {
        *request.uri_mut() = http::Uri::from_static(PATH);
        // Authentication has removed it.
        if let Some(token) = caller.identity().token()
            && let Ok(mut value) =
                HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
        {
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        // Limits apply to addresses only.
        Self { request, client: address.map(|address| SocketAddr::new(address, 0)) }
    }
}

fn without_connection_headers(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let mut headers = HeaderMap::new();
    for name in RESPONSE_HEADERS {
        for value in parts.headers.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    parts.headers = headers;
    Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_index_counters() {
        for (index, (kind, _)) in ForwardKind::NAMES.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
        for (index, (outcome, _)) in ForwardOutcome::NAMES.into_iter().enumerate() {
            assert_eq!(outcome as usize, index);
        }
    }
}
