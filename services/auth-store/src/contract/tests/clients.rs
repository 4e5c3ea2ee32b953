use std::time::Duration;

use super::fixtures::{
    DAY, HOUR, MINUTE, client, client_id, digest, insert_code_of, insert_known_client, login,
    login_at, run_concurrently,
};
use crate::contract::TestEnv;
use crate::{Ciphertext, Limits, Login, LoginPurpose, StoreError};

pub async fn unused_new_client_expires_within_minutes(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let (alpha, id) = (client("alpha"), client_id("alpha"));
    assert_eq!(store.client(&id).await, Ok(None));
    store.register(&alpha).await.unwrap();
    assert_eq!(replica.client(&id).await, Ok(Some(alpha)));
    clock.advance(MINUTE * 14);
    assert!(store.client(&id).await.unwrap().is_some());
    // A login and a code extend the client to their own lifetime.
    store.put_login(&digest("state"), &login("alpha"), MINUTE * 10).await.unwrap();
    clock.advance(MINUTE * 9);
    assert!(replica.client(&id).await.unwrap().is_some());
    insert_code_of(&*store, 1, ("alpha", &clock)).await;
    clock.advance(MINUTE * 9);
    assert!(replica.client(&id).await.unwrap().is_some());
    clock.advance(MINUTE);
    assert_eq!(store.client(&id).await, Ok(None));
}

pub async fn known_client_expires_after_idle_lifetime(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    insert_known_client(&*store, 1, ("alpha", &clock)).await;
    clock.advance(DAY * 30 - MINUTE);
    assert!(replica.client(&client_id("alpha")).await.unwrap().is_some());
    assert_eq!(store.counts().await.unwrap().clients, 1);
    clock.advance(MINUTE);
    assert_eq!(replica.client(&client_id("alpha")).await, Ok(None));
}

pub async fn registration_flood_evicts_new_clients_only(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let limits = Limits { clients: 2, new_clients: 3, ..Limits::default() };
    let TestEnv { store, clock, .. } = fresh(limits).await;
    insert_known_client(&*store, 1, ("alpha", &clock)).await;
    clock.advance(DAY);
    store.register(&client("beta")).await.unwrap();
    store.put_login(&digest("state"), &login("beta"), MINUTE * 20).await.unwrap();
    for number in 0..50 {
        clock.advance(Duration::from_millis(1));
        store.register(&client(&format!("flood {number}"))).await.unwrap();
    }
    assert!(store.client(&client_id("alpha")).await.unwrap().is_some());
    // A login that outlives the registrations of the flood extends its client.
    assert!(store.client(&client_id("beta")).await.unwrap().is_some());
    assert_eq!(store.client(&client_id("flood 47")).await, Ok(None));
    assert!(store.client(&client_id("flood 48")).await.unwrap().is_some());
    assert!(store.client(&client_id("flood 49")).await.unwrap().is_some());
    assert_eq!(store.counts().await.unwrap().clients, 4);
    // Registering an existing client again takes no more room.
    store.register(&client("flood 48")).await.unwrap();
    assert_eq!(store.counts().await.unwrap().clients, 4);
    assert!(store.client(&client_id("flood 49")).await.unwrap().is_some());
}

pub async fn full_store_evicts_idle_clients_only(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits { clients: 2, ..Limits::default() }).await;
    insert_known_client(&*store, 1, ("one", &clock)).await;
    clock.advance(MINUTE);
    insert_known_client(&*store, 2, ("two", &clock)).await;
    // Both were used recently: a third client does not become a known one.
    insert_known_client(&*store, 3, ("three", &clock)).await;
    clock.advance(HOUR - MINUTE);
    assert_eq!(store.client(&client_id("three")).await, Ok(None));
    insert_known_client(&*store, 4, ("four", &clock)).await;
    assert_eq!(store.client(&client_id("one")).await, Ok(None));
    clock.advance(HOUR);
    for known in ["two", "four"] {
        assert!(store.client(&client_id(known)).await.unwrap().is_some(), "{known}");
    }
}

pub async fn login_is_taken_once_by_concurrent_callers(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, .. } = fresh(Limits::default()).await;
    let key = digest("state");
    store.put_login(&key, &login("alpha"), MINUTE * 10).await.unwrap();
    assert_eq!(replica.login(&key).await, Ok(Some(login("alpha"))));
    let taken = run_concurrently(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        async move { store.take_login(&key).await.unwrap() }
    });
    let taken: Vec<_> = taken.await.into_iter().flatten().collect();
    assert_eq!(taken, [login("alpha")]);
    assert_eq!(store.login(&key).await, Ok(None));
}

