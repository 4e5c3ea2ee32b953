//! Use of sessions by replicas, and the replicas themselves.

use std::time::Duration;

use super::fixtures::put;
use crate::contract::TestStorage;
use crate::{Liveness, SessionKey};

pub async fn left_record_is_removed(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    put(&*test.storage, &session, "backend", b"1").await;
    let record = test.storage.leave(&session).await.unwrap().unwrap();
    assert_eq!(&*record.backend_sessions[0].1.value, b"1");
    assert_eq!(test.storage.leave(&session).await.unwrap(), None);
    // It did not end.
    let restored = test.replica.restore(&session).await.unwrap();
    assert!(restored.is_lost && restored.record.backend_sessions.is_empty());
}

pub async fn left_record_stays_for_other_replica(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    test.replica.restore(&session).await.unwrap();
    assert_eq!(test.storage.leave(&session).await.unwrap(), None);
    assert!(!test.storage.restore(&session).await.unwrap().is_lost);
    assert_eq!(test.storage.leave(&session).await.unwrap(), None);
    assert!(test.replica.leave(&session).await.unwrap().is_some());
}

pub async fn unused_record_is_left_by_last_replica(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    (test.advance)(test.ttl + test.ttl / 2).await;
    test.replica.restore(&session).await.unwrap();
    // The replica that created it did not use it since.
    assert!(test.replica.leave(&session).await.unwrap().is_some());
}

pub async fn touched_record_stays_for_other_replica(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    (test.advance)(test.ttl + test.ttl / 2).await;
    test.storage.touch(&[session]).await.unwrap();
    test.replica.restore(&session).await.unwrap();
    assert_eq!(test.replica.leave(&session).await.unwrap(), None);
}

pub async fn touch_creates_no_record(test: TestStorage) {
    let session = test.session();
    test.storage.touch(&[session]).await.unwrap();
    assert_eq!(test.storage.leave(&session).await.unwrap(), None);
    test.storage.create(&session).await.unwrap();
    assert!(!test.replica.restore(&session).await.unwrap().is_lost);
}

pub async fn touch_takes_many_sessions(test: TestStorage) {
    let sessions: Vec<SessionKey> = (0..1500).map(|_| test.session()).collect();
    let [first, .., last] = &*sessions else { panic!("there are many") };
    for session in [first, last] {
        test.storage.create(session).await.unwrap();
    }
    test.replica.touch(&sessions).await.unwrap();
    for session in [first, last] {
        assert_eq!(test.storage.leave(session).await.unwrap(), None, "the other one uses it");
    }
    test.replica.touch(&[]).await.unwrap();
}

pub async fn announced_replicas_know_each_other(test: TestStorage) {
    test.storage.announce("storage");
    test.until(|| test.replica.replicas() == ["storage".into()]).await;
    assert!(test.storage.replicas().is_empty());
    test.replica.announce("replica");
    test.storage.announce("storage 2");
    test.until(|| test.storage.replicas() == ["replica".into()]).await;
    test.until(|| test.replica.replicas() == ["storage 2".into()]).await;
}

pub async fn messages_are_current(test: TestStorage) {
    for _ in 0..10 {
        for storage in [&test.storage, &test.replica] {
            test.until(|| storage.liveness() == Liveness::Current).await;
        }
        (test.advance)(Duration::from_millis(20)).await;
    }
}
