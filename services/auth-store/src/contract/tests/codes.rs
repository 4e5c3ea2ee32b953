use super::given::{
    HOUR, MINUTE, at_once, client, client_id, digest, given_code, given_grant, given_session,
    grant, grant_id, seed, session, token, verifier,
};
use crate::contract::World;
use crate::{Digest, Limits, Revocation, Rotation, Started, Store, StoreError, Taken};

/// What a client gets that presents a code, with the verifier.
async fn take(store: &dyn Store, code: &Digest, client: &str, text: &str) -> Taken {
    store.take_code(code, &client_id(client), &verifier(text)).await.unwrap().taken
}

pub async fn a_code_redeemed_a_hundred_times_in_parallel_is_fresh_once(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    let answers = at_once(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        async move { take(&*store, &code, "client", "verifier").await }
    });
    let answers = answers.await;
    let fresh = answers.iter().filter(|taken| matches!(taken, Taken::Fresh(_))).count();
    let redeeming = answers.iter().filter(|taken| **taken == Taken::Redeeming).count();
    assert_eq!((fresh, redeeming), (1, 99));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Started));
    assert_eq!(store.session(&session(1)).await.unwrap().unwrap().grant, Some(grant_id(1)));
}

pub async fn a_code_comes_with_the_client_that_presents_it(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    store.register(&client("client")).await.unwrap();
    let code = given_code(&*store, 1, &clock).await;
    let answer = store.take_code(&code, &client_id("client"), &verifier("verifier")).await.unwrap();
    assert_eq!(answer.client, Some(client("client")));
    let unknown = digest("no code");
    let answer = store.take_code(&unknown, &client_id("client"), &verifier("v")).await.unwrap();
    assert_eq!((answer.taken, answer.client), (Taken::Unknown, Some(client("client"))));
    let answer = store.take_code(&unknown, &client_id("stranger"), &verifier("v")).await.unwrap();
    assert_eq!((answer.taken, answer.client), (Taken::Unknown, None));
}

pub async fn who_redeems_a_code_may_present_it_again_without_harm(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    assert_eq!(take(&*store, &code, "client", "verifier").await, Taken::Fresh(Box::new(seed(1))));
    assert_eq!(take(&*store, &code, "client", "verifier").await, Taken::Redeeming);
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Started));
}

pub async fn a_replay_by_another_stops_the_redeeming(fresh: impl AsyncFn(Limits) -> World) {
    a_replay_stops_the_redeeming(fresh, "thief", "verifier").await;
}

pub async fn a_replay_by_another_verifier_stops_the_redeeming(
    fresh: impl AsyncFn(Limits) -> World,
) {
    a_replay_stops_the_redeeming(fresh, "client", "guess").await;
}

async fn a_replay_stops_the_redeeming(
    fresh: impl AsyncFn(Limits) -> World,
    client: &str,
    text: &str,
) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, Taken::Fresh(_)));
    let at = clock.now().into();
    let revocation = Revocation { grant: None, session: session(1), at };
    assert_eq!(take(&*replica, &code, client, text).await, Taken::Replayed(revocation));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Refused));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
    assert_eq!(store.session(&session(1)).await, Ok(None));
}

pub async fn a_replay_after_the_grant_revokes_what_the_code_gave(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    given_grant(&*store, 2, &clock).await;
    let code = digest("code 1");
    let at = clock.now().into();
    let revocation = Revocation { grant: Some(grant_id(1)), session: session(1), at };
    // Who redeemed it is no better than anybody else by now.
    let replayed = take(&*replica, &code, "client", "verifier").await;
    assert_eq!(replayed, Taken::Replayed(revocation.clone()));
    assert_eq!(store.session(&session(1)).await, Ok(None));
    let rotation = store.rotate(&grant_id(1), &token(0), &digest("token 1")).await.unwrap();
    assert_eq!(rotation, Rotation::Gone);
    clock.advance(MINUTE);
    let again = take(&*store, &code, "client", "verifier").await;
    assert_eq!(again, Taken::Replayed(revocation));
    // The other grant has nothing to do with it.
    assert!(store.session(&session(2)).await.unwrap().is_some());
}

pub async fn a_burnt_code_gives_nothing_and_ends_its_session(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "wrong").await, Taken::Fresh(_)));
    store.burn_code(&code).await.unwrap();
    assert_eq!(store.session(&session(1)).await, Ok(None));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Refused));
    assert!(matches!(take(&*store, &code, "client", "verifier").await, Taken::Replayed(_)));
    store.burn_code(&digest("no code")).await.unwrap();
}

