#![doc = include_str!("../README.md")]

mod client;
mod cluster;
mod connection;
mod dialer;
mod error;
mod locator;
mod script;
mod sentinel;
mod settings;
mod subscription;
mod tls;

pub use client::{Idempotency, Redis};
pub use error::Error;
pub use redis::{Cmd, FromRedisValue, RedisWrite, ToRedisArgs, Value, cmd, from_redis_value};
pub use script::Script;
pub use settings::{Address, Credentials, Node, Sentinel, Settings, Timeouts};
pub use subscription::{Event, Subscription};
pub use tls::{Tls, TlsError};
