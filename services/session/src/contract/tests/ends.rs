//! Ends of sessions.

use futures_util::StreamExt;
use futures_util::stream::iter;

use super::fixtures::{next, next_end, put};
use crate::contract::TestStorage;
use crate::{MAX_TOMBSTONES_PER_OWNER, SessionEvent, SessionKey, SessionRecord, StorageError};

pub async fn ended_session_rejects_each_step(test: TestStorage) {
    let (session, other) = (test.session(), test.session());
    test.storage.create(&session).await.unwrap();
    test.storage.end(&session).await.unwrap();
    for storage in [&test.storage, &test.replica] {
        let ended = Some(StorageError::Ended);
        assert_eq!(storage.create(&session).await.err(), ended);
        assert_eq!(storage.restore(&session).await.err(), ended);
        for value in [None, Some(vec![1])] {
            let replaced = storage.replace_backend_session(&session, "backend", None, value).await;
            assert_eq!(replaced.err(), ended);
        }
        let own = SessionRecord { level: Some("1".into()), ..SessionRecord::default() };
        assert_eq!(storage.merge(&session, &own, true).await.err(), ended);
        assert_eq!(storage.set_level(&session, "1").await.err(), ended);
        for wanted in [true, false] {
            assert_eq!(storage.subscribe(&session, "backend", "1", wanted).await.err(), ended);
        }
        assert_eq!(storage.hold_stream(&session).await.err(), ended);
        assert_eq!(storage.leave(&session).await.err(), ended);
        assert_eq!(storage.check(&session).await.err(), ended);
        storage.touch(&[session, other]).await.unwrap();
        storage.check(&other).await.unwrap();
    }
}

pub async fn end_returns_entries_once(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    put(&*test.storage, &session, "two", b"2").await;
    put(&*test.storage, &session, "one", b"1").await;
    test.storage.set_level(&session, "1").await.unwrap();
    let entries = test.replica.end(&session).await.unwrap();
    let values = entries.iter().map(|(name, entry)| (&**name, &*entry.value));
    assert_eq!(values.collect::<Vec<_>>(), [("one", &b"1"[..]), ("two", b"2")]);
    for storage in [&test.storage, &test.replica] {
        assert_eq!(storage.end(&session).await.unwrap(), []);
    }
}

pub async fn each_replica_learns_of_end(test: TestStorage) {
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    let (session, other) = (test.session(), test.session());
    let before = test.replica.ended();
    for session in [&session, &other] {
        test.storage.create(session).await.unwrap();
    }
    assert!(!test.storage.has_ended(&session));
    test.storage.end(&session).await.unwrap();
    assert!(test.storage.has_ended(&session), "at once where it ended");
    test.until(|| test.replica.has_ended(&session)).await;
    assert!(!test.storage.has_ended(&other) && !test.replica.has_ended(&other));
    assert_eq!(test.replica.ended(), before + 1);
    for events in [&mut events, &mut others] {
        assert_eq!(next(events).await, SessionEvent::Ended(session.id));
    }
    // No message repeats an end.
    test.replica.end(&session).await.unwrap();
    test.replica.end(&other).await.unwrap();
    for events in [&mut events, &mut others] {
        assert_eq!(next(events).await, SessionEvent::Ended(other.id));
    }
}

pub async fn end_needs_no_record(test: TestStorage) {
    let session = test.session();
    assert_eq!(test.storage.end(&session).await.unwrap(), []);
    assert_eq!(test.replica.restore(&session).await, Err(StorageError::Ended));
}

pub async fn other_sessions_of_owner_go_on(test: TestStorage) {
    let (session, stranger) = (test.session(), test.anonymous_session());
    let sibling = test.session_of(session.owner);
    for session in [&session, &sibling, &stranger] {
        test.storage.create(session).await.unwrap();
    }
    test.storage.end(&session).await.unwrap();
    for session in [&sibling, &stranger] {
        test.replica.check(session).await.unwrap();
        assert!(!test.replica.restore(session).await.unwrap().is_lost);
    }
}

