//! Settings of a client: address, credentials, TLS, timeouts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::Tls;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Server, cluster or Sentinels.
    pub address: Address,
    /// User and password.
    pub credentials: Credentials,
    /// TLS to Redis; `None` means plain text.
    pub tls: Option<Tls>,
    /// Timeouts of connections and commands.
    pub timeouts: Timeouts,
}

/// Deployment mode with the addresses that it needs.
#[derive(Clone, Debug)]
pub enum Address {
    /// One server, with its database 0.
    Standalone(Node),
    /// One server, with the database of this number.
    Database(Node, u32),
    /// Seed nodes of a cluster. At least one has to be reachable at startup; it reports the others.
    Cluster(Vec<Node>),
    /// Sentinels that report the master.
    Sentinel(Sentinel),
}

/// Master that Sentinels monitor.
#[derive(Clone, Debug)]
pub struct Sentinel {
    /// Name of the master in the configuration of the Sentinels.
    pub master: String,
    /// Number of the database.
    pub database: u32,
    /// Sentinels. A host name with several addresses represents several of them.
    pub nodes: Vec<Node>,
    /// TLS to the Sentinels; `None` means plain text.
    pub tls: Option<Tls>,
}

/// Host and port of a server.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    host: Arc<str>,
    port: u16,
}

/// User and password. They never appear in logs, errors or `Debug` output.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// ACL user; `None` authenticates with the password alone.
    pub user: Option<SecretString>,
    /// Password; `None` disables authentication.
    pub password: Option<SecretString>,
}

/// Timeouts of connections and commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to resolve, connect, negotiate TLS and authenticate. Also the total time for retries of
    /// a command that the server rejected without executing it, as during a failover.
    pub dial: Duration,
    /// Time to wait for the response to a command.
    pub read: Duration,
    /// Time for the server to accept written bytes.
    pub write: Duration,
}

// === impl Node ===

impl Node {
    /// Creates a node from a host name or address, and a port.
    #[must_use]
    pub fn new(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Returns the host name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_credentials() {
        let secret = || Some(SecretString::from("canary"));
        let settings = Settings {
            address: Address::Standalone(Node::new("::1", 6379)),
            credentials: Credentials { user: secret(), password: secret() },
            tls: None,
            timeouts: Timeouts {
                dial: Duration::from_secs(5),
                read: Duration::from_secs(3),
                write: Duration::from_secs(3),
            },
        };
        let redis = crate::Redis::connect_lazy(settings.clone());
        let printed = format!("{settings:?} {redis:?}");
        assert!(printed.contains("[::1]:6379") && !printed.contains("canary"), "{printed}");
    }
}
