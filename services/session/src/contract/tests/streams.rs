//! Notification streams of clients: one replica holds each.

use super::fixtures::{next, put};
use crate::SessionEvent::{Changed, LevelChanged, StreamMoved};
use crate::SessionStorage;
use crate::contract::TestStorage;

pub async fn holder_learns_of_changes(test: TestStorage) {
    let (session, other) = (test.session(), test.session());
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    for session in [&session, &other] {
        test.storage.create(session).await.unwrap();
    }
    test.storage.hold_stream(&session).await.unwrap();
    test.replica.hold_stream(&other).await.unwrap();
    let replica = &*test.replica;
    let tag = put(replica, &session, "backend", b"1").await;
    assert_eq!(next(&mut events).await, Changed(session.id));
    for wanted in [true, false] {
        replica.subscribe(&session, "backend", "uri", wanted).await.unwrap();
        assert_eq!(next(&mut events).await, Changed(session.id));
    }
    replica.replace_backend_session(&session, "backend", Some(tag), None).await.unwrap();
    assert_eq!(next(&mut events).await, Changed(session.id));
    // Its own changes, and what changes nothing, it is not told.
    test.storage.subscribe(&session, "backend", "own", true).await.unwrap();
    replica.subscribe(&session, "backend", "uri", false).await.unwrap();
    replica.replace_backend_session(&session, "backend", Some(tag), Some(vec![1])).await.unwrap();
    replica.restore(&session).await.unwrap();
    test.storage.subscribe(&other, "backend", "uri", true).await.unwrap();
    assert_eq!(next(&mut others).await, Changed(other.id));
    replica.end(&session).await.unwrap();
    assert_eq!(next(&mut events).await, crate::SessionEvent::Ended(session.id));
}

pub async fn last_holder_has_stream(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    for _ in 0..2 {
        test.storage.hold_stream(&session).await.unwrap();
        test.storage.hold_stream(&session).await.unwrap();
        test.replica.hold_stream(&session).await.unwrap();
        assert_eq!(next(&mut events).await, StreamMoved(session.id));
        test.storage.hold_stream(&session).await.unwrap();
        assert_eq!(next(&mut others).await, StreamMoved(session.id));
    }
}

pub async fn former_holder_learns_of_no_change(test: TestStorage) {
    let (session, other) = (test.session(), test.session());
    for session in [&session, &other] {
        test.storage.create(session).await.unwrap();
    }
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    let subscribe = async |storage: &dyn SessionStorage, session, uri| {
        storage.subscribe(session, "backend", uri, true).await.unwrap();
    };
    test.storage.hold_stream(&session).await.unwrap();
    test.replica.hold_stream(&session).await.unwrap();
    assert_eq!(next(&mut events).await, StreamMoved(session.id));
    subscribe(&*test.storage, &session, "1").await;
    assert_eq!(next(&mut others).await, Changed(session.id));
    subscribe(&*test.replica, &session, "2").await;
    test.storage.hold_stream(&other).await.unwrap();
    subscribe(&*test.replica, &other, "1").await;
    assert_eq!(next(&mut events).await, Changed(other.id));
    // A replica that left a session has no stream of it.
    test.replica.leave(&session).await.unwrap();
    subscribe(&*test.storage, &session, "3").await;
    subscribe(&*test.storage, &other, "3").await;
    test.replica.hold_stream(&other).await.unwrap();
    subscribe(&*test.storage, &other, "4").await;
    assert_eq!(next(&mut others).await, Changed(other.id));
}

pub async fn other_replicas_learn_of_level(test: TestStorage) {
    let session = test.session();
    test.storage.create(&session).await.unwrap();
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    for (level, storage, events) in
        [("1", &test.storage, &mut others), ("2", &test.replica, &mut events)]
    {
        storage.set_level(&session, level).await.unwrap();
        assert_eq!(next(events).await, LevelChanged(session.id));
    }
}
