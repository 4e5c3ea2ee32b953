use std::time::Duration;

use futures_util::StreamExt;

use super::given::{DAY, given_grant, given_session, grant_id, now, session};
use crate::contract::World;
use crate::{Limits, Revocation};

/// How long a revocation may take to be heard of.
const HEARD: Duration = Duration::from_secs(10);

async fn heard(revocations: &mut (impl StreamExt<Item = Revocation> + Unpin)) -> Revocation {
    tokio::time::timeout(HEARD, revocations.next()).await.unwrap().unwrap()
}

pub async fn what_was_revoked_lately_is_told_first(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    given_grant(&*store, 1, &clock).await;
    given_session(&*store, 2, &clock).await;
    let first = store.revoke(&grant_id(1)).await.unwrap().unwrap();
    clock.advance(Duration::from_secs(1));
    let second = store.drop_session(&session(2)).await.unwrap().unwrap();
    let at = now(&clock);
    assert_eq!(second, Revocation { grant: None, session: session(2), at });
    let mut revocations = replica.revocations().await.unwrap();
    assert_eq!(heard(&mut revocations).await, first);
    assert_eq!(heard(&mut revocations).await, second);
}

pub async fn another_replica_hears_of_each_revocation(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    let mut revocations = replica.revocations().await.unwrap();
    for number in 1..=50 {
        given_session(&*store, number, &clock).await;
        store.drop_session(&session(number)).await.unwrap().unwrap();
    }
    for number in 1..=50 {
        assert_eq!(heard(&mut revocations).await.session, session(number));
    }
}

pub async fn a_revocation_is_told_for_as_long_as_access_tokens_last(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    for number in 1..=2 {
        given_session(&*store, number, &clock).await;
        store.drop_session(&session(number)).await.unwrap().unwrap();
        clock.advance(DAY / 2);
    }
    let mut revocations = replica.revocations().await.unwrap();
    assert_eq!(heard(&mut revocations).await.session, session(2));
}
