use std::time::SystemTime;

use futures_util::StreamExt;
use vmcp_core::Identity;

use super::*;
use crate::SessionId;
use crate::contract::TestStorage;

const TTL: Duration = Duration::from_millis(400);

fn storage() -> MemorySessionStorage {
    let start = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
    MemorySessionStorage::new(TTL, Clock::manual(start))
}

async fn fresh() -> TestStorage {
    tokio::time::pause();
    let storage = storage();
    let replica = Arc::new(storage.replica());
    let advance = |time| tokio::time::advance(time).boxed();
    TestStorage {
        now: unix_millis(&storage.clock),
        storage: Arc::new(storage),
        replica,
        advance,
        ttl: TTL,
    }
}

contract!(fresh);

fn session() -> SessionKey {
    let owner = OwnerDigest::of(&Identity::new("https://idp", "alice"));
    SessionKey { owner, id: SessionId::random().unwrap(), issued_at: 1 }
}

#[tokio::test(start_paused = true)]
async fn unheard_replica_gets_missed_messages_later() {
    let storage = storage();
    let replica = storage.replica();
    let (mut events, session) = (replica.events(), session());
    storage.create(&session).await.unwrap();
    replica.hold_stream(&session).await.unwrap();
    replica.set_heard(false);
    storage.set_level(&session, "\"info\"").await.unwrap();
    storage.subscribe(&session, "backend", "uri", true).await.unwrap();
    storage.end(&session).await.unwrap();
    assert_eq!(replica.liveness(), Liveness::Current);
    tokio::time::advance(Liveness::SILENT_AFTER).await;
    assert_eq!(replica.liveness(), Liveness::Silent);
    assert!(!replica.has_ended(&session));
    assert_eq!(replica.check(&session).await, Err(StorageError::Ended));
    tokio::time::advance(Liveness::LOST_AFTER).await;
    assert_eq!(replica.liveness(), Liveness::Lost);
    replica.set_heard(true);
    assert_eq!(replica.liveness(), Liveness::Current);
    assert!(replica.has_ended(&session));
    assert_eq!(events.next().await, Some(SessionEvent::MessagesMissed));
    assert_eq!(events.next().await, Some(SessionEvent::Ended(session.id)));
    assert_eq!(events.next().await, Some(SessionEvent::Changed(session.id)));
}

#[tokio::test(start_paused = true)]
async fn unreachable_storage_fails_each_step() {
    let storage = storage();
    let (replica, session) = (storage.replica(), session());
    storage.announce("storage");
    replica.set_reachable(false);
    assert_eq!(replica.check(&session).await, Err(StorageError::Unavailable));
    assert_eq!(replica.create(&session).await, Err(StorageError::Unavailable));
    assert_eq!(replica.end(&session).await, Err(StorageError::Unavailable));
    assert!(replica.replicas().is_empty());
    storage.create(&session).await.unwrap();
    replica.set_reachable(true);
    assert_eq!(*replica.replicas(), ["storage".into()]);
    assert!(!replica.restore(&session).await.unwrap().is_lost);
    storage.lose_records();
    assert!(replica.restore(&session).await.unwrap().is_lost);
}

#[tokio::test(start_paused = true)]
async fn record_expires_after_ttl_and_minute() {
    let storage = storage();
    let session = session();
    storage.create(&session).await.unwrap();
    tokio::time::advance(TTL + Duration::from_secs(59)).await;
    assert!(!storage.restore(&session).await.unwrap().is_lost);
    tokio::time::advance(TTL + Duration::from_mins(1)).await;
    assert!(storage.restore(&session).await.unwrap().is_lost);
}
