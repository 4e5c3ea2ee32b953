//! Lost records, into which replicas enter what they have.

use super::fixtures::{next, put};
use crate::SessionEvent::{Changed, Ended, LevelChanged, RecordLost, StreamMoved};
use crate::contract::TestStorage;
use crate::{BackendEntry, EntryTag, MAX_SUBSCRIPTIONS, SessionKey, SessionRecord, SessionStorage};

/// Returns a record that a replica has.
fn own(backends: &[(&str, BackendEntry)], uris: &[&str]) -> SessionRecord {
    SessionRecord {
        level: Some("1".into()),
        backend_sessions: backends
            .iter()
            .map(|(name, entry)| ((*name).into(), entry.clone()))
            .collect(),
        subscriptions: uris.iter().map(|uri| ("backend".into(), (*uri).into())).collect(),
    }
}

fn entry(value: &[u8]) -> BackendEntry {
    BackendEntry { tag: EntryTag::random().unwrap(), value: value.to_vec() }
}

pub async fn each_replica_learns_of_lost_record(test: TestStorage) {
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    let sessions: [SessionKey; 6] = std::array::from_fn(|_| test.session());
    let storage = &*test.storage;
    storage.restore(&sessions[0]).await.unwrap();
    storage.set_level(&sessions[1], "1").await.unwrap();
    storage.subscribe(&sessions[2], "backend", "uri", true).await.unwrap();
    put(storage, &sessions[3], "backend", b"1").await;
    storage.hold_stream(&sessions[4]).await.unwrap();
    storage.touch(&[sessions[5]]).await.unwrap();
    for session in &sessions {
        assert_eq!(next(&mut events).await, RecordLost(session.id));
        assert_eq!(next(&mut others).await, RecordLost(session.id));
        if session == &sessions[1] {
            assert_eq!(next(&mut others).await, LevelChanged(session.id));
        }
    }
    // Once, and not of a record that is new or there.
    test.replica.restore(&sessions[0]).await.unwrap();
    let new = test.session();
    storage.create(&new).await.unwrap();
    test.replica.restore(&new).await.unwrap();
    let ended = test.session();
    storage.end(&ended).await.unwrap();
    for expected in [RecordLost(ended.id), Ended(ended.id)] {
        assert_eq!(next(&mut others).await, expected);
    }
}

pub async fn merge_enters_what_is_missing(test: TestStorage) {
    let (session, kept) = (test.session(), entry(b"one"));
    let present = put(&*test.replica, &session, "two", b"2").await;
    let own = own(&[("one", kept.clone()), ("two", entry(b"other"))], &["a", "b"]);
    let merged = test.storage.merge(&session, &own, false).await.unwrap();
    assert!(merged.is_lost);
    let two = BackendEntry { tag: present, value: b"2".to_vec() };
    let backend_sessions = vec![("one".into(), kept.clone()), ("two".into(), two)];
    let expected = SessionRecord { backend_sessions, ..own };
    assert_eq!(merged.record, expected);
    assert_eq!(test.replica.restore(&session).await.unwrap().record, expected);
    // The entry keeps its tag.
    let replaced = test.replica.replace_backend_session(&session, "one", Some(kept.tag), None);
    assert_eq!(replaced.await.unwrap(), crate::Replacement::Stored(None));
    // A present value is not replaced.
    test.replica.set_level(&session, "2").await.unwrap();
    let merged = test.storage.merge(&session, &expected, false).await.unwrap();
    assert_eq!(merged.record.level.as_deref(), Some("2"));
}

pub async fn merge_adds_subscriptions_of_lost_record_once(test: TestStorage) {
    let (lost, known) = (test.session(), test.session());
    test.storage.create(&known).await.unwrap();
    let own_of = |uris: &[&str]| own(&[], uris);
    let count = async |storage: &dyn SessionStorage, session, uris: &[&str]| {
        let merged = storage.merge(session, &own_of(uris), false).await.unwrap();
        merged.record.subscriptions.len()
    };
    assert_eq!(count(&*test.storage, &known, &["a"]).await, 0, "another replica removed it");
    assert_eq!(count(&*test.storage, &lost, &["a", "b"]).await, 2);
    assert_eq!(count(&*test.replica, &lost, &["b", "c"]).await, 3);
    test.replica.subscribe(&lost, "backend", "a", false).await.unwrap();
    assert_eq!(count(&*test.storage, &lost, &["a", "b"]).await, 2);
    let many: Vec<_> = (0..=MAX_SUBSCRIPTIONS).map(|number| number.to_string()).collect();
    let many: Vec<_> = many.iter().map(|uri| &**uri).collect();
    assert_eq!(count(&*test.storage, &test.session(), &many).await, MAX_SUBSCRIPTIONS);
}

pub async fn merge_takes_stream_of_nobody_else(test: TestStorage) {
    let session = test.session();
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    let none = SessionRecord::default();
    test.storage.merge(&session, &none, true).await.unwrap();
    assert_eq!(next(&mut others).await, RecordLost(session.id));
    test.replica.subscribe(&session, "backend", "a", true).await.unwrap();
    assert_eq!(next(&mut events).await, Changed(session.id));
    test.replica.merge(&session, &none, true).await.unwrap();
    assert_eq!(next(&mut others).await, StreamMoved(session.id));
    // It does not have it: the holder learns of what it enters.
    test.replica.merge(&session, &own(&[("one", entry(b"1"))], &[]), false).await.unwrap();
    assert_eq!(next(&mut events).await, Changed(session.id));
    assert_eq!(next(&mut events).await, LevelChanged(session.id));
    // It goes on holding it.
    test.storage.merge(&session, &none, true).await.unwrap();
    test.replica.subscribe(&session, "backend", "b", true).await.unwrap();
    assert_eq!(next(&mut events).await, Changed(session.id));
}
