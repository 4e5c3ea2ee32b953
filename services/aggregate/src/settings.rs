//! Settings of the service: backends, aggregation rules, limits. Plain data that the application fills from its configuration.

mod checks;
mod credential_advice;
mod service;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use vmcp_breaker::CircuitHandle;
use vmcp_compose::{MemoryWorkflowStore, StoreLimits, Workflow, WorkflowStore};
use vmcp_core::{Backend, ByteBudget, Clock};
use vmcp_optimize::{EmbeddingService, SearchOptions};
use vmcp_peer::PeerClient;
use vmcp_session::SessionStorage;

pub use self::checks::{CheckOffset, Checks};
pub use self::credential_advice::CredentialAdvice;
pub use self::service::{BackendFuture, BackendService, ServiceWrapper};

/// Settings of one backend MCP server.
#[derive(Clone, Debug)]
pub struct BackendSettings {
    /// Name of the backend, used as the prefix of its tools.
    pub backend: Backend,
    /// MCP endpoint.
    pub uri: Uri,
    /// Transport of the endpoint.
    pub transport: Transport,
    /// Sharing of its offer among callers.
    pub catalog: Sharing,
    /// Service that sends requests to the backend.
    pub service: BackendService,
    /// Wrapper around the service, including the transport adapter.
    pub wrapper: ServiceWrapper,
    /// Circuit breaker in `service`, if it has one. With [`Transport::Sse`], `service` contains none: the adapter applies this
    /// breaker, because responses arrive on another stream than those to its posts.
    pub breaker: Option<CircuitHandle>,
    /// Advice for operators when the backend rejects the gateway's credentials.
    pub credential_advice: CredentialAdvice,
    /// Timeout for each message of a response with [`Transport::Sse`], where `service` cannot bound the wait. Ignored for other
    /// transports.
    pub message_timeout: Duration,
    /// Fingerprint of all settings that invalidate sessions. A backend with the same fingerprint keeps its sessions and catalog
    /// across a reload.
    pub fingerprint: u64,
    /// Revision of all other settings of `service`, such as its timeout. A backend with the same revision keeps its
    /// connections.
    pub service_revision: u64,
}

/// Transport of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// The deprecated HTTP+SSE transport of revision 2024-11-05.
    Sse,
    /// Streamable HTTP of either generation.
    StreamableHttp,
}

/// Sharing of a backend's offer among callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Requests use the gateway's own credentials or none, so all callers share the offer.
    Shared,
    /// Requests use credentials that depend on the caller. The offer is fetched on behalf of each caller and shown to that
    /// caller only; anonymous callers see none of it.
    PerCaller,
}

/// Rules for merging the offers of backends (seed section 2.9.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Conflict resolution for equal names.
    pub conflicts: Conflicts,
    /// Hides all tools; composite tools can still call them.
    pub exclude_all_tools: bool,
    /// Filters and overrides by backend name.
    pub workloads: HashMap<String, WorkloadRules>,
    /// Composite tools, with distinct names.
    pub workflows: Vec<Workflow>,
}

/// Conflict resolution for equal names of several backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Prefixes each tool and prompt name; `{workload}` is replaced by the backend's name.
    Prefix(String),
    /// Keeps names without a prefix; among equal names the first backend of this list wins.
    Priority(Vec<String>),
    /// Keeps names without a prefix; equal names are resolved by overrides or left out.
    Manual,
}

/// Rules for one backend's tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadRules {
    /// Hides all tools of the backend; they stay routable.
    pub exclude_all: bool,
    /// Visible names, after overrides; `None` shows all.
    pub filter: Option<HashSet<String>>,
    /// Overrides of single tools, by the backend's own name.
    pub overrides: HashMap<String, Override>,
}

/// Override of one tool's definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Override {
    /// New name.
    pub name: Option<String>,
    /// New description.
    pub description: Option<String>,
    /// Annotations to set, by their name in MCP; others keep the backend's values.
    pub annotations: Vec<(&'static str, serde_json::Value)>,
}

