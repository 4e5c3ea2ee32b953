//! What the authorization server remembers, in a real Redis: one server, a cluster, and what Sentinel says.
//!
//! One test program for all of them, so that Redis is installed once. See `vmcp_tests::counterparts`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "redis/contract.rs"]
mod contract;
#[path = "redis/documents.rs"]
mod documents;
#[path = "redis/failover.rs"]
mod failover;
#[path = "redis/given.rs"]
mod fixtures;
#[path = "redis/issuers.rs"]
mod issuers;
#[path = "redis/settings.rs"]
mod settings;
#[path = "redis/trips.rs"]
mod trips;
#[path = "redis/unreadable.rs"]
mod unreadable;
