#![doc = include_str!("../README.md")]

mod arguments;
mod reply;
mod revocations;
mod scripts;
mod steps;
mod store;

pub use store::{Namespace, NamespaceError, RedisStore, StartError};
