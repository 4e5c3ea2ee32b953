#![doc = include_str!("../README.md")]

mod arguments;
mod health;
mod held;
mod reply;
mod scripts;
mod sealed;
mod steps;
mod store;
mod writer;

pub use self::health::StoreState;
pub use self::store::{RedisWorkflowStore, Settings, StartError};
