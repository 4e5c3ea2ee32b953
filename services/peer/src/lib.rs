#![doc = include_str!("../README.md")]

mod body;
mod client;
mod connect;
mod counts;
mod error;
mod forwarded;
mod handle;
mod identity;
mod known;
mod listener;
mod networks;
mod pool;
mod proof;
mod transport;
mod unproven;

pub use self::{
    client::{ForwardOptions, PeerClient, PeerSettings},
    counts::PeerCounts,
    error::{ForwardError, HandleError},
    forwarded::Forwarded,
    handle::ReplicaHandle,
    identity::{IdentityError, PeerIdentity},
    listener::{PeerConnections, PeerListener},
    networks::{NetworkError, PeerNetwork, PeerNetworks},
};
