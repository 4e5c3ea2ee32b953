//! Arguments of scripts.

use serde::Serialize;
use vmcp_auth_store::{Limits, StoreError, Timestamp};
use vmcp_redis::{RedisWrite, ToRedisArgs};

/// Largest integer that Lua represents exactly: as a time, about 280,000 years.
const MAX_LUA_INTEGER: u64 = (1 << 53) - 1;

/// Arguments of a script, after those of all scripts: the time, and the retention of revocations.
pub(crate) struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    pub(crate) fn new(now: Timestamp, limits: &Limits) -> Self {
        Self(Vec::with_capacity(12))
            .number(now.millis())
            .number(millis(limits.revocation_retention))
    }

    pub(crate) fn text(mut self, text: impl AsRef<[u8]>) -> Self {
        self.0.push(text.as_ref().to_vec());
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.text(number.min(MAX_LUA_INTEGER).to_string())
    }

    pub(crate) fn time(self, time: Timestamp) -> Self {
        self.number(time.millis())
    }

    pub(crate) fn duration(self, duration: std::time::Duration) -> Self {
        self.number(millis(duration))
    }

    pub(crate) fn record(self, record: &impl Serialize) -> Result<Self, StoreError> {
        json(record).map(|record| self.text(record))
    }
}

impl ToRedisArgs for Arguments {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        for argument in &self.0 {
            out.write_arg(argument);
        }
    }
}

/// Serializes a record.
pub(crate) fn json(record: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(|_| StoreError::Corrupt { what: "record" })
}

/// Joins parts of a key, each preceded by its length, so that no two lists yield the same key.
pub(crate) fn length_prefixed(parts: &[&str]) -> String {
    let append = |all: String, part: &&str| all + &part.len().to_string() + ":" + part + ":";
    parts.iter().fold(String::new(), append)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
