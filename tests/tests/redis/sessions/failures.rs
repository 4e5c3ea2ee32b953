//! Redis that is away, full, read-only or closed to its user, and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep, timeout};
use vmcp_redis::{Settings, Timeouts};
use vmcp_session::{Liveness, Replacement, SessionEvent, SessionStorage, StorageError};
use vmcp_session_redis::RedisSessionStorage;
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{fill, key_prefix, pair, session, start, until, until_ended};
use super::proxy::Proxy;
use crate::failover::lossy;
use crate::fixtures::{TIMEOUTS, standalone};

/// Returns settings with short timeouts.
fn impatient(port: u16) -> Settings {
    let short = Duration::from_secs(1);
    Settings { timeouts: Timeouts { dial: short, read: short, ..TIMEOUTS }, ..standalone(port) }
}

async fn until_connected(storage: &RedisSessionStorage, expected: bool) -> Duration {
    until(Duration::from_secs(20), || storage.state().is_connected == expected).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_redis_is_silent_and_heals() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let [storage, replica] = pair(&standalone(server.port)).await;
    let (known, ended) = (session(), session());
    storage.create(&known).await.unwrap();
    server.signal("STOP").await.unwrap();
    let stopped = Instant::now();
    until(Duration::from_secs(2), || replica.liveness() == Liveness::Silent).await;
    // A request of a known session waits for half a second at most, and soon not at all.
    let begun = Instant::now();
    assert_eq!(replica.check(&known).await, Err(StorageError::Unavailable));
    assert!(begun.elapsed() < Duration::from_secs(1));
    until_connected(&replica, false).await;
    let begun = Instant::now();
    assert_eq!(replica.check(&known).await, Err(StorageError::Unavailable));
    assert!(begun.elapsed() < Duration::from_millis(50));
    let state = replica.state();
    assert!(state.last_error.unwrap().contains("did not respond"));
    let ending = Arc::clone(&storage);
    let end = tokio::spawn(async move { ending.end(&ended).await });
    sleep(Duration::from_secs(5).saturating_sub(stopped.elapsed())).await;
    assert_eq!(replica.liveness(), Liveness::Silent);
    server.signal("CONT").await.unwrap();
    let current = || replica.liveness() == Liveness::Current;
    eprintln!("messages arrived again after {:?}", until(Duration::from_secs(10), current).await);
    // It may have been given up, and taken all the same.
    if end.await.unwrap().is_err() {
        storage.end(&ended).await.unwrap();
    }
    until_ended(&*replica, &ended).await;
    replica.check(&known).await.unwrap();
    until_connected(&replica, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnected_replica_learns_what_it_missed() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (prefix, proxy) = (key_prefix(), Proxy::start(server.port).await);
    let storage = start(&standalone(server.port), &prefix).await.unwrap();
    let replica = start(&standalone(proxy.port), &prefix).await.unwrap();
    let (changed, moved, ended) = (session(), session(), session());
    for session in [&changed, &moved, &ended] {
        replica.create(session).await.unwrap();
        replica.hold_stream(session).await.unwrap();
    }
    let mut events = replica.events();
    proxy.set_open(false);
    storage.set_level(&changed, "1").await.unwrap();
    storage.hold_stream(&moved).await.unwrap();
    storage.end(&ended).await.unwrap();
    assert_eq!(replica.restore(&moved).await, Err(StorageError::Unavailable));
    until_connected(&replica, false).await;
    assert!(storage.state().is_connected);
    proxy.set_open(true);
    let mut learned = Vec::new();
    for _ in 0..4 {
        learned.push(timeout(Duration::from_secs(20), events.next()).await.unwrap().unwrap());
    }
    assert_eq!(learned[0], SessionEvent::MessagesMissed);
    for expected in [
        SessionEvent::Changed(changed.id),
        SessionEvent::StreamMoved(moved.id),
        SessionEvent::Ended(ended.id),
    ] {
        assert!(learned.contains(&expected), "{expected:?} in {learned:?}");
    }
    until(Duration::from_secs(5), || replica.liveness() == Liveness::Current).await;
    until_connected(&replica, true).await;
    assert_eq!(replica.restore(&changed).await.unwrap().record.level.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_redis_keeps_known_sessions() {
    if skipped() {
        return;
    }
    let server = Redis::start(&["--maxmemory-policy", "noeviction"]).await.unwrap();
    let [storage, replica] = pair(&standalone(server.port)).await;
    let known = session();
    storage.create(&known).await.unwrap();
    fill(&server).await;
    assert_eq!(storage.create(&session()).await, Err(StorageError::Unavailable));
    let state = storage.state();
    assert!(!state.is_connected && state.last_error.unwrap().contains("OOM"));
    sleep(Duration::from_secs(1)).await;
    for storage in [&storage, &replica] {
        assert_eq!(storage.liveness(), Liveness::Current);
        storage.check(&known).await.unwrap();
    }
    // Sessions end all the same.
    storage.end(&known).await.unwrap();
    until_ended(&*replica, &known).await;
    assert_eq!(replica.restore(&known).await, Err(StorageError::Ended));
    assert!(!storage.state().is_connected && replica.state().is_connected);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    until_connected(&storage, true).await;
    storage.create(&session()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn demoted_redis_is_reported_and_heals() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let [storage, _replica] = pair(&impatient(server.port)).await;
    let known = session();
    storage.create(&known).await.unwrap();
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
    assert_eq!(storage.create(&session()).await, Err(StorageError::Unavailable));
    let state = storage.state();
    assert!(!state.is_connected && state.last_error.unwrap().contains("READONLY"));
    server.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    until_connected(&storage, true).await;
    assert!(!storage.restore(&known).await.unwrap().is_lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_password_is_reported_and_heals() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let [storage, _replica] = pair(&impatient(server.port)).await;
    server.cli(&["CONFIG", "SET", "requirepass", "canary"]).await.unwrap();
    for kind in ["normal", "pubsub"] {
        server.cli(&["-a", "canary", "CLIENT", "KILL", "TYPE", kind]).await.unwrap();
    }
    until_connected(&storage, false).await;
    until(Duration::from_secs(5), || storage.liveness() == Liveness::Silent).await;
    assert_eq!(storage.create(&session()).await, Err(StorageError::Unavailable));
    let error = storage.state().last_error.unwrap();
    assert!(
        error.contains("rejected the user or password") && !error.contains("canary"),
        "{error}"
    );
    server.cli(&["-a", "canary", "CONFIG", "SET", "requirepass", ""]).await.unwrap();
    until_connected(&storage, true).await;
    until(Duration::from_secs(5), || storage.liveness() == Liveness::Current).await;
    storage.create(&session()).await.unwrap();
}

#[tokio::test]
async fn dropped_storage_leaves_channel() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    let storage = start(&standalone(server.port), &prefix).await.unwrap();
    let channel = format!("{prefix}{{sessions}}:events:0");
    let subscribers = ["PUBSUB", "NUMSUB", &*channel];
    server.until(&subscribers, "\n1").await.unwrap();
    drop(storage);
    server.until(&subscribers, "\n0").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_responses_change_no_result() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let cut = Arc::new(AtomicBool::new(false));
    let port = lossy(server.port, Arc::clone(&cut)).await;
    let [storage, replica] = pair(&standalone(port)).await;
    for round in 0..10 {
        let session = session();
        cut.store(true, Ordering::SeqCst);
        storage.create(&session).await.unwrap();
        cut.store(true, Ordering::SeqCst);
        let value = vec![round];
        let stored =
            storage.replace_backend_session(&session, "backend", None, Some(value.clone())).await;
        let Ok(Replacement::Stored(Some(tag))) = stored else { panic!("{stored:?}") };
        cut.store(true, Ordering::SeqCst);
        storage.subscribe(&session, "backend", "uri", true).await.unwrap();
        let record = replica.restore(&session).await.unwrap().record;
        assert_eq!(record.backend_sessions[0].1.tag, tag);
        assert_eq!(
            (record.backend_sessions[0].1.value.clone(), record.subscriptions.len()),
            (value, 1)
        );
        cut.store(true, Ordering::SeqCst);
        let removed = storage.replace_backend_session(&session, "backend", Some(tag), None).await;
        assert_eq!(removed, Ok(Replacement::Stored(None)));
        cut.store(true, Ordering::SeqCst);
        storage.end(&session).await.unwrap();
        assert_eq!(replica.check(&session).await, Err(StorageError::Ended));
    }
}
