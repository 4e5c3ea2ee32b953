#![doc = include_str!("../README.md")]

mod body;
mod client;
mod connect;
mod counts;
mod error;
mod forwarded;
mod handle;
mod identity;
mod listener;
mod networks;
mod pool;
mod proof;

pub use self::{
    client::{PeerClient, PeerSettings},
    counts::PeerCounts,
    error::{ForwardError, HandleError},
    forwarded::Forwarded,
    handle::ReplicaHandle,
    identity::{IdentityError, PeerIdentity},
    listener::{PeerConnections, PeerListener},
    networks::{NetworkError, PeerNetwork, PeerNetworks},
};