pub async fn a_code_that_nobody_took_starts_no_grant(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Refused));
    let unknown = digest("no code");
    assert_eq!(store.start_grant(&unknown, &grant(1, &clock)).await, Ok(Started::Refused));
    assert!(matches!(take(&*store, &code, "client", "verifier").await, Taken::Fresh(_)));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Started));
    // The same once more, as after a lost answer; another one is none of this code's.
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Started));
    let mut another = grant(1, &clock);
    another.id = grant_id(2);
    assert_eq!(store.start_grant(&code, &another).await, Ok(Started::Refused));
    store.revoke(&grant_id(1)).await.unwrap().unwrap();
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Refused));
}

pub async fn a_grant_of_another_session_is_not_started(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    given_session(&*store, 2, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, Taken::Fresh(_)));
    assert_eq!(store.start_grant(&code, &grant(2, &clock)).await, Ok(Started::Refused));
    assert_eq!(store.session(&session(2)).await.unwrap().unwrap().grant, None);
}

pub async fn a_session_that_ends_while_its_code_is_redeemed_gives_no_grant(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, Taken::Fresh(_)));
    assert!(replica.drop_session(&session(1)).await.unwrap().is_some());
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(Started::Refused));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
}

pub async fn a_code_of_an_ended_session_is_not_kept(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_session(&*store, 1, &clock).await;
    store.drop_session(&session(1)).await.unwrap();
    let code = digest("code 1");
    assert_eq!(store.put_code(&code, &seed(1), MINUTE).await, Ok(false));
    assert_eq!(take(&*store, &code, "client", "verifier").await, Taken::Unknown);
}

pub async fn a_code_that_expired_is_unknown_and_a_taken_one_is_known_longer(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let (left, redeemed) =
        (given_code(&*store, 1, &clock).await, given_code(&*store, 2, &clock).await);
    clock.advance(MINUTE * 9);
    assert!(matches!(take(&*store, &redeemed, "client", "verifier").await, Taken::Fresh(_)));
    assert_eq!(store.start_grant(&redeemed, &grant(2, &clock)).await, Ok(Started::Started));
    clock.advance(MINUTE);
    assert_eq!(take(&*store, &left, "client", "verifier").await, Taken::Unknown);
    assert_eq!(store.session(&session(1)).await, Ok(None));
    clock.advance(MINUTE * 28);
    assert!(matches!(take(&*store, &redeemed, "client", "verifier").await, Taken::Replayed(_)));
    clock.advance(MINUTE);
    assert_eq!(take(&*store, &redeemed, "client", "verifier").await, Taken::Unknown);
}

pub async fn a_grant_without_refresh_tokens_can_be_revoked(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let code = given_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, Taken::Fresh(_)));
    let mut grant = grant(1, &clock);
    grant.refresh = None;
    grant.ends = (clock.now() + HOUR).into();
    assert_eq!(store.start_grant(&code, &grant).await, Ok(Started::Started));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, Some(grant));
    let rotation = store.rotate(&grant_id(1), &token(0), &digest("token 1")).await.unwrap();
    assert_eq!(rotation, Rotation::Gone);
    assert!(store.revoke(&grant_id(1)).await.unwrap().is_some());
    assert_eq!(store.session(&session(1)).await, Ok(None));
    assert_eq!(store.revoke(&grant_id(1)).await, Ok(None));
}

pub async fn codes_and_grants_are_capped(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } =
        fresh(Limits { codes: 2, grants: 1, ..Limits::default() }).await;
    let (first, second) =
        (given_code(&*store, 1, &clock).await, given_code(&*store, 2, &clock).await);
    given_session(&*store, 3, &clock).await;
    let full = Err(StoreError::Full { what: "codes" });
    assert_eq!(store.put_code(&digest("code 3"), &seed(3), MINUTE).await, full);
    for code in [&first, &second] {
        assert!(matches!(take(&*store, code, "client", "verifier").await, Taken::Fresh(_)));
    }
    assert_eq!(store.start_grant(&first, &grant(1, &clock)).await, Ok(Started::Started));
    let full = Err(StoreError::Full { what: "grants" });
    assert_eq!(store.start_grant(&second, &grant(2, &clock)).await, full);
    store.revoke(&grant_id(1)).await.unwrap().unwrap();
    assert_eq!(store.start_grant(&second, &grant(2, &clock)).await, Ok(Started::Started));
}
