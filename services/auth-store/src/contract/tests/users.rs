use super::fixtures::{
    DAY, HOUR, MINUTE, client_id, digest, head, insert_session, issuer, now, provider, row,
    run_concurrently, user,
};
use crate::contract::TestEnv;
use crate::{
    Browser, Consent, Limits, Profile, ProviderIssuer, StoreError, Subject, SubjectName, Timestamp,
    UpstreamTokenRecord, User,
};

fn subject(name: &str, of: &str) -> Subject {
    Subject {
        provider: provider("idp"),
        issuer: ProviderIssuer::new(of).unwrap(),
        name: SubjectName::new(name).unwrap(),
    }
}

fn profile(name: &str) -> Profile {
    Profile {
        name: Some(name.to_owned()),
        email: Some(format!("{name}@example.com")),
        email_verified: Some(true),
    }
}

fn consent(client: &str, redirect_uri: &str, given: Timestamp) -> Consent {
    Consent {
        client: client_id(client),
        redirect_uri: redirect_uri.to_owned(),
        scopes: vec!["openid".to_owned()],
        given,
        expires: given + DAY,
    }
}

pub async fn concurrent_logins_of_subject_yield_one_user(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let people = run_concurrently(50, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        async move {
            let proposed = user(&format!("proposed {number}"));
            store.upsert_user(&subject("1", "github"), &proposed, &profile("Alice")).await.unwrap()
        }
    });
    let people = people.await;
    assert!(people.iter().all(|person| *person == people[0]));
    assert_eq!(store.counts().await.unwrap().users, 1);
    clock.advance(DAY * 399);
    let later =
        store.upsert_user(&subject("1", "github"), &user("another"), &profile("Alice")).await;
    assert_eq!(later, Ok(people[0].clone()));
    clock.advance(DAY * 399);
    assert!(store.account(&people[0]).await.unwrap().is_some());
    clock.advance(DAY);
    assert_eq!(store.account(&people[0]).await, Ok(None));
    let anew =
        store.upsert_user(&subject("1", "github"), &user("another"), &profile("Alice")).await;
    assert_eq!(anew, Ok(user("another")));
}

pub async fn similar_subjects_are_distinct_users(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, .. } = fresh(Limits::default()).await;
    let alike = [
        subject("b:c", "a"),
        subject("c", "a:b"),
        subject("}{", "a"),
        subject("{}", "a"),
        subject("1", "a"),
        subject("1", "b"),
        subject("ü*?[", "a"),
    ];
    for (number, subject) in alike.iter().enumerate() {
        let proposed = user(&format!("person {number}"));
        let person = store.upsert_user(subject, &proposed, &Profile::default()).await;
        assert_eq!(person, Ok(proposed));
    }
}

pub async fn separates_users_of_issuers_with_one_name(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, .. } = fresh(Limits::default()).await;
    let (profile, [old, new]) = (Profile::default(), ["https://old", "https://new"]);
    let (alice, bob) = (user("alice"), user("bob"));
    assert_eq!(store.upsert_user(&subject("1", old), &alice, &profile).await, Ok(alice.clone()));
    assert_eq!(replica.upsert_user(&subject("1", new), &bob, &profile).await, Ok(bob));
    // The same issuer under another name has the same users.
    let renamed = Subject { provider: provider("renamed"), ..subject("1", old) };
    assert_eq!(store.upsert_user(&renamed, &user("another"), &profile).await, Ok(alice));
}

pub async fn reports_conflicting_issuer_of_provider_name(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let named = |name: &str, of: &str| (provider(name), issuer(of));
    let moved = [named("github", "elsewhere"), named("corp", "corp")];
    // A provider name without stored tokens may belong to any issuer.
    assert_eq!(store.conflicting_issuers(&moved).await, Ok(vec![]));
    insert_session(&*store, 1, &clock).await;
    let other = vec![named("github", "github")];
    assert_eq!(replica.conflicting_issuers(&moved).await, Ok(other.clone()));
    assert_eq!(replica.conflicting_issuers(&other).await, Ok(vec![]));
    // A token that a replica with another configuration stores does not change the issuer.
    let foreign = UpstreamTokenRecord { issuer: issuer("elsewhere"), ..row("tokens", &clock) };
    replica
        .put_upstream_token(&head(2, "bob"), &provider("github"), &foreign, MINUTE)
        .await
        .unwrap();
    assert_eq!(store.conflicting_issuers(&moved).await, Ok(other));
    let rows = store.session(&head(2, "bob").id).await.unwrap().unwrap().rows;
    assert_eq!(rows[&provider("github")].issuer, issuer("elsewhere"));
}

