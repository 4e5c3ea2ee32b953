#![doc = include_str!("../README.md")]

mod apply;
mod dependencies;
mod environment;
mod identities;
mod key;
mod names;
mod queue;
mod store;
mod stores;
mod watch;

pub use environment::Environment;
