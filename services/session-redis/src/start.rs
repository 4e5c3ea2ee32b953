//! Settings and startup checks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vmcp_redis::{Error, Idempotency, Subscription, cmd};

use crate::inner::Inner;
use crate::message::Message;

/// Settings of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Beginning of all keys and of the channel, such as `vmcp:my-server:`. Servers with the same prefix share their sessions.
    pub key_prefix: String,
    /// Time to live of sessions in the replicas. Records live for a minute longer.
    pub ttl: Duration,
}

/// Error of starting the storage. Contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Redis cannot be reached, or rejects the credentials.
    #[error(transparent)]
    Redis(#[from] Error),
    /// The prefix has a brace, which has a meaning in keys of a cluster.
    #[error("the key prefix {prefix:?} of the session storage must not have '{{' or '}}'")]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// The ACL of the user denies a required command.
    #[error(
        "the ACL of the Redis user denies {command}: {reason}; grant it the keys and channels \
         `~{prefix}* &{prefix}*` and the commands that the documentation lists"
    )]
    Denied {
        /// Denied command.
        command: String,
        /// Beginning of all keys.
        prefix: String,
        /// Reason, as reported by Redis.
        reason: String,
    },
    /// The server is a replica.
    #[error("Redis is a read-only replica: configure the address of its master, or Sentinel")]
    ReadOnly,
    /// The server has no memory left.
    #[error("Redis is full: raise its `maxmemory`")]
    Full,
    /// Another program, or another version of the server, uses the names.
    #[error(
        "the Redis key {key:?} belongs to another program or version: configure another key prefix"
    )]
    UnknownFormat {
        /// The key.
        key: String,
    },
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    Random,
}

impl StartError {
    /// Returns whether Redis is away for a time. Any other error calls for a change of configuration.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_outage())
    }
}

impl Inner {
    /// Subscribes after it has tried each required command.
    pub(crate) async fn first_subscription(&self) -> Result<Subscription, StartError> {
        let denied = |command: &str, error: Error| match error {
            Error::PermissionDenied { reason, .. } => self.denied(command, reason.as_ref()),
            Error::CommandFailed { code, .. } if &*code == "READONLY" => StartError::ReadOnly,
            Error::CommandFailed { code, .. } if &*code == "OOM" => StartError::Full,
            error => StartError::Redis(error),
        };
        let arguments = self.arguments();
        let run =
            self.redis.run(&self.scripts.probe, &self.prefix, &arguments, Idempotency::Idempotent);
        let reply = run.await.map_err(|error| denied("EVALSHA", error))?;
        let reply: Vec<String> = vmcp_redis::from_redis_value(reply)
            .map_err(|_| self.denied("EVALSHA", "the reply has an unknown form"))?;
        let time = match &*reply.iter().map(String::as_str).collect::<Vec<_>>() {
            ["ok", time] => time.parse().ok(),
            ["denied", _, reason] if reason.starts_with("READONLY") => {
                return Err(StartError::ReadOnly);
            }
            ["denied", _, reason] if reason.starts_with("OOM") => return Err(StartError::Full),
            ["denied", command, reason] => return Err(self.denied(command, reason)),
            [_, key, ..] => {
                return Err(StartError::UnknownFormat { key: format!("{}{key}", self.prefix) });
            }
            _ => None,
        };
        let time = time.ok_or_else(|| self.denied("EVALSHA", "the reply has an unknown form"))?;
        let mut publish = cmd("PUBLISH");
        publish.arg(self.channel()).arg(Message::beat(&self.replica.name, None));
        let published = self.redis.call(&self.prefix, &publish, Idempotency::Idempotent).await;
        published.map_err(|error| denied("PUBLISH", error))?;
        let mut subscription = self.redis.subscribe(&self.prefix, self.channel());
        subscription.subscribe().await.map_err(|error| denied("SUBSCRIBE", error))?;
        // Earlier tombstones are not read: a session that is not known here is restored from Redis, which has its tombstone.
        self.replica.set_last_score(time);
        self.replica.hear();
        // Pairs with the load before each step, which then sees the score above.
        self.is_started.store(true, Ordering::Release);
        Ok(subscription)
    }

    fn denied(&self, command: &str, reason: &str) -> StartError {
        StartError::Denied {
            command: command.to_owned(),
            prefix: self.key_prefix.clone(),
            reason: reason.to_owned(),
        }
    }
}
