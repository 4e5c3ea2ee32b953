#![doc = include_str!("../README.md")]

pub mod cli;
mod demo;
mod file_mode;
pub mod guard;
mod held;
mod logins;
mod old_clients;
pub mod parts;
pub mod request_log;
mod routes;
pub mod serve;
pub mod stack;
mod stream_scope;

/// Compiles and runs the examples of the project's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
