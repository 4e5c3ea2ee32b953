//! Stores of runs in a test's own Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vmcp_compose::store::contract::TestStore;
use vmcp_compose::{StoreLimits, WorkflowStore};
use vmcp_compose_redis::{RedisWorkflowStore, Settings};
use vmcp_core::Clock;
use vmcp_redis::Redis;
use vmcp_seal::{KeyRing, SealKey};

use crate::fixtures::clock;

/// Returns a prefix of keys unique to the test.
pub(crate) fn key_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("vmcp:test-{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a ring of keys, the newest first.
pub(crate) fn ring(keys: &[u8]) -> KeyRing {
    let keys: Vec<_> = keys.iter().map(|byte| SealKey::from_bytes([*byte; 32])).collect();
    KeyRing::new("test", &keys, Clock::system()).unwrap()
}

/// Creates an empty store and opens it for two replicas with separate connections.
pub(crate) async fn stores(redis: &vmcp_redis::Settings, limits: StoreLimits) -> TestStore {
    let (clock, key_prefix) = (clock(), key_prefix());
    let start = async || start(redis, &key_prefix, limits, (&[1], &clock)).await;
    let (store, replica): (Arc<_>, Arc<_>) = (start().await, start().await);
    TestStore { store, replica, clock }
}

/// Opens a store with these keys of the ring, the newest first.
pub(crate) async fn open(
    redis: &vmcp_redis::Settings,
    key_prefix: &str,
    limits: StoreLimits,
    keys: &[u8],
) -> Arc<RedisWorkflowStore> {
    start(redis, key_prefix, limits, (keys, &Clock::system())).await
}

async fn start(
    redis: &vmcp_redis::Settings,
    key_prefix: &str,
    limits: StoreLimits,
    (keys, clock): (&[u8], &Clock),
) -> Arc<RedisWorkflowStore> {
    let redis = Redis::connect(redis.clone()).await.unwrap();
    let settings = Settings { key_prefix: key_prefix.to_owned(), limits };
    RedisWorkflowStore::start(redis, settings, ring(keys), clock.clone()).await.unwrap()
}

/// Returns a key of a store.
pub(crate) fn key(store: &dyn WorkflowStore, name: &str) -> String {
    let text = format!("{store:?}");
    let prefix = text.split_once("prefix: \"").unwrap().1.split_once('"').unwrap().0;
    format!("{prefix}{name}")
}
