//! Store in Redis: settings, startup checks, execution of steps.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;
use vmcp_compose::{Lease, RunId, RunOwner, StoreError, StoreLimits};
use vmcp_core::Clock;
use vmcp_redis::{Error, Idempotency, Redis};
use vmcp_seal::KeyRing;

use crate::arguments::Arguments;
use crate::health::{Health, StoreState};
use crate::held::HeldRun;
use crate::reply::Reply;
use crate::scripts::{Scripts, StepScript};
use crate::sealed::RunSeal;

/// Maximum number of leases that are given back at a time. Further ones end by themselves.
const MAX_RELEASES: usize = 256;

/// Pause between two startup checks while Redis is away.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Beginning of all keys, such as `vmcp:my-server:`. Servers with the same prefix share their runs.
    pub key_prefix: String,
    /// Limits, of all replicas together.
    pub limits: StoreLimits,
}

/// Error of starting the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// The prefix would put keys into other slots of a cluster.
    #[error("the key prefix {0:?} of the workflow store must not contain '{{' or '}}'")]
    InvalidKeyPrefix(String),
    /// Redis cannot be reached, or rejects the credentials.
    #[error(transparent)]
    Redis(#[from] Error),
    /// Redis does not run the scripts.
    #[error("Redis rejected the scripts of the workflow store: use Redis 7.0, Valkey 8.0 or newer")]
    Unsupported,
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
    /// Another version of the server wrote the keys.
    #[error(
        "the key {key} has format {format:?}, which this version does not read: use another \
         keyPrefix, or end the runs with the version that wrote them"
    )]
    UnknownFormat {
        /// The key.
        key: String,
        /// Its format.
        format: String,
    },
    /// Another program uses the keys.
    #[error("the key {key} belongs to another program: use another keyPrefix")]
    ForeignKey {
        /// The key.
        key: String,
    },
}

/// Store of runs in Redis, for any number of replicas. Clones share the connection and the leases.
#[derive(Clone)]
pub struct RedisWorkflowStore(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    redis: Redis,
    prefix: String,
    pub(crate) limits: StoreLimits,
    ring: KeyRing,
    pub(crate) clock: Clock,
    pub(crate) scripts: Scripts,
    pub(crate) health: Health,
    /// Runs whose lease this process holds. Invariant: as many as runs that it runs, since the engine gives each lease back.
    held: Mutex<HashMap<RunId, Arc<HeldRun>>>,
    /// Wakes those who wait for a write of this process.
    pub(crate) changed: Notify,
    pub(crate) releases: Arc<Semaphore>,
    /// `true` once the startup check passed. Invariant: no step runs before, because the keys may belong to another program.
    is_started: AtomicBool,
}

impl StartError {
    /// Returns whether Redis is away for a time. Any other error calls for a change of configuration.
    fn is_outage(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_outage())
    }
}

impl RedisWorkflowStore {
    /// Starts the store after it has tried each required command and read the format of the keys.
    ///
    /// While Redis is away, the store starts nevertheless: [`state`](Self::state) has the error, steps fail as unavailable, and a
    /// background task tries again until Redis is there.
    ///
    /// # Errors
    /// Redis rejects the credentials or is too old, the ACL of the user denies a command, or the keys have another format.
    pub async fn start(
        redis: Redis,
        settings: Settings,
        ring: KeyRing,
        clock: Clock,
    ) -> Result<Arc<Self>, StartError> {
        let Settings { key_prefix, limits } = settings;
        if key_prefix.contains(['{', '}']) {
            return Err(StartError::InvalidKeyPrefix(key_prefix));
        }
        let store = Self(Arc::new(Inner {
            redis,
            prefix: format!("{key_prefix}{{workflows}}:"),
            limits,
            ring,
            health: Health::new(clock.clone()),
            clock,
            scripts: Scripts::new(),
            held: Mutex::default(),
            changed: Notify::new(),
            releases: Arc::new(Semaphore::new(MAX_RELEASES)),
            is_started: AtomicBool::new(false),
        }));
        match store.probe().await {
            Ok(()) => store.0.is_started.store(true, Ordering::Release),
            Err(error) if error.is_outage() => {
                store.0.health.record_outage(&error);
                tokio::spawn(retry_probe(Arc::downgrade(&store.0)));
            }
            Err(error) => return Err(error),
        }
        Ok(Arc::new(store))
    }

