//! Notification streams of clients: one replica holds each.

use super::fixtures::{next, put};
use crate::SessionEvent::{Changed, StreamMoved};
use crate::contract::TestStorage;

pub async fn holder_learns_of_changes(test: TestStorage) {
    let (session, other) = (test.session(), test.session());
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    test.storage.hold_stream(&session).await.unwrap();
    test.replica.hold_stream(&other).await.unwrap();
    let replica = &*test.replica;
    let tag = put(replica, &session, "backend", b"1").await;
    assert_eq!(next(&mut events).await, Changed(session.id));
    replica.set_level(&session, "1").await.unwrap();
    assert_eq!(next(&mut events).await, Changed(session.id));
    for wanted in [true, false] {
        replica.subscribe(&session, "backend", "uri", wanted).await.unwrap();
        assert_eq!(next(&mut events).await, Changed(session.id));
    }
    replica.replace_backend_session(&session, "backend", Some(tag), None).await.unwrap();
    assert_eq!(next(&mut events).await, Changed(session.id));
    // Its own changes, and what changes nothing, it is not told.
    test.storage.set_level(&session, "2").await.unwrap();
    replica.subscribe(&session, "backend", "uri", false).await.unwrap();
    replica.replace_backend_session(&session, "backend", Some(tag), Some(vec![1])).await.unwrap();
    replica.restore(&session).await.unwrap();
    test.storage.set_level(&other, "3").await.unwrap();
    assert_eq!(next(&mut others).await, Changed(other.id));
    replica.end(&session).await.unwrap();
    assert_eq!(next(&mut events).await, crate::SessionEvent::Ended(session.id));
}

pub async fn last_holder_has_stream(test: TestStorage) {
    let session = test.session();
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
    let (mut events, mut others) = (test.storage.events(), test.replica.events());
    test.storage.hold_stream(&session).await.unwrap();
    test.replica.hold_stream(&session).await.unwrap();
    assert_eq!(next(&mut events).await, StreamMoved(session.id));
    test.storage.set_level(&session, "1").await.unwrap();
    assert_eq!(next(&mut others).await, Changed(session.id));
    test.replica.set_level(&session, "2").await.unwrap();
    test.storage.hold_stream(&other).await.unwrap();
    test.replica.set_level(&other, "1").await.unwrap();
    assert_eq!(next(&mut events).await, Changed(other.id));
    // A replica that left a session has no stream of it.
    test.replica.leave(&session).await.unwrap();
    test.storage.set_level(&session, "3").await.unwrap();
    test.storage.set_level(&other, "3").await.unwrap();
    test.replica.hold_stream(&other).await.unwrap();
    test.storage.set_level(&other, "4").await.unwrap();
    assert_eq!(next(&mut others).await, Changed(other.id));
}
