//! Storages of sessions in a test's own Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use vmcp_core::{Clock, Identity};
use vmcp_redis::{Redis, Settings as RedisSettings};
use vmcp_seal::{KeyRing, SealKey};
use vmcp_session::contract::TestStorage;
use vmcp_session::{OwnerDigest, SessionId, SessionKey, SessionStorage, unix_millis};
use vmcp_session_redis::{RedisSessionStorage, Settings, StartError};
use vmcp_tests::counterparts::Redis as Server;

pub(crate) use crate::fixtures::until;

/// Time to live of sessions in the replicas.
pub(crate) const TTL: Duration = Duration::from_millis(400);

/// Returns a prefix of keys unique to the test.
pub(crate) fn key_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("vmcp:test-{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Starts a replica with a connection of its own.
pub(crate) async fn start(
    redis: &RedisSettings,
    key_prefix: &str,
) -> Result<Arc<RedisSessionStorage>, StartError> {
    let redis = Redis::connect(redis.clone()).await?;
    let settings = Settings { key_prefix: key_prefix.to_owned(), ttl: TTL };
    RedisSessionStorage::start(redis, settings, ring(), Clock::system()).await
}

/// Returns the ring of all replicas.
pub(crate) fn ring() -> KeyRing {
    KeyRing::new("test", &[SealKey::from_bytes([1; 32])], Clock::system()).unwrap()
}

/// Starts two replicas of an empty storage.
pub(crate) async fn pair(redis: &RedisSettings) -> [Arc<RedisSessionStorage>; 2] {
    let prefix = key_prefix();
    [start(redis, &prefix).await.unwrap(), start(redis, &prefix).await.unwrap()]
}

/// Two replicas of an empty storage, for the contract.
pub(crate) async fn storages(redis: &RedisSettings) -> TestStorage {
    let [storage, replica] = pair(redis).await;
    TestStorage {
        storage,
        replica,
        advance: |time| Box::pin(tokio::time::sleep(time)),
        now: unix_millis(&Clock::system()),
        ttl: TTL,
    }
}

/// Returns a new session of Alice.
pub(crate) fn session() -> SessionKey {
    let owner = OwnerDigest::of(&Identity::new("https://idp.example", "alice"));
    SessionKey { owner, id: SessionId::random().unwrap(), issued_at: unix_millis(&Clock::system()) }
}

/// Waits until a replica knows that a session has ended.
pub(crate) async fn until_ended(storage: &dyn SessionStorage, session: &SessionKey) -> Duration {
    until(Duration::from_secs(20), || storage.has_ended(session)).await
}

/// Lets other data fill the memory of a server.
pub(crate) async fn fill(server: &Server) {
    server.cli(&["SETRANGE", "other", "4000000", "x"]).await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1mb"]).await.unwrap();
}
