//! Redis that is away when a replica starts.

use std::sync::Arc;
use std::time::Duration;

use vmcp_core::Clock;
use vmcp_redis::{Redis as Client, Settings, Timeouts};
use vmcp_session::{Liveness, SessionStorage, StorageError};
use vmcp_session_redis::{RedisSessionStorage, Settings as StorageSettings};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{TTL, key_prefix, ring, session, start, until, until_ended};
use crate::fixtures::{TIMEOUTS, standalone};

/// Starts a replica without waiting for a connection.
async fn start_lazy(port: u16, key_prefix: &str) -> Arc<RedisSessionStorage> {
    let short = Duration::from_millis(300);
    let timeouts = Timeouts { dial: short, read: short, ..TIMEOUTS };
    let redis = Client::connect_lazy(Settings { timeouts, ..standalone(port) });
    let settings = StorageSettings { key_prefix: key_prefix.to_owned(), ttl: TTL };
    RedisSessionStorage::start(redis, settings, ring(), Clock::system()).await.unwrap()
}

fn last_error(storage: &RedisSessionStorage) -> String {
    storage.state().last_error.unwrap_or_default().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_starts_while_redis_is_down() {
    if skipped() {
        return;
    }
    let mut server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    server.kill().unwrap();
    let storage = start_lazy(server.port, &prefix).await;
    assert!(!storage.state().is_connected);
    assert!(last_error(&storage).contains("failed to connect"), "{}", last_error(&storage));
    let created = session();
    assert_eq!(storage.create(&created).await, Err(StorageError::Unavailable));
    server.run().await.unwrap();
    until(Duration::from_secs(10), || storage.state().is_connected).await;
    assert_eq!(storage.liveness(), Liveness::Current);
    storage.create(&created).await.unwrap();
    let replica = start(&standalone(server.port), &prefix).await.unwrap();
    replica.end(&created).await.unwrap();
    until_ended(&*storage, &created).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_start_leaves_foreign_keys_alone() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    let key = format!("{prefix}{{sessions}}:format");
    server.cli(&["SET", &key, "other"]).await.unwrap();
    server.signal("STOP").await.unwrap();
    let storage = start_lazy(server.port, &prefix).await;
    assert!(last_error(&storage).contains("did not respond"), "{}", last_error(&storage));
    server.signal("CONT").await.unwrap();
    until(Duration::from_secs(10), || last_error(&storage).contains("another program")).await;
    assert_eq!(storage.create(&session()).await, Err(StorageError::Unavailable));
    assert!(!storage.state().is_connected);
    let keys = server.cli(&["KEYS", &format!("{prefix}*")]).await.unwrap();
    assert_eq!(keys.trim(), key);
    assert_eq!(server.cli(&["GET", &key]).await.unwrap().trim(), "other");
}
