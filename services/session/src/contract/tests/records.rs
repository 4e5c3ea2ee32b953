//! Records: what is stored is what a replica restores.

use super::fixtures::put;
use crate::contract::TestStorage;
use crate::{
    BackendEntry, MAX_RECORD_BYTES, MAX_SUBSCRIPTIONS, RestoredRecord, SessionId, SessionKey,
    SessionRecord, StorageError,
};

pub async fn new_record_is_empty(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    let expected = RestoredRecord { record: SessionRecord::default(), is_lost: false };
    assert_eq!(test.replica.restore(&session).await.unwrap(), expected);
}

pub async fn record_is_created_once(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    test.storage.set_level(&session, "1").await.unwrap();
    test.storage.create(&session).await.unwrap();
    let restored = test.replica.restore(&session).await.unwrap();
    assert_eq!((restored.record.level.as_deref(), restored.is_lost), (Some("1"), false));
}

pub async fn replica_restores_each_value(test: TestStorage) {
    let (session, storage) = (test.session(), &*test.storage);
    storage.create(&session).await.unwrap();
    storage.set_level(&session, "\"debug\"").await.unwrap();
    storage.set_level(&session, "\"info\"").await.unwrap();
    let two = put(storage, &session, "two", b"session 2").await;
    let one = put(storage, &session, "one", b"session 1").await;
    for (backend, uri) in [("two", "file:///b"), ("one", "file:///b"), ("two", "file:///a")] {
        storage.subscribe(&session, backend, uri, true).await.unwrap();
    }
    let entry = |tag, value: &[u8]| BackendEntry { tag, value: value.to_vec() };
    let subscriptions =
        [("one", "file:///b"), ("two", "file:///a"), ("two", "file:///b")].map(texts);
    let record = SessionRecord {
        level: Some("\"info\"".into()),
        backend_sessions: vec![
            ("one".into(), entry(one, b"session 1")),
            ("two".into(), entry(two, b"session 2")),
        ],
        subscriptions: subscriptions.to_vec(),
    };
    let restored = test.replica.restore(&session).await.unwrap();
    assert_eq!(restored, RestoredRecord { record: record.clone(), is_lost: false });
    let held = test.replica.hold_stream(&session).await.unwrap();
    assert_eq!(held, RestoredRecord { record, is_lost: false });
    assert!(!format!("{restored:?}").contains("session 1"));
}

pub async fn values_may_have_any_bytes(test: TestStorage) {
    let (session, storage) = (test.session(), &*test.storage);
    let names = ["", ":", "a:b", "ü 1", "*"];
    for name in names {
        put(storage, &session, name, &[0, 255, b'\n', 13]).await;
        for uri in ["", "a\0b", "x://ü:1\n"] {
            storage.subscribe(&session, name, uri, true).await.unwrap();
        }
    }
    storage.subscribe(&session, "a:b", "", false).await.unwrap();
    let record = test.replica.restore(&session).await.unwrap().record;
    let mut sorted = names.map(Box::<str>::from);
    sorted.sort_unstable();
    assert_eq!(
        record.backend_sessions.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        [&sorted[0], &sorted[1], &sorted[2], &sorted[3], &sorted[4]]
    );
    assert!(record.backend_sessions.iter().all(|(_, entry)| entry.value == [0, 255, 10, 13]));
    assert_eq!(record.subscriptions.len(), 14);
    assert!(record.subscriptions.contains(&texts((":", "a\0b"))));
    assert!(record.subscriptions.is_sorted());
}

pub async fn missing_record_is_lost_for_each_replica(test: TestStorage) {
    let session = test.session();
    let expected = RestoredRecord { record: SessionRecord::default(), is_lost: true };
    for storage in [&test.storage, &test.replica, &test.storage] {
        assert_eq!(storage.restore(&session).await.unwrap(), expected);
    }
    put(&*test.storage, &session, "backend", b"1").await;
    let restored = test.replica.restore(&session).await.unwrap();
    assert!(restored.is_lost && restored.record.backend_sessions.len() == 1);
}

pub async fn write_creates_missing_record(test: TestStorage) {
    let sessions: [_; 4] = std::array::from_fn(|_| test.session());
    let storage = &*test.storage;
    storage.set_level(&sessions[0], "1").await.unwrap();
    storage.subscribe(&sessions[1], "backend", "a", true).await.unwrap();
    put(storage, &sessions[2], "backend", b"1").await;
    storage.hold_stream(&sessions[3]).await.unwrap();
    for session in &sessions {
        assert!(test.replica.restore(session).await.unwrap().is_lost);
        assert!(test.replica.leave(session).await.unwrap().is_none(), "the creator uses it");
    }
}

