//! What the service is told: backends, how their names are brought together, limits. Plain data that
//! whoever assembles the server fills from its configuration.

mod advice;
mod checks;
mod service;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use http::Uri;
use vmcp_breaker::CircuitHandle;
use vmcp_core::{Backend, ByteBudget};

pub use self::advice::Advice;
pub use self::checks::{Checks, Spread};
pub use self::service::{Around, BackendService, Sending};

/// One MCP server behind this one.
#[derive(Clone, Debug)]
pub struct BackendSettings {
    /// Its name, which prefixes its tools.
    pub backend: Backend,
    /// Its MCP endpoint.
    pub uri: Uri,
    /// How it is spoken to.
    pub transport: Transport,
    /// Whose its offer is.
    pub catalog: Sharing,
    /// What reaches it.
    pub service: BackendService,
    /// What is around that.
    pub around: Around,
    /// The breaker in that service, if it has one. With [`Transport::Sse`] the service has none: this one is put where the
    /// answers are seen, which come on another stream than the responses to the requests.
    pub breaker: Option<CircuitHandle>,
    /// What to tell the operator when it refuses the gateway's credentials.
    pub advice: Advice,
    /// How long to wait for each message of an answer that does not come as the response to the
    /// request: with [`Transport::Sse`], where `service` cannot bound it. Else it is not used.
    pub answer_within: Duration,
    /// Changes when anything that makes its sessions worthless changes: a backend whose fingerprint is
    /// the same survives a reload with its sessions and catalog.
    pub fingerprint: u64,
    /// Changes when the service is another one for any other reason, such as its timeout. One that is
    /// the same keeps its connections.
    pub tuning: u64,
}

/// How a backend is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// The deprecated HTTP+SSE transport of revision 2024-11-05.
    Sse,
    /// Streamable HTTP of either generation.
    StreamableHttp,
}

/// Whether all callers are offered the same by a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// It is asked with the gateway's own credential, or none: what it offers is for everybody.
    Shared,
    /// It is asked with a credential that depends on who calls. What it offers is fetched for each caller, in
    /// that caller's name, and shown to nobody else; anonymous callers are offered nothing of it.
    PerCaller,
}

/// How the backends' offers become one (seed section 2.9.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What happens to equal names.
    pub conflicts: Conflicts,
    /// Hides all tools; they stay routable for composite tools.
    pub exclude_all_tools: bool,
    /// Filters and overrides by backend name.
    pub workloads: HashMap<String, WorkloadRules>,
}

/// How equal names of several backends are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Each tool and prompt name gets a prefix; `{workload}` in it stands for the backend's name.
    Prefix(String),
    /// Names stay bare; of equal ones the backend that comes first here wins.
    Priority(Vec<String>),
    /// Names stay bare; equal ones are told apart by overrides or left out.
    Manual,
}

/// What is done to one backend's tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadRules {
    /// Hides all of its tools; they stay routable.
    pub exclude_all: bool,
    /// The names, after overrides, that are shown; `None` shows all.
    pub filter: Option<HashSet<String>>,
    /// Changes to single tools, by the backend's own name.
    pub overrides: HashMap<String, Override>,
}

/// What is changed in one tool's definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Override {
    /// A new name.
    pub name: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// Annotations to set, by their name in MCP; others stay as the backend has them.
    pub annotations: Vec<(&'static str, serde_json::Value)>,
}

/// What a list does when a backend has nothing to show (seed section 2.9.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialFailure {
    /// The list fails, naming the backend.
    Fail,
    /// The list shows the others.
    BestEffort,
}

/// Everything that a reload may change.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's name, as clients see it in `serverInfo`.
    pub name: String,
    /// The server's version, likewise.
    pub version: String,
    /// The backends, in the order of the configuration.
    pub backends: Vec<BackendSettings>,
    /// How their offers become one.
    pub rules: Rules,
    /// What a list does when a backend has nothing to show.
    pub partial_failure: PartialFailure,
    /// How the backends' health is watched; `None` does not watch it.
    pub checks: Option<Checks>,
}

/// What stays as it is while the process lives.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most sessions of stateful clients.
    pub sessions: usize,
    /// How long an unused session lives.
    pub session_ttl: Duration,
    /// The most open streams of stateless clients (`subscriptions/listen`).
    pub listeners: usize,
    /// The most calls that wait for a stateless client's answer, in all.
    pub parked: usize,
    /// The most calls that wait for one identity's answers.
    pub parked_per_identity: usize,
    /// How long such a call waits.
    pub parked_for: Duration,
    /// How long a call of a session goes on while its client is not connected.
    pub detached_for: Duration,
    /// The most bytes that wait for clients that are not connected, in all. One client gets at most half of what the others
    /// leave.
    pub detached_bytes: usize,
    /// The largest answer of a backend that has to be held in memory, in bytes.
    pub held_bytes: usize,
    /// The budget of the process that such answers count for as well; `None` is without one.
    pub buffered: Option<ByteBudget>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 10_000,
            session_ttl: Duration::from_secs(30 * 60),
            listeners: 4096,
            parked: 1024,
            parked_per_identity: 16,
            parked_for: Duration::from_secs(600),
            detached_for: Duration::from_secs(600),
            detached_bytes: 32 << 20,
            held_bytes: 16 << 20,
            buffered: None,
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            conflicts: Conflicts::Prefix("{workload}_".to_owned()),
            exclude_all_tools: false,
            workloads: HashMap::new(),
        }
    }
}
