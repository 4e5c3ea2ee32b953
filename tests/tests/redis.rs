//! The authorization server's state in a real Redis: one server, a cluster, and Sentinel.
//!
//! A single test program installs Redis once. See `vmcp_tests::counterparts`.

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
