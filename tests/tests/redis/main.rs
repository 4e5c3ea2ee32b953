//! The authorization server's state, sessions of clients and runs of composite tools in a real Redis: one server, a cluster, and
//! Sentinel.
//!
//! A single test program installs Redis once. See `vmcp_tests::counterparts`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod contract;
mod documents;
mod failover;
mod fixtures;
mod issuers;
mod sessions;
mod settings;
mod trips;
mod unreadable;
mod workflows;
