//! Guarantees of the client, most of which the clients of the `redis` crate do not give, against servers with scripted
//! responses.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cluster;
mod fake;
mod migration;
mod script;
mod sentinel;
mod standalone;
mod subscription;
mod tls;

use std::time::Duration;

use vmcp_redis::{Address, Credentials, Error, Idempotency, Redis, Settings, Timeouts, Value, cmd};

fn settings(address: Address) -> Settings {
    let limit = Duration::from_secs(10);
    Settings {
        address,
        credentials: Credentials::default(),
        tls: None,
        timeouts: Timeouts { dial: limit, read: limit, write: limit },
    }
}

/// Returns settings for commands that fail after all retries.
fn with_few_retries(address: Address) -> Settings {
    let settings = settings(address);
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..settings.timeouts };
    Settings { timeouts, ..settings }
}

/// Sends `INCR`, which must not be executed twice.
async fn increment(redis: &Redis, key: &str) -> Result<Value, Error> {
    redis.call(key, cmd("INCR").arg(key), Idempotency::NotIdempotent).await
}
