//! Arguments of scripts.

use std::time::Duration;

use vmcp_compose::StoreLimits;
use vmcp_core::Clock;
use vmcp_redis::{RedisWrite, ToRedisArgs};

/// Largest integer that Lua represents exactly.
const MAX_LUA_INTEGER: u64 = (1 << 53) - 1;

/// Longest lease or lifetime: a hundred years, far from the largest integer.
const MAX_DURATION: Duration = Duration::from_hours(100 * 365 * 24);

/// Arguments of a script, after those of all scripts: the time that is added to that of Redis, and the limits.
#[derive(Clone)]
pub(crate) struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    pub(crate) fn new(clock: &Clock, limits: &StoreLimits) -> Self {
        let StoreLimits {
            max_runs,
            max_runs_per_owner,
            max_bytes,
            max_bytes_per_owner,
            lease,
            lifetime,
            ended_lifetime,
        } = *limits;
        Self(Vec::with_capacity(20))
            .duration(clock.advanced())
            .duration(lease)
            .duration(lifetime)
            .duration(ended_lifetime)
            .size(max_runs)
            .size(max_runs_per_owner)
            .size(max_bytes)
            .size(max_bytes_per_owner)
    }

    pub(crate) fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.push(bytes.into());
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.bytes(number.min(MAX_LUA_INTEGER).to_string())
    }

    pub(crate) fn size(self, size: usize) -> Self {
        self.number(u64::try_from(size).unwrap_or(u64::MAX))
    }

    /// Appends an index, -1 for none.
    pub(crate) fn index(self, index: Option<usize>) -> Self {
        match index {
            Some(index) => self.size(index),
            None => self.bytes("-1"),
        }
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.bytes(if flag { "1" } else { "0" })
    }

    fn duration(self, duration: Duration) -> Self {
        self.number(u64::try_from(duration.min(MAX_DURATION).as_millis()).unwrap_or(u64::MAX))
    }
}

impl ToRedisArgs for Arguments {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        for argument in &self.0 {
            out.write_arg(argument);
        }
    }
}
