//! Store in Redis: namespace, startup checks, execution of steps.

use std::fmt;
use std::sync::Arc;

use vmcp_auth_store::{Limits, StoreError, Timestamp};
use vmcp_core::Clock;
use vmcp_redis::{Idempotency, Redis, Script, Value, cmd};

use crate::arguments::Arguments;
use crate::reply::Reply;
use crate::scripts::Scripts;

/// Prefix of all keys. The number increases when the format of records changes.
const PREFIX: &str = "vmcp:auth:v1:";

/// Name of the stored state. Servers with the same name share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

/// Error of an invalid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of stored state must have 1 to 253 letters, digits, '-', '.', '_', '/' or ':'")]
pub struct NamespaceError;

/// Error of starting the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// Redis cannot be reached, or rejects the credentials.
    #[error(transparent)]
    Redis(#[from] vmcp_redis::Error),
    /// The ACL of the user denies a required command.
    #[error(
        "the ACL of the Redis user denies {command} on keys that begin with {prefix}: {reason}"
    )]
    Denied {
        /// Denied command.
        command: String,
        /// Prefix of all keys.
        prefix: String,
        /// Reason, as reported by Redis.
        reason: String,
    },
}

/// State of an authorization server in Redis. Clones share the connection.
#[derive(Clone)]
pub struct RedisStore(Arc<Inner>);

struct Inner {
    redis: Redis,
    prefix: String,
    limits: Limits,
    clock: Clock,
    scripts: Scripts,
}

// === impl Namespace ===

impl Namespace {
    /// Creates a namespace from a name, such as the issuer or a Kubernetes resource.
    ///
    /// # Errors
    /// The name is empty, too long, or has other characters.
    pub fn new(name: &str) -> Result<Self, NamespaceError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte);
        if name.is_empty() || name.len() > 253 || !name.bytes().all(allowed) {
            return Err(NamespaceError);
        }
        Ok(Self(name.to_owned()))
    }
}

// === impl RedisStore ===

impl RedisStore {
    /// Starts the store after it has tried each required command.
    ///
    /// # Errors
    /// Redis cannot be reached, or the ACL of the user denies a command.
    pub async fn start(
        redis: Redis,
        namespace: &Namespace,
        limits: Limits,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let prefix = format!("{PREFIX}{{{}}}:", namespace.0);
        let scripts = Scripts::new();
        let store = Self(Arc::new(Inner { redis, prefix, limits, clock, scripts }));
        store.probe().await?;
        Ok(store)
    }

    async fn probe(&self) -> Result<(), StartError> {
        let Inner { redis, prefix, scripts, .. } = &*self.0;
        let answer =
            redis.run(&scripts.probe, prefix, &self.arguments(), Idempotency::Idempotent).await?;
        let mut denied = Reply::new(answer).map_err(|_| unexpected_reply(prefix))?;
        if let Ok(Some(command)) = denied.get() {
            let reason = denied.require().unwrap_or_default();
            return Err(StartError::Denied { command, prefix: prefix.clone(), reason });
        }
        for command in ["HMGET", "HGETALL", "ZRANGEBYSCORE"] {
            self.probe_read(command).await?;
        }
        redis.subscribe(prefix, self.channel()).subscribe().await?;
        Ok(())
    }

    async fn probe_read(&self, command: &str) -> Result<(), StartError> {
        let key = self.key("probe:", "none");
        let mut tried = cmd(command);
        tried.arg(&key);
        match command {
            "HMGET" => tried.arg("x"),
            "ZRANGEBYSCORE" => tried.arg(0).arg(0),
            _ => &mut tried,
        };
        self.0.redis.call(&self.0.prefix, &tried, Idempotency::Idempotent).await?;
        Ok(())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now().into()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        &self.0.scripts
    }

    pub(crate) fn redis(&self) -> &Redis {
        &self.0.redis
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.0.prefix
    }

    pub(crate) fn key(&self, kind: &str, name: &str) -> String {
        [&self.0.prefix, kind, name].concat()
    }

    /// Channel on which revocations are published.
    pub(crate) fn channel(&self) -> String {
        self.key("revocations", "")
    }

    pub(crate) fn arguments(&self) -> Arguments {
        Arguments::new(self.now(), &self.0.limits)
    }

    /// Runs the script of a step.
    pub(crate) async fn step(
        &self,
        script: &Script,
        arguments: Arguments,
        idempotency: Idempotency,
    ) -> Result<Reply, StoreError> {
        let answer = self.0.redis.run(script, &self.0.prefix, &arguments, idempotency).await;
        Reply::new(answer.map_err(|error| unavailable(&error))?)
    }

    /// Reads fields of a record, in one command.
    pub(crate) async fn fields(&self, key: &str, fields: &[&str]) -> Result<Value, StoreError> {
        let mut command = cmd(if fields.is_empty() { "HGETALL" } else { "HMGET" });
        command.arg(key).arg(fields);
        let answer = self.0.redis.call(&self.0.prefix, &command, Idempotency::Idempotent).await;
        answer.map_err(|error| unavailable(&error))
    }

    /// Reads an unexpired record, in one command.
    pub(crate) async fn live_record(
        &self,
        kind: &str,
        name: &str,
    ) -> Result<Option<String>, StoreError> {
        let now = self.now();
        let mut fields = Reply::new(self.fields(&self.key(kind, name), &["x", "d"]).await?)?;
        let expires: Option<u64> = fields.get()?;
        let record = fields.get()?;
        Ok(record.filter(|_: &String| expires.is_some_and(|at| Timestamp::from_millis(at) > now)))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("redis", &self.0.redis)
            .field("prefix", &self.0.prefix)
            .finish_non_exhaustive()
    }
}

/// Logs an error of Redis and returns the error that callers see.
pub(crate) fn unavailable(error: &vmcp_redis::Error) -> StoreError {
    tracing::warn!(%error, "authorization store step failed");
    StoreError::Unavailable
}

fn unexpected_reply(prefix: &str) -> StartError {
    let reason = "its answer is no list".to_owned();
    StartError::Denied { command: "EVALSHA".to_owned(), prefix: prefix.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_rejects_braces_and_spaces() {
        assert!(Namespace::new("default/my-vmcp").is_ok());
        for wrong in ["", "a}b", "{", "a b", "ü", &"x".repeat(254)] {
            assert_eq!(Namespace::new(wrong), Err(NamespaceError), "{wrong}");
        }
    }
}
