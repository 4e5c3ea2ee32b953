//! Two replicas with one key ring that forward requests to each other over sockets.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tower::{ServiceExt, service_fn};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{Limits, PartialFailure, Settings};
use vmcp_core::{Body, Clock, Generation, Identity, McpRequest};
use vmcp_peer::{Forwarded, PeerClient, PeerIdentity, PeerListener, PeerNetworks, PeerSettings};
use vmcp_seal::{KeyRing, SealKey};

use super::front::Front;
use crate::fake::{begin_replica, settings};
use crate::script::{LIMIT, PendingCall, ScriptedBackend, ScriptedClient, Wire};

pub(crate) struct Pair {
    pub(crate) backend: Arc<ScriptedBackend>,
    pub(crate) calls: UnboundedReceiver<PendingCall>,
    pub(crate) first: Gateway,
    pub(crate) second: Gateway,
    pub(crate) peers: [PeerClient; 2],
    front: Front,
    _listening: [JoinHandle<()>; 2],
}

/// Reader of the events of a response.
pub(crate) struct Events {
    body: Body,
    text: String,
}

fn ring() -> KeyRing {
    KeyRing::new("gw", &[SealKey::from_bytes([7; 32])], Clock::system()).unwrap()
}

fn identity(subject: &str) -> Identity {
    Identity::builder("https://idp.test", subject).token(subject.to_owned().into()).build()
}

impl Pair {
    pub(crate) async fn new(wire: Wire) -> Self {
        Self::with(wire, |settings| settings).await
    }

    pub(crate) async fn with(wire: Wire, adapt: impl Fn(Settings) -> Settings) -> Self {
        let (backend, calls) = ScriptedBackend::new("be", wire);
        let [front, second] = bind().await;
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [front.local_addr().unwrap(), second.local_addr().unwrap()];
        let front = Front::start(front, first.local_addr().unwrap());
        let mut replicas = Vec::new();
        for (listener, address) in [first, second].into_iter().zip(addresses) {
            let networks = PeerNetworks::Networks(vec!["127.0.0.0/8".parse().unwrap()]);
            let peers = PeerSettings { address, networks };
            let peers = PeerClient::new(PeerIdentity::generate().unwrap(), peers, ring());
            let limits = Limits { peers: Some(peers.clone()), ..Limits::default() };
            let settings = settings(vec![backend.settings(None)], PartialFailure::BestEffort, None);
            let gateway = begin_replica(adapt(settings), limits, ring()).await;
            let listener = PeerListener::new(listener, peers.clone());
            let serving = gateway.clone();
            let service = service_fn(move |request| serve(serving.clone(), request));
            let listening = tokio::spawn(async move {
                listener.run(service, std::future::pending()).await;
            });
            replicas.push((gateway, peers, listening));
        }
        let (second, second_peers, second_listening) = replicas.pop().unwrap();
        let (first, first_peers, first_listening) = replicas.pop().unwrap();
        Self {
            backend,
            calls,
            first,
            second,
            peers: [first_peers, second_peers],
            front,
            _listening: [first_listening, second_listening],
        }
    }

    /// Creates a client of the first replica.
    pub(crate) async fn client(&self, generation: Generation, subject: &str) -> ScriptedClient {
        let mut client = ScriptedClient::new(&self.first, generation, subject).await;
        client.identity = identity(subject);
        client
    }

    /// Closes the peer listener of the first replica. There are no connections to it yet.
    pub(crate) fn kill_first(&self) {
        self.front.kill();
    }

    /// Stops the bytes to and from the first replica, or lets them pass. Its connections stay open.
    pub(crate) fn freeze_first(&self, frozen: bool) {
        self.front.freeze(frozen);
    }

    pub(crate) async fn until(&self, holds: impl Fn(&ScriptedBackend) -> bool) {
        let waiting = async {
            while !holds(&self.backend) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, waiting).await.unwrap();
    }

    pub(crate) async fn until_answered(&self, question: &str) {
        self.until(|backend| backend.has_answer(question)).await;
    }
}

/// Creates two replicas without peers.
pub(crate) async fn unpeered(
    wire: Wire,
) -> (Arc<ScriptedBackend>, UnboundedReceiver<PendingCall>, [Gateway; 2]) {
    let (backend, calls) = ScriptedBackend::new("be", wire);
    let replica = async || {
        let settings = settings(vec![backend.settings(None)], PartialFailure::BestEffort, None);
        begin_replica(settings, Limits::default(), ring()).await
    };
    let replicas = [replica().await, replica().await];
    (backend, calls, replicas)
}

/// Binds one port on two addresses.
async fn bind() -> [TcpListener; 2] {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let address = SocketAddr::new(IpAddr::from([127, 0, 0, 2]), port);
        if let Ok(second) = TcpListener::bind(address).await {
            return [first, second];
        }
    }
}

/// Authenticates and decodes a forwarded request, as the layers of the server do. The token is the subject.
async fn serve(gateway: Gateway, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (mut parts, body) = request.into_parts();
    assert!(parts.extensions.get::<Forwarded>().is_some());
    let token = parts.headers.remove("authorization").unwrap();
    let subject = token.to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
    parts.extensions.insert(identity(&subject));
    if parts.method == Method::POST {
        let bytes: Bytes = body.collect().await.unwrap().to_bytes();
        let generation = if parts.headers.contains_key("mcp-session-id") {
            Generation::Stateful
        } else {
            Generation::Stateless
        };
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        parts.extensions.insert(McpRequest { bytes, envelope, generation });
    }
    gateway.oneshot(Request::from_parts(parts, ())).await
}

/// Returns the numbers of forwarded requests of a kind: with a response, without a replica, failed.
pub(crate) fn forwards(gateway: &Gateway, kind: &str) -> [u64; 3] {
    let counts = gateway.forward_counts();
    let mut outcomes = counts.iter().filter(|count| count.kind == kind);
    ["responded", "gone", "failed"].map(|outcome| {
        let count = outcomes.next().unwrap();
        assert_eq!(count.outcome, outcome);
        count.requests
    })
}

/// Begins a call whose backend sends a message first.
pub(crate) async fn begin(
    calls: &mut UnboundedReceiver<PendingCall>,
    client: &ScriptedClient,
    id: u64,
    first: &Value,
) -> (Events, PendingCall) {
    let client = client.clone();
    let begun = tokio::spawn(async move { client.call(id, "t").await });
    let mut call = calls.recv().await.unwrap();
    assert!(call.say(first));
    (events(begun.await.unwrap()), call)
}

/// Returns a question of the backend with the id `q`.
pub(crate) fn question() -> Value {
    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}})
}

pub(crate) fn events(response: Response<Body>) -> Events {
    assert_eq!(response.status(), 200);
    Events { body: response.into_body(), text: String::new() }
}

impl Events {
    /// Returns the id and the message of the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, _)) = self.text.split_once("\n\n") {
                let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
                let id = field("id: ").unwrap_or_default().to_owned();
                let message = field("data: ").and_then(|data| serde_json::from_str(data).ok());
                self.text = self.text.split_off(event.len() + 2);
                if let Some(message) = message {
                    return Some((id, message));
                }
            }
            let frame = timeout(LIMIT, self.body.frame()).await.unwrap()?;
            let data = frame.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}
