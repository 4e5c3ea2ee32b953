//! Settings of an [`Egress`](crate::Egress).

use std::time::Duration;

/// Limits and timeouts of every client of an [`Egress`](crate::Egress).
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
    /// Timeout for name resolution with all attempts to connect, and for the wait for a free
    /// connection.
    pub connect_timeout: Duration,
    /// Timeout of the TLS handshake.
    pub tls_timeout: Duration,
    /// Time after which an idle connection is closed.
    pub idle_timeout: Duration,
    /// Interval between checks of idle connections.
    pub reap_interval: Duration,
    /// Maximum number of idle connections of one client; further ones are closed. Event loops
    /// ([`vmcp_core::set_worker_count`]) share them evenly, rounded up.
    pub max_idle_per_origin: usize,
    /// Maximum number of concurrent exchanges, and so of connections, of one client. Further ones
    /// wait in the order of arrival.
    pub max_connections_per_origin: usize,
    /// Maximum size of a response body in bytes. Event streams are not limited; see
    /// [`Incoming`](crate::Incoming).
    pub max_body: u64,
    /// Maximum size of the status line and the headers of a response in bytes.
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
