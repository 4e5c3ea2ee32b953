use super::fixtures::{
    DAY, HOUR, MINUTE, client, client_id, digest, grant_id, head, insert_code, insert_grant,
    insert_session, issuer, login, now, provider, row, run_concurrently, session, user,
};
use crate::contract::TestEnv;
use crate::{
    Ciphertext, Counts, Limits, LockOwner, Profile, Session, StoreError, Subject, SubjectName,
    UpstreamTokenLock, UpstreamTokenRecord,
};

pub async fn replaces_tokens_by_version(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let (github, google) = (provider("github"), provider("goo:gle"));
    let head = head(1, "alice");
    assert_eq!(store.session(&head.id).await, Ok(None));
    let (one, two, three) = (row("one", &clock), row("two", &clock), row("three", &clock));
    assert_eq!(store.put_upstream_token(&head, &github, &one, MINUTE).await, Ok(1));
    assert_eq!(store.put_upstream_token(&head, &google, &one, MINUTE).await, Ok(2));
    assert_eq!(replica.replace_upstream_token(&head.id, &github, 1, &two).await, Ok(Some(3)));
    assert_eq!(store.replace_upstream_token(&head.id, &github, 1, &three).await, Ok(None));
    assert_eq!(
        store.replace_upstream_token(&head.id, &provider("none"), 1, &three).await,
        Ok(None)
    );
    let rows = [
        (github, UpstreamTokenRecord { version: 3, ..two }),
        (google, UpstreamTokenRecord { version: 2, ..one }),
    ];
    let expected = Session {
        head: head.clone(),
        grant: None,
        created: now(&clock),
        expires: now(&clock) + MINUTE,
        rows: rows.into(),
    };
    assert_eq!(replica.session(&head.id).await, Ok(Some(expected)));
}

pub async fn one_of_concurrent_replacements_succeeds(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    insert_session(&*store, 1, &clock).await;
    let replaced = run_concurrently(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        let row = row(&format!("refreshed by {number}"), &clock);
        async move {
            store.replace_upstream_token(&session(1), &provider("github"), 1, &row).await.unwrap()
        }
    });
    let replaced: Vec<_> = replaced.await.into_iter().flatten().collect();
    assert_eq!(replaced, [2]);
}

pub async fn removes_one_token_only(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let (github, google) = (provider("github"), provider("google"));
    insert_session(&*store, 1, &clock).await;
    store
        .put_upstream_token(&head(1, "alice"), &google, &row("other", &clock), MINUTE)
        .await
        .unwrap();
    assert_eq!(store.remove_upstream_token(&session(1), &github, Some(7)).await, Ok(false));
    assert_eq!(store.remove_upstream_token(&session(1), &github, Some(1)).await, Ok(true));
    assert_eq!(store.remove_upstream_token(&session(1), &github, None).await, Ok(false));
    assert_eq!(store.remove_upstream_token(&session(2), &github, None).await, Ok(false));
    let rows = store.session(&session(1)).await.unwrap().unwrap().rows;
    assert!(rows.into_keys().eq([google.clone()]));
    assert_eq!(store.remove_upstream_token(&session(1), &google, None).await, Ok(true));
    // Versions are never reused: the new token cannot be mistaken for the removed one.
    let again =
        store.put_upstream_token(&head(1, "alice"), &github, &row("again", &clock), MINUTE).await;
    assert_eq!(again, Ok(3));
}

