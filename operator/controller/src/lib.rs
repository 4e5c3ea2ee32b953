#![doc = include_str!("../README.md")]

mod apply;
mod dependencies;
mod environment;
mod identities;
mod key;
mod names;
mod queue;
mod server_checks;
mod store;
mod stores;
mod watch;

pub use environment::Environment;
pub use server_checks::ServerChecks;
