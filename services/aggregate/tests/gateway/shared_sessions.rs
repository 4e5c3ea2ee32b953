//! Sessions in a storage that several gateways share.

mod backend_sessions;
mod endings;
mod losses;
mod outages;
mod random;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request};
use serde_json::{Value, json};
use tower::ServiceExt;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{BackendSettings, Limits, PartialFailure};
use vmcp_core::{Clock, Generation, Identity};
use vmcp_seal::{KeyRing, SealKey};
use vmcp_session::MemorySessionStorage;

use crate::fake::{Client, FakeBackend, Sessions, begin_replica, settings};

const MARK: &str = "vmcp.dev/backendSession";
const TTL: Duration = Duration::from_mins(30);

/// Gateway with its view of the storage.
struct Replica {
    gateway: Gateway,
    storage: MemorySessionStorage,
}

/// Creates replicas of one gateway.
async fn replicas<const N: usize>(backends: &[BackendSettings]) -> [Replica; N] {
    replicas_with(backends, |_| Limits::default()).await
}

async fn replicas_with<const N: usize>(
    backends: &[BackendSettings],
    limits: impl Fn(usize) -> Limits,
) -> [Replica; N] {
    let first = MemorySessionStorage::new(TTL, Clock::system());
    let mut replicas = Vec::new();
    for number in 0..N {
        let storage = if number == 0 { first.clone() } else { first.replica() };
        replicas.push(replica(backends, storage, limits(number)).await);
    }
    replicas.try_into().ok().unwrap()
}

async fn replica(
    backends: &[BackendSettings],
    storage: MemorySessionStorage,
    limits: Limits,
) -> Replica {
    let settings = settings(backends.to_vec(), PartialFailure::BestEffort, None);
    let limits = Limits { session_storage: Some(Arc::new(storage.clone())), ..limits };
    let ring = KeyRing::new("gw", &[SealKey::from_bytes([7; 32])], limits.clock.clone()).unwrap();
    Replica { gateway: begin_replica(settings, limits, ring).await, storage }
}

/// Creates a stateful backend with sessions and the tool `t`.
fn backend() -> Arc<FakeBackend> {
    let backend =
        FakeBackend::new("be", Generation::Stateful).offer("*", json!({"tools": [{"name": "t"}]}));
    *backend.sessions.lock().unwrap() = Some(Sessions::default());
    backend
}

/// Returns the numbers of the open sessions of a client at the backend.
fn open_sessions(backend: &FakeBackend, subject: &str) -> Vec<usize> {
    let sessions = backend.sessions.lock().unwrap();
    let Sessions { openers, open } = sessions.as_ref().unwrap();
    open.iter().copied().filter(|number| openers[number - 1] == subject).collect()
}

async fn open(replica: &Replica, subject: &str) -> Client {
    Client::declaring(&replica.gateway, Generation::Stateful, subject, json!({})).await
}

/// Calls the tool and returns the HTTP status and the mark of the result.
async fn call(client: &Client) -> (u16, Value) {
    let said = client.ask("tools/call", json!({"name": "be_t"})).await;
    let mark = match said.status {
        200 => said.json()["result"]["_meta"][MARK].clone(),
        _ => Value::Null,
    };
    (said.status, mark)
}

/// Ends the session of a client. Returns the HTTP status.
async fn delete(client: &Client) -> u16 {
    let mut request = Request::builder().method(Method::DELETE).uri("/mcp").body(()).unwrap();
    request.headers_mut().insert("mcp-session-id", client.session.clone().unwrap());
    if !client.identity.is_anonymous() {
        request.extensions_mut().insert(client.identity.clone());
    }
    let Ok(response) = client.gateway.clone().oneshot(request).await;
    response.status().as_u16()
}

impl Replica {
    /// Returns the client as it sends requests to this replica.
    fn serve(&self, client: &Client) -> Client {
        client.clone().on(&self.gateway)
    }
}

fn with_id(client: &Client, id: &str) -> Client {
    Client { session: Some(HeaderValue::from_str(id).unwrap()), ..client.clone() }
}

fn id(client: &Client) -> String {
    client.session.as_ref().unwrap().to_str().unwrap().to_owned()
}

fn user(subject: &str) -> Identity {
    match subject {
        "" => Identity::anonymous(),
        subject => Identity::new("https://idp.test", subject),
    }
}

/// Lets tasks run in the background.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}
