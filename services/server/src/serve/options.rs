//! Listeners and limits of a server.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use vmcp_aggregate::settings::Limits;
use vmcp_seal::SealKeyFiles;

use super::PeerOptions;
use crate::parts::{AuditOptions, Environment};
use crate::routes::AdminToken;
use crate::virtual_server::VirtualServer;

/// Listeners and limits of a server. The configuration holds all other settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the main listener.
    pub address: SocketAddr,
    /// Accepted hosts besides those of the loopback interface.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may send requests.
    pub allowed_origins: Vec<String>,
    /// Additional address for `/status`, `/metrics` and `/api/backends/health`. The default for a server on a network
    /// address is 127.0.0.1:4484.
    pub admin_address: Option<SocketAddr>,
    /// Token for these endpoints. Without a token, a main listener on a network address serves only `/metrics`.
    pub admin_token: Option<AdminToken>,
    /// Accept requests from other machines with `incomingAuth` of type `anonymous`.
    pub allow_anonymous_network: bool,
    /// Maximum number of connections. 256 more are accepted for `/livez` and `/readyz`; other requests on them get 503.
    pub connections: usize,
    /// Maximum number of concurrent requests.
    pub requests: usize,
    /// Maximum size of a client's message, in bytes.
    pub message_bytes: usize,
    /// Maximum number of bytes in buffered messages, apart from messages of up to 4 KiB. One caller may take half of
    /// the bytes that other callers leave. At least twice `message_bytes`.
    pub buffered_bytes: usize,
    /// Time that connections and tasks of composite tools get to finish after the signal to stop.
    pub drain: Duration,
    /// Number of worker threads, each with its own connections. `None` handles requests on the runtime that runs the
    /// server. Call [`vmcp_core::set_worker_count`] with this number before the parts are built; otherwise the workers share
    /// connections to backends.
    pub threads: Option<NonZeroUsize>,
    /// Files with keys that seal what clients carry between requests, the newest first (see [`vmcp_seal::KeyRing`]). Without keys, the
    /// process generates a random one that no other replica knows.
    pub seal_keys: SealKeyFiles,
    /// Forwarding of requests between replicas with the same keys; `None` forwards nothing.
    pub peers: Option<PeerOptions>,
    /// VirtualMCPServer that the server is a replica of. With it, [`Server::watch`](super::Server::watch) also follows the
    /// resources of the cluster.
    pub virtual_server: Option<VirtualServer>,
    /// Values of the variables that the configuration names, for reloads. The same as for the parts.
    pub environment: Environment,
    /// Audit options.
    pub audit_options: AuditOptions,
    /// Limits of the aggregating service.
    pub limits: Limits,
    /// Function that switches the debug log on or off after a reload (`operational.logLevel`). By default, the level of
    /// the log is left to the program that runs the server.
    pub set_debug: fn(bool),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 4483)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            admin_address: None,
            admin_token: None,
            allow_anonymous_network: false,
            connections: 4096,
            requests: 4096,
            message_bytes: 8 << 20,
            buffered_bytes: 128 << 20,
            drain: Duration::from_secs(10),
            threads: None,
            seal_keys: SealKeyFiles::default(),
            peers: None,
            virtual_server: None,
            environment: Environment::default(),
            audit_options: AuditOptions::default(),
            limits: Limits::default(),
            set_debug: |_| {},
        }
    }
}
