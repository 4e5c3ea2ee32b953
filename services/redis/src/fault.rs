//! Why there is no answer.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::Node;

/// Why there is no answer. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The host has no address.
    #[error("the Redis host of {node} cannot be resolved: {reason}")]
    Resolve {
        /// Which server.
        node: Node,
        /// What the resolver says.
        reason: Arc<str>,
    },
    /// Nobody answers there.
    #[error("no connection to Redis at {node}: {reason}")]
    Dial {
        /// Which server.
        node: Node,
        /// What the system says.
        reason: Arc<str>,
    },
    /// There is no trust in who answers, or it doesn't speak TLS.
    #[error("no TLS with Redis at {node}: {reason}; check its certificate and the CA")]
    Tls {
        /// Which server.
        node: Node,
        /// What is wrong.
        reason: Arc<str>,
    },
    /// It answers too slowly.
    #[error("Redis at {node} did not answer within the timeout")]
    Slow {
        /// Which server.
        node: Node,
    },
    /// It doesn't know the user, or not with this password.
    #[error("Redis at {node} refuses the user or password")]
    Credentials {
        /// Which server.
        node: Node,
    },
    /// The user may not do this.
    #[error(
        "Redis at {node} denies a command that is needed: {reason}; extend the ACL of the user"
    )]
    Denied {
        /// Which server.
        node: Node,
        /// What the server says.
        reason: Arc<str>,
    },
    /// The Sentinels watch no master of this name.
    #[error("the Sentinel at {node} knows no master {master:?}")]
    UnknownMaster {
        /// Which Sentinel.
        node: Node,
        /// The name.
        master: Arc<str>,
    },
    /// Who was named as the master says that it is none, as during a failover.
    #[error("Redis at {node} is no master at the moment")]
    NoMaster {
        /// Which server.
        node: Node,
    },
    /// It is no cluster.
    #[error("Redis at {node} is not in cluster mode")]
    NoCluster {
        /// Which server.
        node: Node,
    },
    /// No node serves the key.
    #[error("no node of the Redis cluster serves slot {slot} at the moment")]
    NoNode {
        /// Which of the 16384 slots.
        slot: u16,
    },
    /// The connection broke while the answer was waited for: whether the command was executed is
    /// not known.
    #[error("the connection to Redis at {node} broke")]
    Lost {
        /// Which server.
        node: Node,
    },
    /// The server refuses the command.
    #[error("Redis at {node} refuses a command: {code}")]
    Refused {
        /// Which server.
        node: Node,
        /// The error's code, such as `OOM`.
        code: Arc<str>,
    },
    /// The answer is of another form than the command's.
    #[error("Redis at {node} answers in a form that is not the command's")]
    Strange {
        /// Which server.
        node: Node,
    },
}

impl Fault {
    /// Whether trying again later may help without anybody changing anything.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        match self {
            Self::Resolve { .. }
            | Self::Dial { .. }
            | Self::Slow { .. }
            | Self::NoMaster { .. }
            | Self::NoNode { .. }
            | Self::Lost { .. }
            | Self::Refused { .. } => true,
            Self::Tls { .. }
            | Self::Credentials { .. }
            | Self::Denied { .. }
            | Self::UnknownMaster { .. }
            | Self::NoCluster { .. }
            | Self::Strange { .. } => false,
        }
    }

    /// What a command failed with. The server's own words are kept only where they name neither keys
    /// nor values.
    pub(crate) fn of(error: &RedisError, node: &Node) -> Self {
        let node = node.clone();
        match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
                Self::Credentials { node }
            }
            (ErrorKind::Server(ServerErrorKind::NoPerm), _) => {
                Self::Denied { node, reason: error.detail().unwrap_or_default().into() }
            }
            (ErrorKind::Server(_) | ErrorKind::Extension, code) => {
                Self::Refused { node, code: code.unwrap_or("ERR").into() }
            }
            (ErrorKind::Io, _) if error.is_timeout() => Self::Slow { node },
            (ErrorKind::Io, _) => Self::Lost { node },
            _ => Self::Strange { node },
        }
    }
}
