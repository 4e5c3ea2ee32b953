#![doc = include_str!("../README.md")]

mod accept_error;
mod address_limit;
mod connection;
mod connection_limit;
mod connections;
mod event_loop;
mod send_timeout;
mod serve;

pub use self::connection_limit::{ConnectionPermit, RESERVED_CONNECTIONS};
pub use self::connections::Connections;
pub use self::event_loop::QuietBody;
pub use self::serve::{ConnectionServer, Peer, serve_few};
