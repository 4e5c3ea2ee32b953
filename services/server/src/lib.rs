#![doc = include_str!("../README.md")]

mod auth_audit;
mod auth_server;
mod exposure;
mod file_mode;
mod json_response;
#[cfg_attr(not(feature = "kubernetes"), path = "kubernetes/unavailable.rs")]
mod kubernetes;
mod memory_gauges;
pub mod metrics;
pub mod parts;
mod paths;
mod readiness;
mod reloads;
pub mod request_log;
mod request_span;
mod routes;
pub mod serve;
mod session_storage;
pub mod stack;
mod stream_scope;
mod virtual_server;
mod workflow_runs;

/// Compiles and runs the examples of the project's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
