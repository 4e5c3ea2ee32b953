//! Errors of the client.

use std::io;
use std::net::SocketAddr;

use vmcp_core::BoxError;

/// Error of a text that should name a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// No replica with this key ring sealed the text.
    #[error("the handle was not sealed by a replica of this server")]
    Invalid,
    /// The replica's port is not the port of peers.
    #[error("the port {0} of the handle is not the port of peers")]
    Port(u16),
}

/// Error of a request to another replica.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The address is outside the permitted networks. Nothing was sent.
    #[error("the replica's address {0} is outside the networks of peers")]
    NotPermitted(SocketAddr),
    /// The name of the Service could not be resolved. Nothing was sent.
    #[error("failed to resolve {name}: {source}")]
    Unresolved {
        /// Name of the Service.
        name: Box<str>,
        /// Error of the resolver.
        source: io::Error,
    },
    /// No connection in time. Nothing was sent.
    #[error("failed to connect to the replica at {address}: {source}")]
    Unreachable {
        /// Address of the replica.
        address: SocketAddr,
        /// Error of the connection.
        source: io::Error,
    },
    /// Another process has the address now. Nothing was sent.
    #[error("another process has the replica's address {0} now")]
    OtherProcess(SocketAddr),
    /// The other process did not prove that it has the key ring. Nothing was sent.
    #[error("the process at {0} did not prove the key ring of this server")]
    NotProven(SocketAddr),
    /// Too many requests to replicas are in flight. Nothing was sent.
    #[error("too many requests to replicas are in flight")]
    Overloaded,
    /// The connection ended before the response. The replica may have processed the request.
    #[error("the connection to the replica ended before its response: {0}")]
    Interrupted(BoxError),
}

impl ForwardError {
    /// Returns `true` if the replica may have received the request.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        matches!(self, Self::Interrupted(_))
    }

    /// Returns `true` if the process that the handle names cannot be reached, as opposed to a limit of this one.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            // A Service forgets the addresses of replicas that are gone.
            Self::NotPermitted(_)
            | Self::Unreachable { .. }
            | Self::OtherProcess(_)
            | Self::NotProven(_) => true,
            Self::Unresolved { .. } | Self::Overloaded | Self::Interrupted(_) => false,
        }
    }
}
