//! Sessions of clients in Redis.

mod contract;
mod failover;
mod failures;
mod fixtures;
mod forwarding;
mod late_start;
mod losses;
mod proxy;
mod settings;
mod tombstones;
mod trips;
mod unreadable;
