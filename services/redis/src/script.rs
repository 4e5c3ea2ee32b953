//! Lua that a server runs as one step.

use std::fmt;

use redis::{Cmd, ToRedisArgs, cmd};

/// A script. It is sent whole once per server, and by its digest from then on.
pub struct Script {
    inner: redis::Script,
    source: String,
}

impl Script {
    /// A script of this source.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        Self { inner: redis::Script::new(&source), source }
    }

    /// The command that runs it by its digest.
    pub(crate) fn evalsha<A: ToRedisArgs>(&self, key: &str, arguments: &A) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(self.inner.get_hash()).arg(1).arg(key).arg(arguments);
        command
    }

    /// The command that runs it, and lets the server keep it.
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