pub async fn login_expires(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let key = digest("state");
    store.put_login(&key, &login("alpha"), MINUTE * 10).await.unwrap();
    clock.advance(MINUTE * 10);
    assert_eq!(store.login(&key).await, Ok(None));
    assert_eq!(store.take_login(&key).await, Ok(None));
}

pub async fn login_advances_once_for_concurrent_callers(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, .. } = fresh(Limits { logins_per_origin: 1, ..Limits::default() }).await;
    let from = digest("consent");
    store.put_login(&from, &login("alpha"), MINUTE * 10).await.unwrap();
    let advanced = run_concurrently(50, |number| {
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

pub async fn address_limit_evicts_its_oldest_login(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let limits = Limits { logins_per_origin: 2, ..Limits::default() };
    let TestEnv { store, replica, clock } = fresh(limits).await;
    let put = async |key: &str, login: &Login| {
        clock.advance(Duration::from_millis(1));
        store.put_login(&digest(key), login, MINUTE * 10).await.unwrap();
    };
    put("own", &login_at("192.0.2.1", "alpha")).await;
    // Neither the client's identifier nor a client that the same address registered has a limit.
    for number in 0..50 {
        let client = if number % 2 == 0 { "alpha" } else { "beta" };
        put(&format!("flood {number}"), &login_at("192.0.2.2", client)).await;
    }
    let relink = Login { aim: LoginPurpose::Relink, ..login_at("192.0.2.2", "alpha") };
    put("relink", &relink).await;
    assert!(replica.login(&digest("own")).await.unwrap().is_some());
    assert_eq!(replica.login(&digest("flood 48")).await, Ok(None));
    assert!(replica.login(&digest("flood 49")).await.unwrap().is_some());
    assert!(replica.login(&digest("relink")).await.unwrap().is_some());
    assert_eq!(store.counts().await.unwrap().logins, 3);
    // A login that has ended makes room.
    store.take_login(&digest("relink")).await.unwrap().unwrap();
    put("last", &relink).await;
    assert!(replica.login(&digest("flood 49")).await.unwrap().is_some());
}

pub async fn login_limit_evicts_oldest_login(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits { logins: 3, ..Limits::default() }).await;
    for number in 0..4 {
        clock.advance(Duration::from_millis(1));
        let login = login_at(&format!("192.0.2.{number}"), "alpha");
        store.put_login(&digest(&number.to_string()), &login, MINUTE).await.unwrap();
    }
    assert_eq!(store.login(&digest("0")).await, Ok(None));
    for number in 1..4 {
        assert!(store.login(&digest(&number.to_string())).await.unwrap().is_some());
    }
    assert_eq!(store.counts().await.unwrap().logins, 3);
}

pub async fn first_upstream_registration_stays_until_removed(
    fresh: impl AsyncFn(Limits) -> TestEnv,
) {
    let limits = Limits { registrations: 1, ..Limits::default() };
    let TestEnv { store, replica, clock } = fresh(limits).await;
    let key = digest("issuer, redirect URI, scopes");
    let [first, second] = [Ciphertext::from_bytes(*b"first"), Ciphertext::from_bytes(*b"second")];
    let lifetime = Duration::from_secs(100);
    assert_eq!(store.put_registration(&key, &first, lifetime).await, Ok(first.clone()));
    assert_eq!(replica.put_registration(&key, &second, lifetime).await, Ok(first.clone()));
    assert_eq!(replica.registration(&key).await, Ok(Some(first.clone())));
    let full = Err(StoreError::Full { what: "registrations" });
    assert_eq!(store.put_registration(&digest("other"), &second, lifetime).await, full);
    store.remove_registration(&key, &second).await.unwrap();
    assert_eq!(store.registration(&key).await, Ok(Some(first.clone())));
    store.remove_registration(&key, &first).await.unwrap();
    assert_eq!(store.registration(&key).await, Ok(None));
    assert_eq!(store.put_registration(&key, &second, lifetime).await, Ok(second));
    clock.advance(lifetime);
    assert_eq!(store.registration(&key).await, Ok(None));
}

pub async fn registration_lifetime_may_exceed_all_dates(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let (key, sealed) = (digest("key"), Ciphertext::from_bytes(*b"registration"));
    for ttl in [Duration::from_secs(1 << 40), Duration::MAX] {
        assert_eq!(store.put_registration(&key, &sealed, ttl).await, Ok(sealed.clone()));
        clock.advance(DAY * 400);
        assert_eq!(replica.registration(&key).await, Ok(Some(sealed.clone())));
        store.remove_registration(&key, &sealed).await.unwrap();
    }
}