pub async fn lock_has_one_owner_at_a_time(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let github = provider("github");
    insert_session(&*store, 1, &clock).await;
    let locks = run_concurrently(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        let owner = LockOwner::from_bytes([u8::try_from(number).unwrap(); 16]);
        async move {
            let lock =
                store.lock_upstream_token(&session(1), &provider("github"), &owner, MINUTE).await;
            (owner, lock.unwrap())
        }
    });
    let there = UpstreamTokenLock::Acquired(Some(UpstreamTokenRecord {
        version: 1,
        ..row("tokens", &clock)
    }));
    let locks = locks.await;
    let acquired: Vec<_> = locks.iter().filter(|(_, lock)| *lock == there).collect();
    assert_eq!(acquired.len(), 1);
    assert_eq!(locks.iter().filter(|(_, lock)| *lock == UpstreamTokenLock::Held).count(), 99);
    let (owner, other) = (acquired[0].0, LockOwner::from_bytes([200; 16]));
    store.unlock_upstream_token(&session(1), &github, &other).await.unwrap();
    let lock = store.lock_upstream_token(&session(1), &github, &other, MINUTE).await;
    assert_eq!(lock, Ok(UpstreamTokenLock::Held));
    assert_eq!(
        store.lock_upstream_token(&session(1), &github, &owner, MINUTE).await,
        Ok(there.clone())
    );
    store.unlock_upstream_token(&session(1), &github, &owner).await.unwrap();
    assert_eq!(replica.lock_upstream_token(&session(1), &github, &other, MINUTE).await, Ok(there));
    // Other tokens, and missing ones, are not affected by the lock.
    let nothing = Ok(UpstreamTokenLock::Acquired(None));
    assert_eq!(
        store.lock_upstream_token(&session(1), &provider("google"), &owner, MINUTE).await,
        nothing
    );
    assert_eq!(store.lock_upstream_token(&session(9), &github, &owner, MINUTE).await, nothing);
}

pub async fn unreleased_lock_expires(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let github = provider("github");
    let [one, two] = [LockOwner::from_bytes([1; 16]), LockOwner::from_bytes([2; 16])];
    insert_session(&*store, 1, &clock).await;
    store.lock_upstream_token(&session(1), &github, &one, MINUTE).await.unwrap();
    clock.advance(MINUTE - MINUTE / 60);
    assert_eq!(
        store.lock_upstream_token(&session(1), &github, &two, MINUTE).await,
        Ok(UpstreamTokenLock::Held)
    );
    clock.advance(MINUTE / 60);
    let lock = store.lock_upstream_token(&session(1), &github, &two, MINUTE).await.unwrap();
    assert!(matches!(lock, UpstreamTokenLock::Acquired(Some(_))));
    store.unlock_upstream_token(&session(1), &github, &one).await.unwrap();
    assert_eq!(
        store.lock_upstream_token(&session(1), &github, &one, MINUTE).await,
        Ok(UpstreamTokenLock::Held)
    );
}

pub async fn tokens_expire_with_unextended_session(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_session(&*store, 1, &clock).await;
    insert_session(&*store, 2, &clock).await;
    assert_eq!(store.extend_session(&session(1), DAY).await, Ok(true));
    // An extension never shortens the lifetime.
    assert_eq!(store.extend_session(&session(1), HOUR).await, Ok(true));
    clock.advance(MINUTE * 10);
    assert_eq!(store.session(&session(2)).await, Ok(None));
    assert_eq!(store.extend_session(&session(2), HOUR).await, Ok(false));
    clock.advance(DAY - MINUTE * 11);
    assert_eq!(store.session(&session(1)).await.unwrap().unwrap().rows.len(), 1);
    clock.advance(MINUTE);
    assert_eq!(store.session(&session(1)).await, Ok(None));
    assert_eq!(store.sessions_of(&user("alice")).await, Ok(vec![]));
}

pub async fn ended_session_rejects_refreshed_token(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_session(&*store, 1, &clock).await;
    store.end_session(&session(1)).await.unwrap().unwrap();
    let row = row("refreshed", &clock);
    assert_eq!(
        store.replace_upstream_token(&session(1), &provider("github"), 1, &row).await,
        Ok(None)
    );
    assert_eq!(store.session(&session(1)).await, Ok(None));
}

pub async fn lists_sessions_of_user_newest_first(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    for number in 1..=3 {
        insert_session(&*store, number, &clock).await;
        clock.advance(MINUTE);
    }
    let bobs = head(4, "bob");
    store
        .put_upstream_token(&bobs, &provider("github"), &row("bob's", &clock), MINUTE)
        .await
        .unwrap();
    store.extend_session(&session(1), DAY).await.unwrap();
    let sessions = store.sessions_of(&user("alice")).await.unwrap();
    let names: Vec<_> = sessions.iter().map(|session| session.head.id).collect();
    assert_eq!(names, [session(3), session(2), session(1)]);
    assert_eq!(store.session(&session(2)).await, Ok(Some(sessions[1].clone())));
}

