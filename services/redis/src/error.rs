//! Errors of connections and commands.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::Node;

/// Error of a connection or a command. Contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The host name does not resolve.
    #[error("failed to resolve the Redis host of {node}: {reason}")]
    Resolve {
        /// Server.
        node: Node,
        /// Cause, as reported by the resolver.
        reason: Arc<str>,
    },
    /// The server does not accept connections.
    #[error("failed to connect to Redis at {node}: {reason}")]
    Connect {
        /// Server.
        node: Node,
        /// Cause, as reported by the operating system.
        reason: Arc<str>,
    },
    /// The certificate is not trusted, or the server does not speak TLS.
    #[error(
        "failed to establish TLS with Redis at {node}: {reason}; check its certificate and the CA"
    )]
    Tls {
        /// Server.
        node: Node,
        /// Cause, as reported by the TLS library.
        reason: Arc<str>,
    },
    /// The server did not respond in time.
    #[error("Redis at {node} did not respond within the timeout")]
    Timeout {
        /// Server.
        node: Node,
    },
    /// The user is unknown or the password is wrong.
    #[error("Redis at {node} rejected the user or password")]
    InvalidCredentials {
        /// Server.
        node: Node,
    },
    /// The ACL of the user does not permit the command.
    #[error("Redis at {node} denied a required command: {reason}; extend the ACL of the user")]
    PermissionDenied {
        /// Server.
        node: Node,
        /// Reason, as reported by the server.
        reason: Arc<str>,
    },
    /// The Sentinel monitors no master of this name.
    #[error("the Sentinel at {node} monitors no master named {master:?}")]
    UnknownMaster {
        /// Sentinel.
        node: Node,
        /// Name of the master.
        master: Arc<str>,
    },
    /// The server that was reported as the master is a replica, as happens during a failover.
    #[error("Redis at {node} is currently not a master")]
    NotMaster {
        /// Server.
        node: Node,
    },
    /// The server does not run in cluster mode.
    #[error("Redis at {node} is not in cluster mode")]
    ClusterDisabled {
        /// Server.
        node: Node,
    },
    /// No node serves the slot of the key.
    #[error("no node of the Redis cluster currently serves slot {slot}")]
    SlotUnassigned {
        /// Slot, of 16384.
        slot: u16,
    },
    /// The connection broke before the response arrived. The server may have executed the command.
    #[error("lost the connection to Redis at {node}")]
    ConnectionLost {
        /// Server.
        node: Node,
    },
    /// The server rejected the command.
    #[error("Redis at {node} rejected a command: {code}")]
    CommandFailed {
        /// Server.
        node: Node,
        /// Error code, such as `OOM`.
        code: Arc<str>,
    },
    /// The response does not have the form that the command defines.
    #[error("Redis at {node} sent an unexpected response")]
    UnexpectedResponse {
        /// Server.
        node: Node,
    },
}

impl Error {
    /// Returns whether a later retry may succeed without a change of configuration.
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

    /// Returns whether the server is away for a time: unreachable, starting or failing over. All other errors at startup call for a
    /// change of configuration.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::CommandFailed { code, .. } => {
                matches!(&**code, "LOADING" | "BUSY" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN")
            }
            error => error.is_temporary(),
        }
    }

    /// Converts an error of the `redis` crate. Keeps the server's message only where it contains
    /// neither keys nor values.
    pub(crate) fn from_redis(error: &RedisError, node: &Node) -> Self {
        let node = node.clone();
        match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
                Self::InvalidCredentials { node }
            }
            // Redis reads no command with many arguments before it knows the user.
            (_, Some("ERR")) if is_unauthenticated(error) => Self::InvalidCredentials { node },
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

fn is_unauthenticated(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.starts_with("Protocol error: unauthenticated"))
}
