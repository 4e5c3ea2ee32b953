use std::time::Duration;

use super::given::{
    DAY, HOUR, MINUTE, at_once, client, client_id, digest, given_grant, grant_id, now, session,
    token,
};
use crate::contract::World;
use crate::{Grant, Limits, Previous, Refresh, Rotation, Store};

const SECOND: Duration = Duration::from_secs(1);

async fn rotate(store: &dyn Store, generation: u32) -> Rotation {
    let next = token(generation + 1).digest;
    store.rotate(&grant_id(1), &token(generation), &next).await.unwrap()
}

fn generation(grant: &Grant) -> u32 {
    grant.refresh.as_ref().unwrap().generation
}

pub async fn five_hundred_rotations_of_one_token_make_one_new_member(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    let rotations = at_once(500, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        async move { rotate(&*store, 0).await }
    });
    let (mut rotated, mut repeated) = (0, 0);
    for rotation in rotations.await {
        match rotation {
            Rotation::Rotated(grant) if generation(&grant) == 1 => rotated += 1,
            Rotation::Repeated(grant) if generation(&grant) == 1 => repeated += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((rotated, repeated), (1, 499));
    assert!(store.session(&session(1)).await.unwrap().is_some());
    assert!(matches!(rotate(&*store, 1).await, Rotation::Rotated(_)));
}

pub async fn a_lost_answer_can_be_had_again_within_the_grace(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let before = given_grant(&*store, 1, &clock).await;
    clock.advance(HOUR);
    let Rotation::Rotated(grant) = rotate(&*store, 0).await else { panic!() };
    let refresh = Refresh {
        idle: DAY * 7,
        idle_end: now(&clock) + DAY * 7,
        generation: 1,
        current: digest("token 1"),
        previous: Some(Previous { digest: digest("token 0"), rotated: now(&clock) }),
    };
    assert_eq!(*grant, Grant { refresh: Some(refresh), ..before });
    clock.advance(SECOND * 10);
    assert_eq!(rotate(&*store, 0).await, Rotation::Repeated(grant.clone()));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, Some(*grant));
    clock.advance(Duration::from_millis(1));
    assert!(matches!(rotate(&*store, 0).await, Rotation::Replayed(_)));
}

pub async fn a_token_of_the_past_revokes_the_family(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    for past in 0..3 {
        assert!(matches!(rotate(&*store, past).await, Rotation::Rotated(_)));
        clock.advance(HOUR);
    }
    let Rotation::Replayed(revocation) = rotate(&*store, 0).await else { panic!() };
    assert_eq!((revocation.grant, revocation.session), (Some(grant_id(1)), session(1)));
    assert_eq!(rotate(&*store, 3).await, Rotation::Gone);
    assert_eq!(rotate(&*store, 0).await, Rotation::Gone);
    assert_eq!(store.session(&session(1)).await, Ok(None));
}

pub async fn a_token_whose_successor_was_used_revokes_the_family(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    assert!(matches!(rotate(&*store, 0).await, Rotation::Rotated(_)));
    assert!(matches!(rotate(&*store, 1).await, Rotation::Rotated(_)));
    assert!(matches!(rotate(&*store, 0).await, Rotation::Replayed(_)));
}

pub async fn a_token_newer_than_the_store_remembers_is_good(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    let Rotation::Rotated(grant) = rotate(&*store, 3).await else { panic!() };
    assert_eq!(generation(&grant), 4);
    assert!(matches!(rotate(&*store, 3).await, Rotation::Repeated(_)));
    assert!(matches!(rotate(&*store, 4).await, Rotation::Rotated(_)));
    assert!(matches!(rotate(&*store, 0).await, Rotation::Replayed(_)));
}

pub async fn a_family_that_lies_idle_ends(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    clock.advance(DAY * 7 - SECOND);
    assert!(matches!(rotate(&*store, 0).await, Rotation::Rotated(_)));
    clock.advance(DAY * 7);
    assert_eq!(rotate(&*store, 1).await, Rotation::Gone);
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
}

pub async fn a_family_ends_whatever_is_done(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let granted = given_grant(&*store, 1, &clock).await;
    for week in 0..5 {
        let Rotation::Rotated(grant) = rotate(&*store, week).await else { panic!("{week}") };
        let refresh = grant.refresh.unwrap();
        assert!(refresh.idle_end <= granted.ends);
        clock.advance(DAY * 6);
    }
    assert_eq!(rotate(&*store, 5).await, Rotation::Gone);
}

pub async fn a_session_outlives_the_last_access_token_of_its_grant(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let grant = given_grant(&*store, 1, &clock).await;
    let expires = async || store.session(&session(1)).await.unwrap().unwrap().expires;
    assert_eq!(expires().await, now(&clock) + DAY * 7);
    for use_number in 0..5 {
        clock.advance(DAY * 6 - MINUTE);
        assert!(matches!(rotate(&*store, use_number).await, Rotation::Rotated(_)));
    }
    // Five minutes are left to the grant, an hour to the access token.
    assert_eq!(grant.ends.since(now(&clock)), MINUTE * 5);
    assert_eq!(expires().await, now(&clock) + HOUR);
}

pub async fn a_revoked_family_is_gone_for_every_replica(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    let revocation = store.revoke(&grant_id(1)).await.unwrap().unwrap();
    assert_eq!((revocation.grant, revocation.at), (Some(grant_id(1)), now(&clock)));
    assert_eq!(rotate(&*replica, 0).await, Rotation::Gone);
    assert_eq!(replica.session(&session(1)).await, Ok(None));
    assert_eq!(replica.revoke(&grant_id(1)).await, Ok(None));
}

pub async fn a_use_renews_the_client(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    store.register(&client("client")).await.unwrap();
    store.register(&client("other")).await.unwrap();
    clock.advance(MINUTE * 10);
    given_grant(&*store, 1, &clock).await;
    clock.advance(DAY * 5);
    assert!(matches!(rotate(&*store, 0).await, Rotation::Rotated(_)));
    clock.advance(DAY * 29);
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.client, Some(client("client")));
    assert_eq!(store.client(&client_id("other")).await, Ok(None));
    clock.advance(DAY);
    assert_eq!(store.client(&client_id("client")).await, Ok(None));
}
