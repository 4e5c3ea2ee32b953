use super::given::{
    DAY, HOUR, MINUTE, at_once, client, client_id, digest, given_code, given_grant, given_session,
    grant_id, head, issuer, login, now, provider, row, session, user,
};
use crate::contract::World;
use crate::{
    Counts, Limits, LockOwner, Profile, Row, RowLock, Sealed, Session, StoreError, Subject,
    SubjectName,
};

pub async fn rows_are_counted_and_replaced_by_version(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    let (github, google) = (provider("github"), provider("goo:gle"));
    let head = head(1, "alice");
    assert_eq!(store.session(&head.id).await, Ok(None));
    let (one, two, three) = (row("one", &clock), row("two", &clock), row("three", &clock));
    assert_eq!(store.put_row(&head, &github, &one, MINUTE).await, Ok(1));
    assert_eq!(store.put_row(&head, &google, &one, MINUTE).await, Ok(2));
    assert_eq!(replica.replace_row(&head.id, &github, 1, &two).await, Ok(Some(3)));
    assert_eq!(store.replace_row(&head.id, &github, 1, &three).await, Ok(None));
    assert_eq!(store.replace_row(&head.id, &provider("none"), 1, &three).await, Ok(None));
    let rows = [(github, Row { version: 3, ..two }), (google, Row { version: 2, ..one })];
    let expected = Session {
        head: head.clone(),
        grant: None,
        created: now(&clock),
        expires: now(&clock) + MINUTE,
        rows: rows.into(),
    };
    assert_eq!(replica.session(&head.id).await, Ok(Some(expected)));
}

pub async fn of_many_that_replace_a_version_one_does(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    given_session(&*store, 1, &clock).await;
    let replaced = at_once(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        let row = row(&format!("refreshed by {number}"), &clock);
        async move { store.replace_row(&session(1), &provider("github"), 1, &row).await.unwrap() }
    });
    let replaced: Vec<_> = replaced.await.into_iter().flatten().collect();
    assert_eq!(replaced, [2]);
}

pub async fn a_row_is_dropped_alone(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let (github, google) = (provider("github"), provider("google"));
    given_session(&*store, 1, &clock).await;
    store.put_row(&head(1, "alice"), &google, &row("other", &clock), MINUTE).await.unwrap();
    assert_eq!(store.drop_row(&session(1), &github, Some(7)).await, Ok(false));
    assert_eq!(store.drop_row(&session(1), &github, Some(1)).await, Ok(true));
    assert_eq!(store.drop_row(&session(1), &github, None).await, Ok(false));
    assert_eq!(store.drop_row(&session(2), &github, None).await, Ok(false));
    let rows = store.session(&session(1)).await.unwrap().unwrap().rows;
    assert!(rows.into_keys().eq([google.clone()]));
    assert_eq!(store.drop_row(&session(1), &google, None).await, Ok(true));
    // A version never comes back, so that who read the dropped row cannot mistake the new one.
    let again = store.put_row(&head(1, "alice"), &github, &row("again", &clock), MINUTE).await;
    assert_eq!(again, Ok(3));
}

pub async fn a_lock_is_one_replicas_at_a_time(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    let github = provider("github");
    given_session(&*store, 1, &clock).await;
    let locks = at_once(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        let owner = LockOwner::from_bytes([u8::try_from(number).unwrap(); 16]);
        async move {
            let lock = store.lock_row(&session(1), &provider("github"), &owner, MINUTE).await;
            (owner, lock.unwrap())
        }
    });
    let there = RowLock::Acquired(Some(Row { version: 1, ..row("tokens", &clock) }));
    let locks = locks.await;
    let acquired: Vec<_> = locks.iter().filter(|(_, lock)| *lock == there).collect();
    assert_eq!(acquired.len(), 1);
    assert_eq!(locks.iter().filter(|(_, lock)| *lock == RowLock::Held).count(), 99);
    let (owner, other) = (acquired[0].0, LockOwner::from_bytes([200; 16]));
    store.unlock_row(&session(1), &github, &other).await.unwrap();
    let lock = store.lock_row(&session(1), &github, &other, MINUTE).await;
    assert_eq!(lock, Ok(RowLock::Held));
    assert_eq!(store.lock_row(&session(1), &github, &owner, MINUTE).await, Ok(there.clone()));
    store.unlock_row(&session(1), &github, &owner).await.unwrap();
    assert_eq!(replica.lock_row(&session(1), &github, &other, MINUTE).await, Ok(there));
    // Another row, and one that is not there, have nothing to do with it.
    let nothing = Ok(RowLock::Acquired(None));
    assert_eq!(store.lock_row(&session(1), &provider("google"), &owner, MINUTE).await, nothing);
    assert_eq!(store.lock_row(&session(9), &github, &owner, MINUTE).await, nothing);
}

pub async fn a_lock_nobody_gave_back_expires(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let github = provider("github");
    let [one, two] = [LockOwner::from_bytes([1; 16]), LockOwner::from_bytes([2; 16])];
    given_session(&*store, 1, &clock).await;
    store.lock_row(&session(1), &github, &one, MINUTE).await.unwrap();
    clock.advance(MINUTE - MINUTE / 60);
    assert_eq!(store.lock_row(&session(1), &github, &two, MINUTE).await, Ok(RowLock::Held));
    clock.advance(MINUTE / 60);
    let lock = store.lock_row(&session(1), &github, &two, MINUTE).await.unwrap();
    assert!(matches!(lock, RowLock::Acquired(Some(_))));
    store.unlock_row(&session(1), &github, &one).await.unwrap();
    assert_eq!(store.lock_row(&session(1), &github, &one, MINUTE).await, Ok(RowLock::Held));
}

