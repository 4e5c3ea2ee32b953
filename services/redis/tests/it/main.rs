//! Guarantees that the clients of the `redis` crate do not give, against servers with scripted responses.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cluster;
mod fake;
mod sentinel;
mod standalone;
mod tls;

use std::time::Duration;

use vmcp_redis::{Address, Credentials, Error, Idempotency, Redis, Settings, Timeouts, Value, cmd};

fn settings(address: Address) -> Settings {
    let second = Duration::from_secs(1);
    Settings {
        address,
        credentials: Credentials::default(),
        tls: None,
        timeouts: Timeouts { dial: second / 2, read: second * 10, write: second * 10 },
    }
}

/// Sends `INCR`, which must not be executed twice.
async fn increment(redis: &Redis, key: &str) -> Result<Value, Error> {
    redis.call(key, cmd("INCR").arg(key), Idempotency::NotIdempotent).await
}