pub async fn sessions_are_separate(test: TestStorage) {
    let session = test.session();
    let sibling = test.session_of(session.owner);
    let stranger = test.anonymous_session();
    for (session, level) in [(&session, "1"), (&sibling, "2"), (&stranger, "3")] {
        test.storage.create(session).await.unwrap();
        test.storage.set_level(session, level).await.unwrap();
        put(&*test.storage, session, "backend", level.as_bytes()).await;
    }
    for (session, level) in [(&session, "1"), (&sibling, "2"), (&stranger, "3")] {
        let record = test.replica.restore(session).await.unwrap().record;
        assert_eq!(record.level.as_deref(), Some(level));
        assert_eq!(record.backend_sessions[0].1.value, level.as_bytes());
        assert_eq!(record.backend_sessions.len(), 1);
    }
    // Identifiers are random. One that another owner presents shows nothing.
    let thief = SessionKey { owner: stranger.owner, ..session };
    let stolen = test.replica.restore(&thief).await;
    assert!(stolen.is_err() || stolen.unwrap().record == SessionRecord::default());
    let id = SessionId::random().unwrap();
    let record = test.replica.restore(&SessionKey { id, ..session }).await.unwrap().record;
    assert_eq!(record, SessionRecord::default());
}

pub async fn record_has_limited_size(test: TestStorage) {
    let (session, storage) = (test.session(), &*test.storage);
    let full = Err(StorageError::RecordFull);
    let large = "x".repeat(MAX_RECORD_BYTES + 1);
    assert_eq!(storage.set_level(&session, &large).await, full);
    assert_eq!(storage.subscribe(&session, "backend", &large, true).await, full);
    let value = Some(large.into_bytes());
    let stored = storage.replace_backend_session(&session, "backend", None, value).await;
    assert_eq!(stored, Err(StorageError::RecordFull));
    // Replaced and removed values do not count.
    let half = vec![b'x'; MAX_RECORD_BYTES / 2];
    let mut tag = put(storage, &session, "backend", &half).await;
    for _ in 0..3 {
        let value = Some(half.clone());
        let stored =
            storage.replace_backend_session(&session, "backend", Some(tag), value).await.unwrap();
        let crate::Replacement::Stored(Some(new)) = stored else { panic!("{stored:?}") };
        tag = new;
    }
    let long = "x".repeat(100_000);
    for round in 0..3 {
        for number in 0..4 {
            let uri = format!("{round}:{number}:{long}");
            storage.subscribe(&session, "backend", &uri, true).await.unwrap();
        }
        let uri = format!("{round}:5:{long}{long}");
        assert_eq!(storage.subscribe(&session, "backend", &uri, true).await, full);
        for number in 0..4 {
            let uri = format!("{round}:{number}:{long}");
            storage.subscribe(&session, "backend", &uri, false).await.unwrap();
        }
    }
    let record = test.replica.restore(&session).await.unwrap().record;
    assert_eq!((record.subscriptions.len(), record.level), (0, None));
    assert_eq!(record.backend_sessions[0].1.value, half);
}

pub async fn backend_has_limited_subscriptions(test: TestStorage) {
    let (session, storage) = (test.session(), &*test.storage);
    let subscribe = |number: usize, wanted| async move {
        storage.subscribe(&session, "backend", &number.to_string(), wanted).await
    };
    for number in 0..MAX_SUBSCRIPTIONS {
        subscribe(number, true).await.unwrap();
    }
    let refused = subscribe(MAX_SUBSCRIPTIONS, true).await;
    assert_eq!(refused, Err(StorageError::TooManySubscriptions));
    subscribe(0, true).await.unwrap();
    storage.subscribe(&session, "other", "0", true).await.unwrap();
    subscribe(1, false).await.unwrap();
    subscribe(MAX_SUBSCRIPTIONS, true).await.unwrap();
    let record = test.replica.restore(&session).await.unwrap().record;
    assert_eq!(record.subscriptions.len(), MAX_SUBSCRIPTIONS + 1);
}

pub async fn subscription_is_kept_once(test: TestStorage) {
    let session = test.session();
    for storage in [&test.storage, &test.replica] {
        storage.subscribe(&session, "backend", "uri", true).await.unwrap();
    }
    let record = test.replica.restore(&session).await.unwrap().record;
    assert_eq!(record.subscriptions, [texts(("backend", "uri"))]);
    for storage in [&test.storage, &test.replica] {
        storage.subscribe(&session, "backend", "uri", false).await.unwrap();
    }
    let record = test.replica.restore(&session).await.unwrap().record;
    assert_eq!(record.subscriptions, []);
}

fn texts((backend, uri): (&str, &str)) -> (Box<str>, Box<str>) {
    (backend.into(), uri.into())
}
