//! Errors of the client.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
#[derive(Clone, Debug, thiserror::Error)]
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
        source: Arc<io::Error>,
    },
    /// No process listens at the address, or there is no route to it. Nothing was sent.
    #[error("no process listens at the replica's address {address}: {source}")]
    NoListener {
        /// Address of the replica.
        address: SocketAddr,
        /// Error of the connection.
        source: Arc<io::Error>,
    },
    /// Another process has the address now. Nothing was sent.
    #[error("another process has the replica's address {0} now")]
    OtherProcess(SocketAddr),
    /// No connection in time, or it was closed before the proofs. Nothing was sent.
    #[error("failed to connect to the replica at {address}: {source}")]
    Unreachable {
        /// Address of the replica.
        address: SocketAddr,
        /// Error of the connection.
        source: Arc<io::Error>,
    },
    /// The replica did not prove that it has the key ring, or did not accept the proof of this one. Nothing was sent.
    #[error("the replica at {0} has another key ring, or too many connections")]
    NotProven(SocketAddr),
    /// Too many requests to replicas are in flight. Nothing was sent.
    #[error("too many requests to replicas are in flight")]
    Overloaded,
    /// The connection ended before the response. The replica may have processed the request.
    #[error("the connection to the replica ended before its response: {0}")]
    Interrupted(Arc<dyn Error + Send + Sync>),
    /// The replica did not acknowledge a ping. It may have processed the request, or may process it later.
    #[error("the replica at {0} does not respond to pings")]
    Unresponsive(SocketAddr),
    /// No response in time. The replica may have processed the request, or may process it later.
    #[error("the replica at {address} sent no response within {limit:?}")]
    ResponseTimeout {
        /// Address of the replica.
        address: SocketAddr,
        /// Time for the head of the response.
        limit: Duration,
    },
}

impl ForwardError {
    /// Returns `true` if the replica may have received the request.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::Unresponsive(_) | Self::ResponseTimeout { .. })
    }

    /// Returns `true` if the process that the handle names has ended, as far as can be told. A process that is only slow, stopped or
    /// overloaded is not gone: a later request may succeed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            // A Service forgets the addresses of replicas that are gone.
            Self::NotPermitted(_) | Self::NoListener { .. } | Self::OtherProcess(_) => true,
            // The process with the key is there, even if it does not prove the ring.
            Self::NotProven(_)
            | Self::Unreachable { .. }
            | Self::Unresolved { .. }
            | Self::Overloaded
            | Self::Interrupted(_)
            | Self::Unresponsive(_)
            | Self::ResponseTimeout { .. } => false,
        }
    }
}
