//! What an [`Egress`](crate::Egress) may use, as plain data.

use std::time::Duration;

/// Limits and deadlines of every client that one [`Egress`](crate::Egress) makes.
///
/// # Defaults
///
/// | field | default |
/// |---|---|
/// | `connect_timeout` | 10 s |
/// | `tls_timeout` | 10 s |
/// | `idle_timeout` | 90 s |
/// | `reap_interval` | 15 s |
/// | `max_idle_per_origin` | 256 |
/// | `max_connections_per_origin` | 1024 |
/// | `max_body` | 100 MiB |
/// | `max_head` | 64 KiB |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long name resolution and all attempts to connect may take together, and how long a
    /// request waits for a free connection.
    pub connect_timeout: Duration,
    /// How long the TLS handshake may take.
    pub tls_timeout: Duration,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// How often unused connections are looked at.
    pub reap_interval: Duration,
    /// How many unused connections one client keeps; a connection beyond is closed. Event loops
    /// ([`vmcp_core::plan_lanes`]) share them out evenly, rounded up.
    pub max_idle_per_origin: usize,
    /// How many exchanges, and so connections, one client has at the same time. Further ones wait
    /// in the order of their arrival.
    pub max_connections_per_origin: usize,
    /// How many bytes of a response's body are read. Event streams have no such end; see
    /// [`Incoming`](crate::Incoming).
    pub max_body: u64,
    /// How many bytes the status line and the headers of a response may have.
    pub max_head: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            tls_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(90),
            reap_interval: Duration::from_secs(15),
            max_idle_per_origin: 256,
            max_connections_per_origin: 1024,
            max_body: 100 * 1024 * 1024,
            max_head: 64 * 1024,
        }
    }
}