pub async fn login_updates_the_profile(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let created = now(&clock);
    store.upsert_user(&subject("1", "github"), &user("alice"), &profile("Alice")).await.unwrap();
    clock.advance(HOUR);
    store.upsert_user(&subject("1", "github"), &user("bob"), &profile("Alice B.")).await.unwrap();
    let account = User { id: user("alice"), profile: profile("Alice B."), created };
    assert_eq!(store.account(&user("alice")).await, Ok(Some(account)));
    assert_eq!(store.account(&user("bob")).await, Ok(None));
}

pub async fn browser_has_its_user_and_consents(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let (cookie, alice) = (digest("cookie"), user("alice"));
    assert_eq!(store.browser(&cookie).await, Ok(None));
    store.put_browser(&cookie, &alice, None, DAY * 2).await.unwrap();
    let known = Browser { user: alice.clone(), consents: vec![] };
    assert_eq!(replica.browser(&cookie).await, Ok(Some(known)));
    let first = consent("alpha", "http://127.0.0.1/a", now(&clock));
    store.put_browser(&cookie, &alice, Some(&first), DAY * 2).await.unwrap();
    clock.advance(HOUR);
    let mut second = consent("alpha", "http://127.0.0.1/a", now(&clock));
    second.scopes.push("offline_access".to_owned());
    store.put_browser(&cookie, &alice, Some(&second), DAY * 2).await.unwrap();
    let other = consent("alpha", "http://127.0.0.1/b", now(&clock) + MINUTE);
    store.put_browser(&digest("another browser"), &alice, Some(&other), DAY * 2).await.unwrap();
    let mut consents = replica.browser(&cookie).await.unwrap().unwrap().consents;
    consents.sort_by_key(|consent| consent.given);
    assert_eq!(consents, [second, other.clone()]);
    clock.advance(DAY);
    assert_eq!(store.browser(&cookie).await.unwrap().unwrap().consents, [other]);
    clock.advance(DAY);
    assert_eq!(store.browser(&cookie).await, Ok(None));
    store.put_browser(&cookie, &alice, None, DAY).await.unwrap();
    store.remove_browser(&cookie).await.unwrap();
    assert_eq!(store.browser(&cookie).await, Ok(None));
}

pub async fn consent_limit_evicts_oldest_consent(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let limits = Limits { consents_per_user: 2, ..Limits::default() };
    let TestEnv { store, clock, .. } = fresh(limits).await;
    let cookie = digest("cookie");
    for client in ["one", "two", "three"] {
        let given = consent(client, "http://127.0.0.1/", now(&clock));
        store.put_browser(&cookie, &user("alice"), Some(&given), DAY).await.unwrap();
        clock.advance(MINUTE);
    }
    let mut consents = store.browser(&cookie).await.unwrap().unwrap().consents;
    consents.sort_by_key(|consent| consent.given);
    let clients: Vec<_> = consents.iter().map(|consent| consent.client.as_str()).collect();
    assert_eq!(clients, ["two", "three"]);
}

pub async fn removes_consents_per_client(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let (cookie, alice) = (digest("cookie"), user("alice"));
    for (client, redirect) in [("a", "https://a/1"), ("a", "https://a/2"), ("aa", "https://a/1")] {
        let given = consent(client, redirect, now(&clock));
        store.put_browser(&cookie, &alice, Some(&given), DAY).await.unwrap();
    }
    store.remove_consents(&user("bob"), &client_id("aa")).await.unwrap();
    store.remove_consents(&alice, &client_id("a")).await.unwrap();
    let consents = store.browser(&cookie).await.unwrap().unwrap().consents;
    assert_eq!(consents, [consent("aa", "https://a/1", now(&clock))]);
}

pub async fn limits_users_and_browsers(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let limits = Limits { users: 1, browsers: 1, ..Limits::default() };
    let TestEnv { store, clock, .. } = fresh(limits).await;
    let profile = Profile::default();
    let (alice, bob) = (user("alice"), user("bob"));
    store.upsert_user(&subject("1", "github"), &alice, &profile).await.unwrap();
    let full = Err(StoreError::Full { what: "users" });
    assert_eq!(store.upsert_user(&subject("2", "github"), &bob, &profile).await, full);
    let known = store.upsert_user(&subject("1", "github"), &bob, &profile).await;
    assert_eq!(known, Ok(alice.clone()));
    store.put_browser(&digest("one"), &alice, None, DAY).await.unwrap();
    let full = Err(StoreError::Full { what: "browsers" });
    assert_eq!(store.put_browser(&digest("two"), &bob, None, DAY).await, full);
    store.put_browser(&digest("one"), &bob, None, DAY).await.unwrap();
    clock.advance(DAY);
    store.put_browser(&digest("two"), &bob, None, DAY).await.unwrap();
}