pub async fn many_ends_end_earlier_sessions_of_owner(test: TestStorage) {
    let session = test.session();
    let later = SessionKey { issued_at: test.now + 3600, ..test.session_of(session.owner) };
    let stranger = test.session();
    for session in [&session, &later, &stranger] {
        test.storage.create(session).await.unwrap();
    }
    let mut events = test.replica.events();
    end_many(&test, || test.session_of(session.owner)).await;
    for storage in [&test.storage, &test.replica] {
        storage.check(&session).await.unwrap();
    }
    test.storage.end(&test.session_of(session.owner)).await.unwrap();
    for storage in [&test.storage, &test.replica] {
        test.until(|| storage.has_ended(&session)).await;
        assert_eq!(storage.check(&session).await, Err(StorageError::Ended));
        for other in [&later, &stranger] {
            storage.check(other).await.unwrap();
            assert!(!storage.has_ended(other));
        }
    }
    for _ in 0..MAX_TOMBSTONES_PER_OWNER {
        assert!(matches!(next_end(&mut events).await, SessionEvent::Ended(_)));
    }
    let SessionEvent::AllEnded { owner, until } = next_end(&mut events).await else {
        panic!("all ended")
    };
    assert_eq!(owner, session.owner);
    assert_eq!(until, test.now, "the begin of the last one");
    for storage in [&test.storage, &test.replica] {
        assert_eq!(storage.all_ended_until(&owner), Some(until));
        assert_eq!(storage.all_ended_until(&stranger.owner), None);
    }
    // A session that begins a moment later goes on.
    let next = SessionKey { issued_at: until + 1, ..test.session_of(owner) };
    test.storage.create(&next).await.unwrap();
    assert!(!test.replica.restore(&next).await.unwrap().is_lost);
    assert!(!test.replica.has_ended(&next));
    // The record of a session that ended with others is of no use.
    assert_eq!(test.storage.end(&session).await.unwrap(), []);
}

pub async fn anonymous_ends_keep_sessions_of_others(test: TestStorage) {
    let first = SessionKey { issued_at: test.now - 60, ..test.anonymous_session() };
    let session = test.anonymous_session();
    test.storage.create(&session).await.unwrap();
    test.storage.end(&first).await.unwrap();
    end_many(&test, || test.anonymous_session()).await;
    for storage in [&test.storage, &test.replica] {
        storage.check(&session).await.unwrap();
        // The oldest one is forgotten.
        storage.check(&first).await.unwrap();
    }
    assert!(!test.replica.restore(&session).await.unwrap().is_lost);
    test.storage.end(&session).await.unwrap();
    assert_eq!(test.replica.check(&session).await, Err(StorageError::Ended));
}

pub async fn concurrent_end_wins_over_writes(test: TestStorage) {
    for _ in 0..20 {
        let session = test.session();
        test.storage.create(&session).await.unwrap();
        let value = || Some(b"1".to_vec());
        let (ended, stored, restored) = tokio::join!(
            test.storage.end(&session),
            test.replica.replace_backend_session(&session, "backend", None, value()),
            test.replica.restore(&session),
        );
        // The entry is returned, or refused: none stays behind.
        assert_eq!(ended.unwrap().len(), usize::from(stored.is_ok()));
        assert!(restored.is_ok_and(|restored| !restored.is_lost) || stored.is_err());
        assert_eq!(test.replica.restore(&session).await, Err(StorageError::Ended));
    }
}

/// Ends as many sessions as an owner has tombstones.
async fn end_many(test: &TestStorage, session: impl Fn() -> SessionKey) {
    let sessions: Vec<_> = (0..MAX_TOMBSTONES_PER_OWNER).map(|_| session()).collect();
    let ends = iter(sessions).map(|session| async move { test.storage.end(&session).await });
    let ended: Vec<_> = ends.buffer_unordered(50).collect().await;
    assert!(ended.into_iter().all(|ended| ended == Ok(Vec::new())));
}
