use std::time::Duration;

use super::given::{DAY, HOUR, MINUTE, at_once, client, client_id, digest, login};
use crate::contract::World;
use crate::{Aim, Limits, Login, Sealed, StoreError};

pub async fn a_registered_client_is_found_until_nobody_used_it_for_its_lifetime(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, replica, clock } = fresh(Limits::default()).await;
    let (alpha, id) = (client("alpha"), client_id("alpha"));
    assert_eq!(store.client(&id).await, Ok(None));
    store.register(&alpha).await.unwrap();
    assert_eq!(replica.client(&id).await, Ok(Some(alpha)));
    clock.advance(DAY * 30 - MINUTE);
    assert!(store.client(&id).await.unwrap().is_some());
    clock.advance(MINUTE);
    assert_eq!(store.client(&id).await, Ok(None));
}

pub async fn when_full_a_client_at_rest_makes_room_and_no_other(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let World { store, clock, .. } = fresh(Limits { clients: 2, ..Limits::default() }).await;
    store.register(&client("one")).await.unwrap();
    clock.advance(MINUTE);
    store.register(&client("two")).await.unwrap();
    assert_eq!(store.register(&client("three")).await, Err(StoreError::Full { what: "clients" }));
    // One of those that are there takes no room.
    store.register(&client("two")).await.unwrap();
    clock.advance(HOUR - MINUTE);
    store.register(&client("three")).await.unwrap();
    assert_eq!(store.client(&client_id("one")).await, Ok(None));
    assert!(store.client(&client_id("two")).await.unwrap().is_some());
    assert_eq!(store.register(&client("four")).await, Err(StoreError::Full { what: "clients" }));
}

pub async fn a_login_is_taken_once_however_many_ask(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, replica, .. } = fresh(Limits::default()).await;
    let key = digest("state");
    store.put_login(&key, &login("alpha"), MINUTE * 10).await.unwrap();
    assert_eq!(replica.login(&key).await, Ok(Some(login("alpha"))));
    let taken = at_once(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        async move { store.take_login(&key).await.unwrap() }
    });
    let taken: Vec<_> = taken.await.into_iter().flatten().collect();
    assert_eq!(taken, [login("alpha")]);
    assert_eq!(store.login(&key).await, Ok(None));
}

pub async fn a_login_that_waited_too_long_is_not_there(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits::default()).await;
    let key = digest("state");
    store.put_login(&key, &login("alpha"), MINUTE * 10).await.unwrap();
    clock.advance(MINUTE * 10);
    assert_eq!(store.login(&key).await, Ok(None));
    assert_eq!(store.take_login(&key).await, Ok(None));
}

pub async fn a_login_advances_once_however_many_ask(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, .. } = fresh(Limits { logins_per_client: 1, ..Limits::default() }).await;
    let from = digest("consent");
    store.put_login(&from, &login("alpha"), MINUTE * 10).await.unwrap();
    let advanced = at_once(50, |number| {
        let store = store.clone();
        async move {
            let to = digest(&format!("state {number}"));
            store.advance_login(&from, &to, &login("alpha"), MINUTE * 10).await.unwrap()
        }
    });
    assert_eq!(advanced.await.into_iter().filter(|advanced| *advanced).count(), 1);
    assert_eq!(store.login(&from).await, Ok(None));
    assert_eq!(store.counts().await.unwrap().logins, 1);
}

pub async fn logins_are_capped_per_client_and_make_room_when_they_end(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let limits = Limits { logins_per_client: 2, ..Limits::default() };
    let World { store, clock, .. } = fresh(limits).await;
    let full = Err(StoreError::Full { what: "logins of this client" });
    let put = async |key: &str, client: &str| {
        store.put_login(&digest(key), &login(client), MINUTE * 10).await
    };
    put("1", "alpha").await.unwrap();
    put("2", "alpha").await.unwrap();
    assert_eq!(put("3", "alpha").await, full);
    put("3", "beta").await.unwrap();
    store.take_login(&digest("1")).await.unwrap().unwrap();
    put("4", "alpha").await.unwrap();
    assert_eq!(put("5", "alpha").await, full);
    // Who links a provider anew is no client.
    let relink = Login { aim: Aim::Relink, ..login("alpha") };
    store.put_login(&digest("6"), &relink, MINUTE * 10).await.unwrap();
    clock.advance(MINUTE * 10);
    put("7", "alpha").await.unwrap();
}

pub async fn logins_are_capped_together(fresh: impl AsyncFn(Limits) -> World) {
    let World { store, clock, .. } = fresh(Limits { logins: 3, ..Limits::default() }).await;
    for number in 0..3 {
        let (key, client) = (digest(&number.to_string()), format!("client {number}"));
        store.put_login(&key, &login(&client), MINUTE).await.unwrap();
    }
    let another = store.put_login(&digest("3"), &login("client 3"), MINUTE).await;
    assert_eq!(another, Err(StoreError::Full { what: "logins" }));
    assert_eq!(store.login(&digest("3")).await, Ok(None));
    clock.advance(MINUTE);
    store.put_login(&digest("3"), &login("client 3"), MINUTE).await.unwrap();
}

pub async fn the_first_registration_upstream_stays_until_it_is_dropped(
    fresh: impl AsyncFn(Limits) -> World,
) {
    let limits = Limits { registrations: 1, ..Limits::default() };
    let World { store, replica, clock } = fresh(limits).await;
    let key = digest("issuer, redirect URI, scopes");
    let [first, second] = [Sealed::from_bytes(*b"first"), Sealed::from_bytes(*b"second")];
    let lifetime = Duration::from_secs(100);
    assert_eq!(store.put_registration(&key, &first, lifetime).await, Ok(first.clone()));
    assert_eq!(replica.put_registration(&key, &second, lifetime).await, Ok(first.clone()));
    assert_eq!(replica.registration(&key).await, Ok(Some(first.clone())));
    let full = Err(StoreError::Full { what: "registrations" });
    assert_eq!(store.put_registration(&digest("other"), &second, lifetime).await, full);
    store.drop_registration(&key, &second).await.unwrap();
    assert_eq!(store.registration(&key).await, Ok(Some(first.clone())));
    store.drop_registration(&key, &first).await.unwrap();
    assert_eq!(store.registration(&key).await, Ok(None));
    assert_eq!(store.put_registration(&key, &second, lifetime).await, Ok(second));
    clock.advance(lifetime);
    assert_eq!(store.registration(&key).await, Ok(None));
}
