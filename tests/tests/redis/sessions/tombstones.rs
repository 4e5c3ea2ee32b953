//! Tombstones: fast, many, and not lost.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;
use vmcp_core::Identity;
use vmcp_redis::{Address, Node, Settings};
use vmcp_session::{
    Liveness, OwnerDigest, SessionKey, SessionStorage, StorageError, TOMBSTONE_LIFETIME,
    TOMBSTONE_LIFETIME_MILLIS,
};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{TTL, key_prefix, pair, session, start, until, until_ended};
use super::proxy::Proxy;
use crate::fixtures::standalone;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn replica_knows_end_within_second() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let [storage, replica] = pair(&standalone(server.port)).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let session = session();
        storage.create(&session).await.unwrap();
        storage.end(&session).await.unwrap();
        slowest = slowest.max(until_ended(&*replica, &session).await);
    }
    eprintln!("a replica knew of an end after at most {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert_eq!(replica.liveness(), Liveness::Current);
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_replica_learns_ten_thousand_ends() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (prefix, proxy) = (key_prefix(), Proxy::start(server.port).await);
    let storage = start(&standalone(server.port), &prefix).await.unwrap();
    let replica = start(&standalone(proxy.port), &prefix).await.unwrap();
    proxy.set_open(false);
    let sessions: Vec<_> = (0..10_000)
        .map(|number| {
            let owner = Identity::new("https://idp.example", &(number % 20).to_string());
            SessionKey { owner: OwnerDigest::of(&owner), ..session() }
        })
        .collect();
    let begun = Instant::now();
    let ends = stream::iter(&sessions).map(|session| storage.end(session));
    let ends: Vec<_> = ends.buffer_unordered(100).collect().await;
    assert!(ends.into_iter().all(|ended| ended == Ok(Vec::new())));
    eprintln!("10,000 sessions ended in {:?}", begun.elapsed());
    assert!(!replica.has_ended(&sessions[0]));
    until(Duration::from_secs(5), || replica.liveness() == Liveness::Silent).await;
    assert_eq!(replica.check(&sessions[0]).await, Err(StorageError::Unavailable));
    proxy.set_open(true);
    let current = || replica.liveness() == Liveness::Current;
    eprintln!("they were known after {:?}", until(Duration::from_secs(20), current).await);
    assert!(sessions.iter().all(|session| replica.has_ended(session)));
    assert_eq!((storage.ended(), replica.ended()), (10_000, 10_000));
    // A replica that begins later asks Redis.
    let late = start(&standalone(server.port), &prefix).await.unwrap();
    for session in sessions.iter().step_by(100) {
        assert_eq!(late.restore(session).await, Err(StorageError::Ended));
    }
    late.restore(&session()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tombstones_outlive_loss_of_all_data() {
    if skipped() {
        return;
    }
    let mut server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    let settings = standalone(server.port);
    let [storage, replica] = [start(&settings, &prefix), start(&settings, &prefix)];
    let (storage, replica) = (storage.await.unwrap(), replica.await.unwrap());
    let (ended, open) = (session(), session());
    for session in [&ended, &open] {
        storage.create(session).await.unwrap();
    }
    storage.end(&ended).await.unwrap();
    let owner = OwnerDigest::of(&Identity::new("https://idp.example", "bob"));
    let of_bob = || SessionKey { owner, ..session() };
    let earlier = of_bob();
    for _ in 0..=1000 {
        replica.end(&of_bob()).await.unwrap();
    }
    assert!(replica.has_ended(&earlier));
    server.kill().unwrap();
    until(Duration::from_secs(5), || replica.liveness() == Liveness::Silent).await;
    server.run().await.unwrap();
    for storage in [&storage, &replica] {
        until(Duration::from_secs(20), || storage.liveness() == Liveness::Current).await;
    }
    let late = start(&settings, &prefix).await.unwrap();
    for session in [&ended, &earlier] {
        assert_eq!(late.restore(session).await, Err(StorageError::Ended));
        assert_eq!(replica.restore(session).await, Err(StorageError::Ended));
    }
    // Its record is lost, and says so.
    assert!(late.restore(&open).await.unwrap().is_lost);
}

#[tokio::test]
async fn keys_expire_with_their_sessions() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    let storage = start(&standalone(server.port), &prefix).await.unwrap();
    let key = |name: &str| format!("{prefix}{{sessions}}:{name}");
    let session = session();
    let record = key(&format!("session:{}", session.id));
    let lifetime = async |key: &str| -> Duration {
        let left = server.cli(&["PTTL", key]).await.unwrap();
        Duration::from_millis(left.trim().parse().unwrap())
    };
    let is_whole = |left: Duration, whole: Duration| left <= whole && left + SECOND > whole;
    storage.create(&session).await.unwrap();
    assert!(is_whole(lifetime(&record).await, TTL + 60 * SECOND));
    // Reads do not restart it.
    server.cli(&["PEXPIRE", &record, "5000"]).await.unwrap();
    storage.check(&session).await.unwrap();
    assert!(lifetime(&record).await <= 5 * SECOND);
    storage.touch(&[session]).await.unwrap();
    assert!(is_whole(lifetime(&record).await, TTL + 60 * SECOND));
    // An expired tombstone goes with the next one.
    let old = SessionKey {
        issued_at: session.issued_at - TOMBSTONE_LIFETIME_MILLIS - 10_000,
        ..super::fixtures::session()
    };
    storage.end(&old).await.unwrap();
    storage.end(&session).await.unwrap();
    let keys = server.cli(&["--scan", "--pattern", &key("*")]).await.unwrap();
    let mut keys: Vec<_> = keys.lines().filter(|name| !name.contains("probe")).collect();
    keys.sort_unstable();
    let [ended, format, owner] = *keys else { panic!("{keys:?}") };
    assert_eq!((ended, format), (&*key("ended"), &*key("format")));
    for key in [ended, owner] {
        assert!(is_whole(lifetime(key).await, TOMBSTONE_LIFETIME));
    }
    assert_eq!(server.cli(&["PTTL", format]).await.unwrap().trim(), "-1");
    let ids = server.cli(&["ZRANGE", owner, "0", "-1"]).await.unwrap();
    assert_eq!(ids.trim(), session.id.to_string());
}

#[tokio::test]
async fn databases_of_one_server_are_separate() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let prefix = key_prefix();
    let start_in = async |database| {
        let address = Address::Database(Node::new("127.0.0.1", server.port), database);
        start(&Settings { address, ..standalone(0) }, &prefix).await.unwrap()
    };
    let [storage, replica, other] = [start_in(1).await, start_in(1).await, start_in(2).await];
    let session = session();
    other.create(&session).await.unwrap();
    other.announce("other");
    storage.announce("storage");
    storage.end(&session).await.unwrap();
    until_ended(&*replica, &session).await;
    until(Duration::from_secs(5), || replica.replicas().len() == 1).await;
    assert_eq!(replica.replicas(), [Box::<str>::from("storage")]);
    assert!(other.replicas().is_empty() && !other.has_ended(&session));
    assert!(!other.restore(&session).await.unwrap().is_lost);
}
