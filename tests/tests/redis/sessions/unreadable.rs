//! Records and messages of other programs and versions, and values that were tampered with.

use vmcp_core::Clock;
use vmcp_redis::Redis as Client;
use vmcp_seal::{KeyRing, SealKey};
use vmcp_session::{SessionKey, SessionStorage, StorageError};
use vmcp_session_redis::{RedisSessionStorage, Settings};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{TTL, key_prefix, session, start, until_ended};
use crate::fixtures::standalone;

fn record(prefix: &str, session: &SessionKey) -> String {
    format!("{prefix}{{sessions}}:session:{}", session.id)
}

#[tokio::test]
async fn records_of_other_format_stay_unchanged() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    let storage = start(&standalone(server.port), &prefix).await.unwrap();
    for write in [
        &["HSET", "KEY", "f", "2", "b:x", "y"][..],
        &["HSET", "KEY", "x", "y"],
        &["SET", "KEY", "y"],
    ] {
        let session = session();
        let name = record(&prefix, &session);
        let write: Vec<_> =
            write.iter().map(|word| if *word == "KEY" { &*name } else { word }).collect();
        server.cli(&write).await.unwrap();
        let before = server.cli(&["DUMP", &name]).await.unwrap();
        let unknown = Some(StorageError::UnknownFormat);
        assert_eq!(storage.create(&session).await.err(), unknown);
        assert_eq!(storage.restore(&session).await.err(), unknown);
        let value = Some(b"value".to_vec());
        let replaced = storage.replace_backend_session(&session, "x", None, value).await;
        assert_eq!(replaced.err(), unknown);
        assert_eq!(storage.set_level(&session, "1").await.err(), unknown);
        assert_eq!(storage.subscribe(&session, "x", "uri", true).await.err(), unknown);
        assert_eq!(storage.hold_stream(&session).await.err(), unknown);
        assert_eq!(storage.leave(&session).await.err(), unknown);
        storage.touch(&[session]).await.unwrap();
        storage.check(&session).await.unwrap();
        // It ends all the same.
        assert_eq!(storage.end(&session).await.unwrap(), []);
        assert_eq!(storage.check(&session).await, Err(StorageError::Ended));
        assert_eq!(server.cli(&["DUMP", &name]).await.unwrap(), before);
        assert_eq!(server.cli(&["PTTL", &name]).await.unwrap().trim(), "-1");
        assert!(storage.state().is_connected);
    }
}

#[tokio::test]
async fn values_open_for_their_own_place_only() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (prefix, session) = (key_prefix(), session());
    let storage = start(&standalone(server.port), &prefix).await.unwrap();
    let value = || Some(b"canary-value".to_vec());
    for backend in ["one", "two"] {
        storage.replace_backend_session(&session, backend, None, value()).await.unwrap();
    }
    storage.subscribe(&session, "one", "file:///canary-uri", true).await.unwrap();
    storage.set_level(&session, "canary-level").await.unwrap();
    let name = record(&prefix, &session);
    let stored = server.cli(&["HGETALL", &name]).await.unwrap();
    assert!(stored.contains("b:one") && !stored.contains("canary"), "{stored}");
    // A value of one backend does not count for another.
    let copy =
        "redis.call('HSET', KEYS[1], ARGV[2], redis.call('HGET', KEYS[1], ARGV[1])) return 1";
    server.cli(&["EVAL", copy, "1", &name, "b:one", "b:two"]).await.unwrap();
    let unknown = StorageError::UnknownFormat;
    assert_eq!(storage.restore(&session).await.unwrap_err(), unknown);
    // Nor does anything of a ring with other keys.
    let redis = Client::connect(standalone(server.port)).await.unwrap();
    let ring = KeyRing::new("test", &[SealKey::from_bytes([2; 32])], Clock::system()).unwrap();
    let settings = Settings { key_prefix: prefix, ttl: TTL };
    let other = RedisSessionStorage::start(redis, settings, ring, Clock::system()).await.unwrap();
    assert_eq!(other.restore(&session).await.unwrap_err(), unknown);
    assert_eq!(other.end(&session).await.unwrap(), []);
    until_ended(&*storage, &session).await;
}

#[tokio::test]
async fn messages_beside_unreadable_ones_arrive() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    let settings = standalone(server.port);
    let storage = start(&settings, &prefix).await.unwrap();
    let replica = start(&settings, &prefix).await.unwrap();
    let channel = format!("{prefix}{{sessions}}:events:0");
    let long = "x".repeat(100_000);
    for message in ["", "2 end 1 x", "1 end 1 * x 1", "1 beat", &long] {
        server.cli(&["PUBLISH", &channel, message]).await.unwrap();
    }
    let order = format!("{prefix}{{sessions}}:ended");
    for score in ["1", "99999999999999999"] {
        server.cli(&["ZADD", &order, score, &format!("of another version {score}")]).await.unwrap();
    }
    let (first, second) = (session(), session());
    storage.end(&first).await.unwrap();
    until_ended(&*replica, &first).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    storage.end(&second).await.unwrap();
    until_ended(&*replica, &second).await;
    assert!(!replica.has_ended(&session()));
}
