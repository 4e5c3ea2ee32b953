//! Where Redis is, and who asks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::Tls;

/// Where Redis is, and who asks.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is.
    pub address: Address,
    /// Who asks.
    pub credentials: Credentials,
    /// TLS to Redis; `None` is plain text.
    pub tls: Option<Tls>,
    /// How long to wait.
    pub timeouts: Timeouts,
}

/// Where Redis is.
#[derive(Clone, Debug)]
pub enum Address {
    /// One server.
    Standalone(Node),
    /// Nodes of a cluster, of which one has to be reachable at the start. The others are found.
    Cluster(Vec<Node>),
    /// What Sentinel says.
    Sentinel(Sentinel),
}

/// A master under the watch of Sentinels.
#[derive(Clone, Debug)]
pub struct Sentinel {
    /// What the Sentinels call the master.
    pub master: String,
    /// Number of the database.
    pub database: u32,
    /// The Sentinels. A host name with several addresses stands for several of them.
    pub nodes: Vec<Node>,
    /// TLS to the Sentinels; `None` is plain text.
    pub tls: Option<Tls>,
}

/// A server.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    host: Arc<str>,
    port: u16,
}

/// Who asks. Never in a log, an error or `Debug`.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The ACL user; without one the password alone is given.
    pub user: Option<SecretString>,
    /// The password; without one nothing is given.
    pub password: Option<SecretString>,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, with all that it takes: name, TLS, authentication. Also for as long a command
    /// is sent again that was refused unseen, as it is during a failover.
    pub dial: Duration,
    /// For the answer to a command.
    pub read: Duration,
    /// For the server to take what is written.
    pub write: Duration,
}

// === impl Node ===

impl Node {
    /// The server at this host name or address, and port.
    #[must_use]
    pub fn new(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Its host name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
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
