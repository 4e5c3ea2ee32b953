//! The program as it is shipped: what its commands print, what the server does with its configuration.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]
#![cfg_attr(
    not(feature = "demo"),
    allow(dead_code, reason = "only tests of the demo use some helpers")
)]

mod abuse;
mod audit;
mod auth_server;
mod authz;
mod collector;
mod configuration;
#[cfg(feature = "demo")]
mod demo;
mod diagnose;
mod doctor;
mod effects;
mod env_dir;
mod exposure;
mod floods;
mod health;
mod http;
mod incoming;
mod init;
mod inspect;
mod issuer;
mod log;
mod login;
mod mcp;
mod outgoing;
mod program;
mod reload;
mod replicas_example;
mod telemetry;
mod tools;
mod truncated;
mod usage;
mod validate;
mod workflow;
