//! State that the steps and the background task share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vmcp_core::Clock;
use vmcp_redis::{Error, Idempotency, Redis, Script};
use vmcp_seal::KeyRing;
use vmcp_session::StorageError;

use crate::arguments::Arguments;
use crate::health::{Health, Use};
use crate::replica::Replica;
use crate::reply::Reply;
use crate::scripts::Scripts;

/// State that the steps and the task share.
pub(crate) struct Inner {
    pub(crate) redis: Redis,
    pub(crate) key_prefix: String,
    /// Beginning of all keys, all in one slot of a cluster.
    pub(crate) prefix: String,
    pub(crate) ttl: Duration,
    pub(crate) ring: KeyRing,
    pub(crate) clock: Clock,
    pub(crate) scripts: Scripts,
    pub(crate) replica: Replica,
    pub(crate) health: Health,
    /// `true` once the startup checks passed. Invariant: no step runs before, because the keys may belong to another program, and
    /// because tombstones are known only from then on.
    pub(crate) is_started: AtomicBool,
}

/// Effect of a script, which decides what its success proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Reads, or begins with a removal: a full server runs it.
    Any,
    /// Begins with a write that adds data.
    Write,
}

impl Inner {
    /// Channel of the messages. It names the database, because all databases of a server have the same channels.
    pub(crate) fn channel(&self) -> String {
        format!("{}events:{}", self.prefix, self.redis.database())
    }

    pub(crate) fn arguments(&self) -> Arguments {
        Arguments::new(&self.replica.name, self.ttl, &self.channel())
    }

    /// Runs the script of a step, in one round trip.
    pub(crate) async fn run_script(
        &self,
        script: &Script,
        arguments: Arguments,
        effect: Effect,
    ) -> Result<Reply, StorageError> {
        if !self.is_started.load(Ordering::Acquire) {
            return Err(StorageError::Unavailable);
        }
        // Each script may be repeated: it recognizes what it has done.
        let run = self.redis.run(script, &self.prefix, &arguments, Idempotency::Idempotent);
        match run.await {
            Ok(reply) => {
                if effect == Effect::Write {
                    self.health.succeed(Use::Step);
                }
                Reply::new(reply)
            }
            Err(Error::CommandFailed { code, .. }) if &*code == "WRONGTYPE" => {
                Err(StorageError::UnknownFormat)
            }
            Err(error) => {
                self.health.fail(Use::Step, &error);
                Err(StorageError::Unavailable)
            }
        }
    }
}
