//! Conversion of the configuration into the components of the server. Each conversion destructures its section without
//! `..`, so that a new field does not compile until it is used.

mod aggregation;
mod audit;
mod auth_server;
mod backends;
mod builder;
mod configured_hosts;
mod credential_advice;
mod credentials;
mod discovered;
mod embedded_issuer;
mod environment;
mod error;
mod failures;
mod headers;
mod incoming_auth;
mod left_out;
mod optimizer;
mod policy_evaluator;
mod redis;
mod secret_files;
mod session_storage;
mod telemetry;
mod unsupported;

use vmcp_aggregate::settings::Settings;
use vmcp_config::Warning;

pub(crate) use self::audit::AuditPipeline;
pub use self::audit::{AuditOptions, AuditParts};
pub(crate) use self::auth_server::ObservedProvider;
pub use self::auth_server::{
    AuthServerParts, AuthServerReport, ProviderStatus, StorageError, StorageStatus,
};
pub use self::backends::transport_name;
pub use self::builder::PartsBuilder;
pub(crate) use self::discovered::{DiscoveredBackends, discovers_backends};
pub(crate) use self::embedded_issuer::IssuerSessions;
pub use self::environment::Environment;
pub use self::error::PartsError;
pub use self::incoming_auth::IncomingAuth;
pub use self::left_out::{LeftOutBackend, LeftOutReason};
pub use self::policy_evaluator::PolicyEvaluator;
pub use self::session_storage::{SessionStorageError, SessionStorageParts};
pub use self::telemetry::{TelemetryParts, telemetry_error};
pub use self::unsupported::UnsupportedSetting;
use crate::memory_gauges::MemoryGauges;

/// Components of a server, built from one configuration.
#[derive(Debug)]
pub struct Parts {
    /// Settings of the aggregating service.
    pub settings: Settings,
    /// Authentication and authorization of incoming requests.
    pub incoming_auth: IncomingAuth,
    /// Audit recording; `None` disables it.
    pub audit: Option<AuditParts>,
    /// Started telemetry; `None` if neither metrics nor traces are recorded.
    pub telemetry: Option<TelemetryParts>,
    /// Embedded authorization server, if one is configured.
    pub auth_server: Option<AuthServerParts>,
    /// Storage of sessions and runs that replicas share, if one is configured.
    pub session_storage: Option<SessionStorageParts>,
    /// Settings that are valid but probably unintended.
    pub warnings: Vec<Warning>,
    /// Description of the configuration for `/status`.
    pub info: ServerInfo,
    /// `true` for debug logging.
    pub debug: bool,
    /// Gauges of the credential caches.
    pub(crate) gauges: MemoryGauges,
}

/// Description of the configuration for `/status` and `inspect`.
#[derive(Clone, Debug, Default)]
pub struct ServerInfo {
    /// Name of the server.
    pub name: String,
    /// Group of the backends.
    pub group: String,
    /// `metadata` of the server.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// `true` if lists fail while a backend has not responded (`partialFailureMode: fail`).
    pub is_strict: bool,
    /// Descriptions by backend name.
    pub backends: std::collections::BTreeMap<String, BackendInfo>,
    /// Backends that are left out, with the reasons.
    pub left_out: Vec<LeftOutBackend>,
    /// `true` if the backends are discovered in a cluster.
    pub is_discovered: bool,
    /// Interval between two reports about the backends in the status of the VirtualMCPServer.
    pub report_interval: std::time::Duration,
}

/// Description of one backend's configuration.
#[derive(Clone, Debug, Default)]
pub struct BackendInfo {
    /// URL without credentials and query.
    pub url: String,
    /// `true` for a backend of `type: entry`.
    pub entry: bool,
    /// Strategy of outgoing authentication.
    pub auth: &'static str,
    /// Its metadata, with `group` set by the server.
    pub metadata: std::collections::BTreeMap<String, String>,
}

impl ServerInfo {
    /// Returns `false` if the server has no backend of this name, and will not discover one.
    fn may_have(&self, backend: &str) -> bool {
        self.is_discovered || self.backends.contains_key(backend)
    }
}