pub async fn session_limit_revokes_first_to_expire(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let limits = Limits { sessions_per_user: 2, sessions: 3, ..Limits::default() };
    let TestEnv { store, clock, .. } = fresh(limits).await;
    insert_grant(&*store, 1, &clock).await;
    insert_session(&*store, 2, &clock).await;
    store.extend_session(&session(2), DAY * 20).await.unwrap();
    let row = row("tokens", &clock);
    let put = async |number, person: &str| {
        store.put_upstream_token(&head(number, person), &provider("github"), &row, MINUTE).await
    };
    put(3, "alice").await.unwrap();
    assert_eq!(store.session(&session(1)).await, Ok(None));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
    assert!(store.session(&session(2)).await.unwrap().is_some());
    put(4, "bob").await.unwrap();
    assert_eq!(put(5, "carol").await, Err(StoreError::Full { what: "sessions" }));
    assert_eq!(store.session(&session(5)).await, Ok(None));
    clock.advance(MINUTE);
    put(5, "carol").await.unwrap();
}

pub async fn limits_tokens_of_a_session(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } =
        fresh(Limits { upstream_tokens_per_session: 2, ..Limits::default() }).await;
    let row = row("tokens", &clock);
    let put = async |name: &str| {
        store.put_upstream_token(&head(1, "alice"), &provider(name), &row, MINUTE).await
    };
    put("one").await.unwrap();
    put("two").await.unwrap();
    let full = StoreError::Full { what: "upstreams of this session" };
    assert_eq!(put("three").await, Err(full));
    assert_eq!(put("two").await, Ok(3));
}

pub async fn finds_latest_token_across_sessions(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let (alice, github) = (user("alice"), provider("github"));
    assert_eq!(store.latest_upstream_token(&alice, &github).await, Ok(None));
    for number in 1..=3 {
        insert_session(&*store, number, &clock).await;
        clock.advance(MINUTE);
    }
    let newest =
        UpstreamTokenRecord { sealed: Ciphertext::from_bytes(*b"newest"), ..row("", &clock) };
    store.replace_upstream_token(&session(2), &github, 1, &newest).await.unwrap();
    let bobs = head(4, "bob");
    clock.advance(MINUTE);
    store.put_upstream_token(&bobs, &github, &row("bob's", &clock), MINUTE).await.unwrap();
    let found = Some((session(2), UpstreamTokenRecord { version: 2, ..newest }));
    assert_eq!(store.latest_upstream_token(&alice, &github).await, Ok(found));
    assert_eq!(store.latest_upstream_token(&alice, &provider("google")).await, Ok(None));
    store.remove_upstream_token(&session(2), &github, None).await.unwrap();
    let (next, _) = store.latest_upstream_token(&alice, &github).await.unwrap().unwrap();
    assert_eq!(next, session(3));
}

pub async fn ending_a_session_revokes_its_grant(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    let revocation = store.end_session(&session(1)).await.unwrap().unwrap();
    assert_eq!((revocation.grant, revocation.session), (Some(grant_id(1)), session(1)));
    assert_eq!(store.end_session(&session(1)).await, Ok(None));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
    assert_eq!(store.sessions_of(&user("alice")).await, Ok(vec![]));
}

pub async fn counts_stored_records(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    assert_eq!(store.ready().await, Ok(()));
    assert_eq!(store.counts().await, Ok(Counts::default()));
    store.register(&client("client")).await.unwrap();
    store.put_login(&digest("state"), &login("client"), MINUTE).await.unwrap();
    insert_code(&*store, 1, &clock).await;
    insert_grant(&*store, 2, &clock).await;
    let subject = Subject {
        provider: provider("github"),
        issuer: issuer("github"),
        name: SubjectName::new("1").unwrap(),
    };
    store.upsert_user(&subject, &user("alice"), &Profile::default()).await.unwrap();
    store.put_browser(&digest("cookie"), &user("alice"), None, DAY).await.unwrap();
    let sealed = Ciphertext::from_bytes(*b"registration");
    store.put_registration(&digest("key"), &sealed, DAY).await.unwrap();
    let counts = Counts {
        clients: 1,
        logins: 1,
        codes: 2,
        grants: 1,
        sessions: 2,
        users: 1,
        browsers: 1,
        registrations: 1,
    };
    assert_eq!(store.counts().await, Ok(counts));
}
