#![doc = include_str!("../README.md")]

mod cluster;
mod dial;
mod fault;
mod link;
mod locate;
mod pool;
mod script;
mod sentinel;
mod settings;
mod stream;
mod subscription;
mod tls;

pub use fault::Fault;
pub use pool::{Again, Redis};
pub use redis::{Cmd, FromRedisValue, RedisWrite, ToRedisArgs, Value, cmd, from_redis_value};
pub use script::Script;
pub use settings::{Address, Credentials, Node, Sentinel, Settings, Timeouts};
pub use subscription::{Event, Subscription};
pub use tls::{Tls, TlsError};
