#![doc = include_str!("../README.md")]

mod arguments;
mod health;
mod held_streams;
mod inner;
mod listener;
mod message;
mod record;
mod replica;
mod reply;
mod scripts;
mod start;
mod steps;
mod storage;

pub use self::health::StorageState;
pub use self::start::{Settings, StartError};
pub use self::storage::RedisSessionStorage;
