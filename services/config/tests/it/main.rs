//! The configuration from the outside: documents in, values or errors out.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod aggregation;
mod auth_server;
mod backends;
mod composite;
mod contradictions;
mod document;
mod incoming_auth;
mod leaves;
mod limits;
mod lossy;
mod operational;
mod outgoing_auth;
mod roundtrip;
mod schema;
mod sections;
mod smoke;
mod support;
mod survives;
mod warnings;
