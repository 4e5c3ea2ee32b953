//! Tests of the gateway with real MCP clients and servers, and with the conformance suite.
//!
//! A single test program installs the counterparts once. See `vmcp_tests::counterparts`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "real/apps.rs"]
mod apps;
#[path = "real/auth_server.rs"]
mod auth_server;
#[path = "real/aws_sts.rs"]
mod aws_sts;
#[path = "real/change.rs"]
mod change;
#[path = "real/clients.rs"]
mod clients;
#[path = "real/conformance.rs"]
mod conformance;
#[path = "real/doctor.rs"]
mod doctor;
#[path = "real/failover.rs"]
mod failover;
#[path = "real/fixture.rs"]
mod fixture;
#[path = "real/identity.rs"]
mod identity;
#[path = "real/import.rs"]
mod import;
#[path = "real/issuing.rs"]
mod issuing;
#[path = "real/login.rs"]
mod login;
#[path = "real/old_transport.rs"]
mod old_transport;
#[path = "real/otlp.rs"]
mod otlp;
#[path = "real/own_issuer.rs"]
mod own_issuer;
#[path = "real/pages.rs"]
mod pages;
#[path = "real/questions.rs"]
mod questions;
#[path = "real/replicas.rs"]
mod replicas;
#[path = "real/servers.rs"]
mod servers;
#[path = "real/tasks.rs"]
mod tasks;
#[path = "real/token_exchange.rs"]
mod token_exchange;
#[path = "real/upstream.rs"]
mod upstream;
