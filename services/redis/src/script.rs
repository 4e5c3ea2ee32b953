//! Lua scripts.

use std::fmt;

use redis::{Cmd, ToRedisArgs, cmd};

/// Lua script. Its source is sent once per server, afterwards only its digest.
pub struct Script {
    inner: redis::Script,
    source: String,
}

impl Script {
    /// Creates a script from its source.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        Self { inner: redis::Script::new(&source), source }
    }

    /// Returns the command that runs the script by its digest.
    pub(crate) fn evalsha<A: ToRedisArgs>(&self, key: &str, arguments: &A) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(self.inner.get_hash()).arg(1).arg(key).arg(arguments);
        command
    }

    /// Returns the command that runs the script from its source; the server caches it.
    pub(crate) fn eval<A: ToRedisArgs>(&self, key: &str, arguments: &A) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(&self.source).arg(1).arg(key).arg(arguments);
        command
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.inner.get_hash()).finish()
    }
}
