//! Tests of the gateway with real MCP clients and servers, and with the conformance suite.
//!
//! A single test program installs the counterparts once. See `vmcp_tests::counterparts`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod apps;
mod auth_server;
mod aws_sts;
mod change;
mod clients;
mod composite_questions;
mod composite_servers;
mod conformance;
mod doctor;
mod embeddings;
mod failover;
mod fixture;
mod generated_objects;
mod identity;
mod import;
mod issuing;
mod login;
mod old_transport;
mod otlp;
mod own_issuer;
mod pages;
mod questions;
mod redis_at_start;
mod replicas;
mod scale_out;
mod servers;
mod tasks;
mod token_exchange;
mod tool_search;
mod upstream;
