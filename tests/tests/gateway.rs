//! End-to-end tests of the shipped program: faulty clients and backends, restarts, isolation between callers, and
//! aggregation.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "gateway/aggregation.rs"]
mod aggregation;
#[path = "gateway/bad_input.rs"]
mod bad_input;
#[path = "gateway/canary.rs"]
mod canary;
#[path = "gateway/chaos.rs"]
mod chaos;
#[path = "gateway/common.rs"]
mod common;
#[path = "gateway/isolation.rs"]
mod isolation;
#[path = "gateway/reload.rs"]
mod reload;
#[path = "gateway/sessions.rs"]
mod sessions;
#[path = "gateway/tokens.rs"]
mod tokens;
