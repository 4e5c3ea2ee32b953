//! Entries of backends: compare-and-set.

use super::fixtures::put;
use crate::contract::TestStorage;
use crate::{EntryTag, Replacement};

pub async fn entry_is_replaced_by_its_tag(test: TestStorage) {
    let session = test.session();
    let first = put(&*test.storage, &session, "backend", b"1").await;
    let replace = async |expected, value: Option<&[u8]>| {
        let value = value.map(<[u8]>::to_vec);
        test.replica.replace_backend_session(&session, "backend", expected, value).await.unwrap()
    };
    for wrong in [None, EntryTag::random()] {
        for value in [Some(&b"2"[..]), None] {
            let Replacement::Conflict(Some(present)) = replace(wrong, value).await else {
                panic!("the entry has another tag");
            };
            assert_eq!((present.tag, &*present.value), (first, &b"1"[..]));
        }
    }
    let Replacement::Stored(Some(second)) = replace(Some(first), Some(b"2")).await else {
        panic!("the entry has this tag");
    };
    assert_ne!(first, second);
    assert!(matches!(replace(Some(first), Some(b"3")).await, Replacement::Conflict(Some(_))));
    let record = test.storage.restore(&session).await.unwrap().record;
    let [(name, entry)] = &*record.backend_sessions else { panic!("{record:?}") };
    assert_eq!((&**name, entry.tag, &*entry.value), ("backend", second, &b"2"[..]));
}

pub async fn concurrent_replicas_store_one_entry(test: TestStorage) {
    for _ in 0..20 {
        let session = test.session();
        let put = |storage: &'static str| {
            let at = if storage == "1" { &test.storage } else { &test.replica };
            let value = Some(storage.as_bytes().to_vec());
            async move { at.replace_backend_session(&session, "backend", None, value).await }
        };
        let (one, other) = tokio::join!(put("1"), put("2"));
        let (winner, value, loser) = match (one.unwrap(), other.unwrap()) {
            (Replacement::Stored(Some(tag)), Replacement::Conflict(Some(entry))) => {
                (tag, b"1", entry)
            }
            (Replacement::Conflict(Some(entry)), Replacement::Stored(Some(tag))) => {
                (tag, b"2", entry)
            }
            both => panic!("{both:?}"),
        };
        assert_eq!((loser.tag, &*loser.value), (winner, &value[..]));
    }
}

pub async fn removed_entry_leaves_others(test: TestStorage) {
    let session = test.session();
    let tag = put(&*test.storage, &session, "one", b"1").await;
    put(&*test.storage, &session, "two", b"2").await;
    for storage in [&test.replica, &test.storage] {
        let removed = storage.replace_backend_session(&session, "one", Some(tag), None).await;
        assert_eq!(removed.unwrap(), Replacement::Stored(None));
    }
    let record = test.replica.restore(&session).await.unwrap().record;
    assert_eq!(record.backend_sessions.len(), 1);
    let value = Some(b"3".to_vec());
    let stored = test.replica.replace_backend_session(&session, "one", Some(tag), value).await;
    assert_eq!(stored.unwrap(), Replacement::Conflict(None));
    put(&*test.replica, &session, "one", b"3").await;
}
