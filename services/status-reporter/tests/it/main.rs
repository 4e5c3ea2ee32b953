//! Reporters of several replicas against an API server in memory.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod faults;
mod leader;
mod support;
mod writes;