    /// Returns the state of the store, as its last steps found it.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.0.health.state()
    }

    async fn probe(&self) -> Result<(), StartError> {
        let Inner { redis, prefix, scripts, .. } = &*self.0;
        let (script, arguments) = (&scripts.probe.script, self.arguments());
        let reply = match redis.run(script, prefix, &arguments, Idempotency::Idempotent).await {
            Err(Error::CommandFailed { code, .. }) if &*code == "ERR" => {
                return Err(StartError::Unsupported);
            }
            reply => reply?,
        };
        let mut reply = Reply::new(reply).map_err(|_| StartError::Unsupported)?;
        let mut text = || reply.get().ok().flatten().unwrap_or_default();
        let (word, first, second): (String, String, String) = (text(), text(), text());
        match &*word {
            "ok" => Ok(()),
            "foreign" => Err(StartError::ForeignKey { key: first }),
            "format" => Err(StartError::UnknownFormat { key: first, format: second }),
            _ => {
                let prefix = prefix.clone();
                Err(StartError::Denied { command: first, prefix, reason: second })
            }
        }
    }

    pub(crate) fn arguments(&self) -> Arguments {
        Arguments::new(&self.0.clock, &self.0.limits)
    }

    /// Runs the script of a step. Each may run twice: the holder and the version tell a step that was taken from another one.
    pub(crate) async fn step(
        &self,
        script: &StepScript,
        arguments: &Arguments,
    ) -> Result<Reply, StoreError> {
        let Inner { redis, prefix, health, is_started, .. } = &*self.0;
        if !is_started.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable);
        }
        match redis.run(&script.script, prefix, arguments, Idempotency::Idempotent).await {
            Ok(reply) => {
                health.record_success(script);
                Reply::new(reply)
            }
            Err(error) => Err(health.record_error(script, &error)),
        }
    }

    pub(crate) fn seal<'a>(&'a self, run: &'a RunId, owner: &'a RunOwner) -> RunSeal<'a> {
        RunSeal { ring: &self.0.ring, run, owner }
    }

    pub(crate) fn hold(&self, held: HeldRun) {
        vmcp_core::lock(&self.0.held).insert(held.lease.run.clone(), Arc::new(held));
    }

    /// Returns the run of a lease, unless the lease was given back or is another one.
    pub(crate) fn held(&self, lease: &Lease) -> Option<Arc<HeldRun>> {
        let held = vmcp_core::lock(&self.0.held);
        held.get(&lease.run).filter(|held| held.lease == *lease).cloned()
    }

    /// Forgets the run of a lease.
    pub(crate) fn take_held(&self, lease: &Lease) -> Option<Arc<HeldRun>> {
        let mut held = vmcp_core::lock(&self.0.held);
        held.get(&lease.run).filter(|held| held.lease == *lease)?;
        held.remove(&lease.run)
    }
}

impl RedisWorkflowStore {
    /// Returns `true` if this process holds no lease and gives none back.
    pub(crate) fn is_released(&self) -> bool {
        let held = vmcp_core::lock(&self.0.held);
        held.is_empty() && self.0.releases.available_permits() == MAX_RELEASES
    }
}

impl fmt::Debug for RedisWorkflowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisWorkflowStore")
            .field("redis", &self.0.redis)
            .field("prefix", &self.0.prefix)
            .finish_non_exhaustive()
    }
}

/// Repeats the startup check until it passes, or the store is dropped.
async fn retry_probe(store: Weak<Inner>) {
    let mut is_reported = false;
    loop {
        sleep(RETRY_INTERVAL).await;
        let Some(store) = store.upgrade().map(RedisWorkflowStore) else { return };
        let Inner { health, scripts, is_started, .. } = &*store.0;
        match store.probe().await {
            Ok(()) => {
                is_started.store(true, Ordering::Release);
                return health.record_success(&scripts.probe);
            }
            Err(error) => {
                // The state is `unavailable` already, but waiting does not end this error.
                if !error.is_outage() && !is_reported {
                    tracing::error!(%error, "workflow store cannot be used");
                    is_reported = true;
                }
                health.record_outage(&error);
            }
        }
    }
}

/// Returns a random name of a lease.
pub(crate) fn random_holder() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| StoreError::Unavailable)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
