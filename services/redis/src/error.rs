//! Why there is no answer.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::Node;

/// Why there is no answer. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
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
    Connect {
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
    Timeout {
        /// Which server.
        node: Node,
    },
    /// It doesn't know the user, or not with this password.
    #[error("Redis at {node} refuses the user or password")]
    InvalidCredentials {
        /// Which server.
        node: Node,
    },
    /// The user may not do this.
    #[error(
        "Redis at {node} denies a command that is needed: {reason}; extend the ACL of the user"
    )]
    PermissionDenied {
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
    NotMaster {
        /// Which server.
        node: Node,
    },
    /// It is no cluster.
    #[error("Redis at {node} is not in cluster mode")]
    ClusterDisabled {
        /// Which server.
        node: Node,
    },
    /// No node serves the key.
    #[error("no node of the Redis cluster serves slot {slot} at the moment")]
    SlotUnassigned {
        /// Which of the 16384 slots.
        slot: u16,
    },
    /// The connection broke while the answer was waited for: whether the command was executed is
    /// not known.
    #[error("the connection to Redis at {node} broke")]
    ConnectionLost {
        /// Which server.
        node: Node,
    },
    /// The server refuses the command.
    #[error("Redis at {node} refuses a command: {code}")]
    CommandFailed {
        /// Which server.
        node: Node,
        /// The error's code, such as `OOM`.
        code: Arc<str>,
    },
    /// The answer is of another form than the command's.
    #[error("Redis at {node} answers in a form that is not the command's")]
    UnexpectedResponse {
        /// Which server.
        node: Node,
    },
}

impl Error {
    /// Whether trying again later may help without anybody changing anything.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::NotMaster { .. }
            | Self::SlotUnassigned { .. }
            | Self::ConnectionLost { .. }
            | Self::CommandFailed { .. } => true,
            Self::Tls { .. }
            | Self::InvalidCredentials { .. }
            | Self::PermissionDenied { .. }
            | Self::UnknownMaster { .. }
            | Self::ClusterDisabled { .. }
            | Self::UnexpectedResponse { .. } => false,
        }
    }

    /// What a command failed with. The server's own words are kept only where they name neither keys
    /// nor values.
    pub(crate) fn from_redis(error: &RedisError, node: &Node) -> Self {
        let node = node.clone();
        match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
                Self::InvalidCredentials { node }
            }
            (ErrorKind::Server(ServerErrorKind::NoPerm), _) => {
                Self::PermissionDenied { node, reason: error.detail().unwrap_or_default().into() }
            }
            (ErrorKind::Server(_) | ErrorKind::Extension, code) => {
                Self::CommandFailed { node, code: code.unwrap_or("ERR").into() }
            }
            (ErrorKind::Io, _) if error.is_timeout() => Self::Timeout { node },
            (ErrorKind::Io, _) => Self::ConnectionLost { node },
            _ => Self::UnexpectedResponse { node },
        }
    }
}
