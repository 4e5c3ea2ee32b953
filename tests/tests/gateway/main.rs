//! End-to-end tests of the shipped program: faulty clients and backends, restarts, isolation between callers, and
//! aggregation.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod aggregation;
mod bad_input;
mod canary;
mod chaos;
mod common;
mod composite_tools;
mod isolation;
mod reload;
mod replicas;
mod sessions;
mod tokens;
mod tool_search;
