//! The operator against an API server in memory.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "calls of helpers are shorter with `json!(..)` itself"
)]

mod bad_input;
mod changes;
mod command;
mod composite_tools;
mod conditions;
mod embedding_server;
mod events;
mod faults;
mod leadership;
mod members;
mod objects;
mod operator_roles;
mod optional_objects;
mod ownership;
mod plan;
mod program;
mod real_cluster;
mod refusals;
mod roles;
mod scale;
mod secrets;
mod shared_configs;
mod start;
mod status_fields;
mod support;
mod webhook;
mod workloads;
