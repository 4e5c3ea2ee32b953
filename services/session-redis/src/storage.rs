//! Storage in Redis.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::stream::BoxStream;
use tokio::task::AbortHandle;
use vmcp_core::Clock;
use vmcp_redis::Redis;
use vmcp_seal::KeyRing;
use vmcp_session::{
    BackendEntry, EntryTag, Liveness, OwnerDigest, Replacement, RestoredRecord, SessionEvent,
    SessionId, SessionKey, SessionRecord, SessionStorage, StorageFuture,
};

use crate::health::{Health, StorageState, Use};
use crate::inner::Inner;
use crate::replica::Replica;
use crate::scripts::Scripts;
use crate::start::{Settings, StartError};

/// Sessions in Redis, for any number of replicas.
pub struct RedisSessionStorage {
    pub(crate) inner: Arc<Inner>,
    /// Task that publishes and receives messages.
    task: AbortHandle,
}

// === impl RedisSessionStorage ===

impl RedisSessionStorage {
    /// Starts the storage after it has tried each required command, and subscribes to the messages of other replicas.
    ///
    /// While Redis is away, the storage starts nevertheless: [`state`](Self::state) has the error, steps fail as unavailable, and
    /// a background task tries again until Redis is there.
    ///
    /// # Errors
    /// [`StartError`] if Redis rejects the settings, or cannot be used.
    pub async fn start(
        redis: Redis,
        settings: Settings,
        ring: KeyRing,
        clock: Clock,
    ) -> Result<Arc<Self>, StartError> {
        let Settings { key_prefix, ttl } = settings;
        if key_prefix.contains(['{', '}']) {
            return Err(StartError::Prefix { prefix: key_prefix });
        }
        let name = SessionId::random().ok_or(StartError::Random)?.to_string();
        let inner = Arc::new(Inner {
            redis,
            prefix: format!("{key_prefix}{{sessions}}:"),
            key_prefix,
            ttl,
            ring,
            health: Health::new(clock.clone()),
            clock,
            scripts: Scripts::new(),
            replica: Replica::new(name),
            is_started: AtomicBool::new(false),
        });
        let subscription = match inner.first_subscription().await {
            Ok(subscription) => Some(subscription),
            Err(error) if error.is_outage() => {
                inner.health.fail(Use::Subscribe, &error);
                None
            }
            Err(error) => return Err(error),
        };
        let task = tokio::spawn(Arc::clone(&inner).run(subscription)).abort_handle();
        Ok(Arc::new(Self { inner, task }))
    }

    /// Returns the state of the connection to Redis.
    #[must_use]
    pub fn state(&self) -> StorageState {
        self.inner.health.state()
    }

    /// Returns the time since the last message of a replica before which none is missing.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.inner.replica.silence()
    }
}

impl Drop for RedisSessionStorage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for RedisSessionStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSessionStorage")
            .field("redis", &self.inner.redis)
            .field("prefix", &self.inner.prefix)
            .finish_non_exhaustive()
    }
}

impl SessionStorage for RedisSessionStorage {
    fn create<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()> {
        Box::pin(self.inner.create(session))
    }

    fn restore<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, RestoredRecord> {
        Box::pin(self.inner.restore(session))
    }

    fn replace_backend_session<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        expected: Option<EntryTag>,
        value: Option<Vec<u8>>,
    ) -> StorageFuture<'a, Replacement> {
        Box::pin(self.inner.replace_backend_session(session, backend, expected, value))
    }

    fn merge<'a>(
        &'a self,
        session: &'a SessionKey,
        own: &'a SessionRecord,
        holds_stream: bool,
    ) -> StorageFuture<'a, RestoredRecord> {
        Box::pin(self.inner.merge(session, own, holds_stream))
    }

    fn set_level<'a>(&'a self, session: &'a SessionKey, level: &'a str) -> StorageFuture<'a, ()> {
        Box::pin(self.inner.set_level(session, level))
    }

    fn subscribe<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        uri: &'a str,
        wanted: bool,
    ) -> StorageFuture<'a, ()> {
        Box::pin(self.inner.subscribe(session, backend, uri, wanted))
    }

    fn hold_stream<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, RestoredRecord> {
        Box::pin(self.inner.hold_stream(session))
    }

    fn end<'a>(
        &'a self,
        session: &'a SessionKey,
    ) -> StorageFuture<'a, Vec<(Box<str>, BackendEntry)>> {
        Box::pin(self.inner.end(session))
    }

    fn leave<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, Option<SessionRecord>> {
        Box::pin(self.inner.leave(session))
    }

    fn touch<'a>(&'a self, sessions: &'a [SessionKey]) -> StorageFuture<'a, ()> {
        Box::pin(self.inner.touch(sessions))
    }

    fn check<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()> {
        Box::pin(self.inner.check(session))
    }

    fn has_ended(&self, session: &SessionKey) -> bool {
        self.inner.replica.has_ended(session)
    }

    fn all_ended_until(&self, owner: &OwnerDigest) -> Option<u64> {
        self.inner.replica.all_ended_until(owner)
    }

    fn liveness(&self) -> Liveness {
        self.inner.replica.liveness()
    }

    fn events(&self) -> BoxStream<'static, SessionEvent> {
        self.inner.replica.events.subscribe()
    }

    fn ended(&self) -> usize {
        self.inner.replica.ended()
    }

    fn announce(&self, replica: &str) {
        self.inner.replica.announce(replica);
    }

    fn replicas(&self) -> Vec<Box<str>> {
        self.inner.replica.others()
    }
}
