//! The definitions from the outside: what the API server is told, and what it then admits.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod bounds;
mod cost;
mod definitions;
mod manifests;
mod rules;
mod support;