pub async fn rows_go_with_their_session_unless_it_is_kept(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_session(&*store, 1, &clock).await;
    given_session(&*store, 2, &clock).await;
    assert_eq!(store.keep_session(&session(1), DAY).await, Ok(true));
    // Never shorter than it was.
    assert_eq!(store.keep_session(&session(1), HOUR).await, Ok(true));
    clock.advance(MINUTE * 10);
    assert_eq!(store.session(&session(2)).await, Ok(None));
    assert_eq!(store.keep_session(&session(2), HOUR).await, Ok(false));
    clock.advance(DAY - MINUTE * 11);
    assert_eq!(store.session(&session(1)).await.unwrap().unwrap().rows.len(), 1);
    clock.advance(MINUTE);
    assert_eq!(store.session(&session(1)).await, Ok(None));
    assert_eq!(store.sessions_of(&user("alice")).await, Ok(vec![]));
}

pub async fn a_session_that_ended_takes_no_refreshed_row(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_session(&*store, 1, &clock).await;
    store.drop_session(&session(1)).await.unwrap().unwrap();
    let row = row("refreshed", &clock);
    assert_eq!(store.replace_row(&session(1), &provider("github"), 1, &row).await, Ok(None));
    assert_eq!(store.session(&session(1)).await, Ok(None));
}

pub async fn sessions_of_a_person_are_listed_newest_first(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    for number in 1..=3 {
        given_session(&*store, number, &clock).await;
        clock.advance(MINUTE);
    }
    let bobs = head(4, "bob");
    store.put_row(&bobs, &provider("github"), &row("bob's", &clock), MINUTE).await.unwrap();
    store.keep_session(&session(1), DAY).await.unwrap();
    let sessions = store.sessions_of(&user("alice")).await.unwrap();
    let names: Vec<_> = sessions.iter().map(|session| session.head.id).collect();
    assert_eq!(names, [session(3), session(2), session(1)]);
    assert_eq!(store.session(&session(2)).await, Ok(Some(sessions[1].clone())));
}

pub async fn the_session_that_ends_first_makes_room_and_is_revoked(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let limits = Limits { sessions_per_user: 2, sessions: 3, ..Limits::default() };
    let World { store, clock, .. } = fresh(limits).await;
    given_grant(&*store, 1, &clock).await;
    given_session(&*store, 2, &clock).await;
    store.keep_session(&session(2), DAY * 20).await.unwrap();
    let row = row("tokens", &clock);
    let put = async |number, person: &str| {
        store.put_row(&head(number, person), &provider("github"), &row, MINUTE).await
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

pub async fn rows_of_a_session_are_capped(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits { rows: 2, ..Limits::default() }).await;
    let row = row("tokens", &clock);
    let put =
        async |name: &str| store.put_row(&head(1, "alice"), &provider(name), &row, MINUTE).await;
    put("one").await.unwrap();
    put("two").await.unwrap();
    let full = StoreError::Full { what: "upstreams of this session" };
    assert_eq!(put("three").await, Err(full));
    assert_eq!(put("two").await, Ok(3));
}

pub async fn the_newest_row_of_a_person_is_found_across_sessions(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let (alice, github) = (user("alice"), provider("github"));
    assert_eq!(store.last_row(&alice, &github).await, Ok(None));
    for number in 1..=3 {
        given_session(&*store, number, &clock).await;
        clock.advance(MINUTE);
    }
    let newest = Row { sealed: Sealed::from_bytes(*b"newest"), ..row("", &clock) };
    store.replace_row(&session(2), &github, 1, &newest).await.unwrap();
    let bobs = head(4, "bob");
    clock.advance(MINUTE);
    store.put_row(&bobs, &github, &row("bob's", &clock), MINUTE).await.unwrap();
    let found = Some((session(2), Row { version: 2, ..newest }));
    assert_eq!(store.last_row(&alice, &github).await, Ok(found));
    assert_eq!(store.last_row(&alice, &provider("google")).await, Ok(None));
    store.drop_row(&session(2), &github, None).await.unwrap();
    let (next, _) = store.last_row(&alice, &github).await.unwrap().unwrap();
    assert_eq!(next, session(3));
}

pub async fn dropping_a_session_revokes_its_grant(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    let revocation = store.drop_session(&session(1)).await.unwrap().unwrap();
    assert_eq!((revocation.grant, revocation.session), (Some(grant_id(1)), session(1)));
    assert_eq!(store.drop_session(&session(1)).await, Ok(None));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
    assert_eq!(store.sessions_of(&user("alice")).await, Ok(vec![]));
}

pub async fn what_is_stored_is_counted(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    assert_eq!(store.ready().await, Ok(()));
    assert_eq!(store.counts().await, Ok(Counts::default()));
    store.register(&client("client")).await.unwrap();
    store.put_login(&digest("state"), &login("client"), MINUTE).await.unwrap();
    given_code(&*store, 1, &clock).await;
    given_grant(&*store, 2, &clock).await;
    let subject = Subject {
        provider: provider("github"),
        issuer: issuer("github"),
        name: SubjectName::new("1").unwrap(),
    };
    store.user(&subject, &user("alice"), &Profile::default()).await.unwrap();
    store.remember(&digest("cookie"), &user("alice"), None, DAY).await.unwrap();
    let sealed = Sealed::from_bytes(*b"registration");
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