/// Behavior of lists when a backend is unavailable (seed section 2.9.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialFailure {
    /// The list request fails and names the backend.
    Fail,
    /// The list contains the items of the other backends.
    BestEffort,
}

/// Settings that a reload may change.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the server in `serverInfo`.
    pub name: String,
    /// Version of the server in `serverInfo`.
    pub version: String,
    /// Backends, in configuration order.
    pub backends: Vec<BackendSettings>,
    /// Rules for merging their offers.
    pub rules: Rules,
    /// Behavior of lists when a backend is unavailable.
    pub partial_failure: PartialFailure,
    /// Health checks of the backends; `None` disables them.
    pub checks: Option<Checks>,
    /// Search in place of the list of tools; `None` lists all tools.
    pub optimizer: Option<OptimizerSettings>,
}

/// Search in place of the list of tools (seed section 2.9.8).
#[derive(Clone, Debug)]
pub struct OptimizerSettings {
    /// Number of results, and weight and threshold of semantic search.
    pub options: SearchOptions,
    /// Embedding service; `None` searches by keywords only.
    pub embedding: Option<EmbeddingSettings>,
}

/// Embedding service of the search.
#[derive(Clone, Debug)]
pub struct EmbeddingSettings {
    /// The service.
    pub service: EmbeddingService,
    /// Fingerprint of all settings of the service. With the same fingerprint, vectors are kept across a reload.
    pub fingerprint: u64,
}

/// Limits that are fixed for the lifetime of the process.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of sessions of stateful clients.
    pub sessions: usize,
    /// Idle timeout of a session.
    pub session_ttl: Duration,
    /// Maximum number of open streams of stateless clients (`subscriptions/listen`).
    pub listeners: usize,
    /// Maximum number of suspended calls of stateless clients.
    pub suspended_calls: usize,
    /// Maximum number of suspended calls per identity.
    pub suspended_calls_per_identity: usize,
    /// Timeout of a suspended call.
    pub suspension_timeout: Duration,
    /// Time for which a call of a session continues while its client is disconnected.
    pub detached_timeout: Duration,
    /// Maximum number of bytes buffered for disconnected clients. One client gets at most half of the bytes that the others
    /// leave.
    pub detached_bytes: usize,
    /// Maximum size of a backend's response that has to be buffered, in bytes.
    pub max_buffered_bytes: usize,
    /// Byte budget of the process that such responses are also charged to; `None` disables it.
    pub byte_budget: Option<ByteBudget>,
    /// Store of the runs of composite tools.
    pub workflow_store: Arc<dyn WorkflowStore>,
    /// Storage of the sessions of stateful clients, which replicas with the same key ring share. `None` keeps them in this process.
    pub session_storage: Option<Arc<dyn SessionStorage>>,
    /// Client for requests to other replicas, which have the same key ring; `None` forwards nothing.
    pub peers: Option<PeerClient>,
    /// Wall clock.
    pub clock: Clock,
}

impl Settings {
    /// Creates the settings of a server without backends. Its version is that of this crate.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            backends: Vec::new(),
            rules: Rules::default(),
            partial_failure: PartialFailure::Fail,
            checks: None,
            optimizer: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 10_000,
            session_ttl: Duration::from_mins(30),
            listeners: 4096,
            suspended_calls: 1024,
            suspended_calls_per_identity: 16,
            suspension_timeout: Duration::from_mins(10),
            detached_timeout: Duration::from_mins(10),
            detached_bytes: 32 << 20,
            max_buffered_bytes: 16 << 20,
            byte_budget: None,
            workflow_store: Arc::new(MemoryWorkflowStore::new(
                // Clients of tasks find the result for an hour.
                StoreLimits::default(),
                Clock::system(),
            )),
            session_storage: None,
            peers: None,
            clock: Clock::system(),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            conflicts: Conflicts::Prefix("{workload}_".to_owned()),
            exclude_all_tools: false,
            workloads: HashMap::new(),
            workflows: Vec::new(),
        }
    }
}
