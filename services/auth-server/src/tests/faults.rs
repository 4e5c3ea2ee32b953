//! Tests in which the store fails, or a replica dies, at every step.

use std::time::Duration;

use crate::OwnFault;
use crate::testing::{Browser, PEM, Watched, World, param, settings};

/// Creates a replica over the store of another one, which dies at its `dies_at`th store operation.
fn dying(world: &World, dies_at: usize, last_is_taken: bool) -> (World, std::sync::Arc<Watched>) {
    let store = Watched::new(world.store.clone(), dies_at, last_is_taken);
    let mut settings = settings();
    settings.keys = crate::Keys::new(&[PEM]).unwrap();
    (World::over(settings, store.clone(), world.clock.clone()), store)
}

/// Runs a login until it fails or completes.
async fn log_in(world: &World, browser: &mut Browser, address: &str) -> Option<String> {
    let page = browser.get(world, address).await;
    let corp = match page.status.as_u16() {
        200 => {
            let left = browser.send(world, World::decision(&page.text, "allow")).await;
            (left.status == 200).then(|| left.refresh_target())?
        }
        303 => page.location(),
        _ => return None,
    };
    let corp = corp.starts_with("https://corp.example").then_some(corp)?;
    let git = browser.get(world, &World::at_provider(&corp)).await;
    let git = (git.status == 303).then(|| git.location())?;
    let git = git.starts_with("https://git.example").then_some(git)?;
    let done = browser.get(world, &World::at_provider(&git)).await;
    let done = (done.status == 303).then(|| done.location())?;
    param(&url::Url::parse(&done).unwrap(), "code")
}

#[tokio::test]
async fn a_login_that_a_replica_died_of_is_restarted_on_another_and_leaves_nothing() {
    for last_is_taken in [false, true] {
        for dies_at in 1.. {
            assert!(dies_at < 40, "the login never ends");
            let world = World::new();
            let client = world.client().await;
            let (replica, store) = dying(&world, dies_at, last_is_taken);
            let mut browser = Browser::default();
            let address = World::authorize(&client, &[]);
            let code = log_in(&replica, &mut browser, &address).await;
            let survived = !store.is_dead();
            // The same browser, on another replica.
            let (other, _) = dying(&world, usize::MAX, false);
            let code = match code {
                Some(code) => code,
                None => log_in(&other, &mut browser, &address).await.unwrap_or_else(|| {
                    panic!("a login is stuck after step {dies_at}: {:?}", store.steps())
                }),
            };
            let got = other.redeem(&client, &code, &[]).await.tokens();
            assert_eq!(other.refresh(&client, &got.refresh).await.status, 200);
            world.clock.advance(Duration::from_secs(1201));
            let counts = world.store.counts().await.unwrap();
            assert_eq!((counts.sessions, counts.grants), (1, 1), "step {dies_at}");
            if survived {
                break;
            }
        }
    }
}

#[tokio::test]
async fn tokens_that_a_replica_died_of_are_had_again_or_the_login_is() {
    for last_is_taken in [false, true] {
        for dies_at in 1..=3 {
            let world = World::new();
            let client = world.client().await;
            let (other, _) = dying(&world, usize::MAX, false);
            let code = other.code(&client).await;
            let (replica, store) = dying(&world, dies_at, last_is_taken);
            let came = replica.redeem(&client, &code, &[]).await;
            assert_eq!(came.status == 200, !store.is_dead(), "{dies_at}");
            if store.is_dead() {
                assert_eq!(came.error(), "temporarily_unavailable");
                assert!(came.headers.contains_key("retry-after"));
                let again = other.redeem(&client, &code, &[]).await;
                assert!(again.status == 200 || again.error() == "invalid_grant", "{}", again.text);
            }
            // A refresh can always be repeated.
            let got = other.tokens(&client).await;
            let (replica, store) = dying(&world, dies_at, last_is_taken);
            let came = replica.refresh(&client, &got.refresh).await;
            assert_eq!(came.status == 200, !store.is_dead(), "{dies_at}");
            let again = other.refresh(&client, &got.refresh).await.tokens();
            assert_eq!(other.refresh(&client, &again.refresh).await.status, 200);
        }
    }
}

#[tokio::test]
async fn each_endpoint_takes_as_many_round_trips_as_it_says() {
    let base = World::new();
    let client = base.client().await;
    let (world, store) = dying(&base, usize::MAX, false);
    let mut browser = Browser::default();
    let address = World::authorize(&client, &[]);

    let page = browser.get(&world, &address).await;
    assert_eq!(store.steps(), ["client", "put_login"]);
    let left = browser.send(&world, World::decision(&page.text, "allow")).await;
    assert_eq!(store.steps(), ["login", "advance_login"]);
    let git = browser.get(&world, &World::at_provider(&left.refresh_target())).await.location();
    assert_eq!(store.steps(), ["take_login", "upsert_user", "put_upstream_token", "put_login"]);
    let done = browser.get(&world, &World::at_provider(&git)).await.location();
    assert_eq!(store.steps(), ["take_login", "put_upstream_token", "put_code", "put_browser"]);
    let code = param(&url::Url::parse(&done).unwrap(), "code").unwrap();
    let got = world.redeem(&client, &code, &[]).await.tokens();
    assert_eq!(store.steps(), ["redeem_code", "start_grant"]);
    let got = world.refresh(&client, &got.refresh).await.tokens();
    assert_eq!(store.steps(), ["grant", "session", "rotate"]);

    // Verification and userinfo need no round trip to the store.
    let token =
        world.server.verifier(crate::testing::RESOURCE).unwrap().verify(&got.access).unwrap();
    let request = http::Request::get("/oauth/userinfo")
        .header("authorization", format!("Bearer {}", got.access));
    assert_eq!(world.send(request.body(axum::body::Body::empty()).unwrap()).await.status, 200);
    assert_eq!(store.steps(), [""; 0]);

    // An upstream token is read once and then cached.
    let tokens = world.server.tokens(token.session);
    for _ in 0..3 {
        tokens.token("git", vmcp_core::UpstreamKind::Access).await.unwrap();
    }
    assert_eq!(store.steps(), ["session"]);
    world.clock.advance(Duration::from_secs(3590));
    tokens.token("git", vmcp_core::UpstreamKind::Access).await.unwrap();
    assert_eq!(
        store.steps(),
        ["session", "lock_upstream_token", "replace_upstream_token", "unlock_upstream_token"]
    );

    // With a stored consent, the page is omitted.
    browser.get(&world, &address).await.location();
    assert_eq!(store.steps(), ["client", "browser", "put_login"]);
    world.post("/oauth/revoke", &[("client_id", &client), ("token", &got.refresh)]).await;
    assert_eq!(store.steps(), ["grant", "revoke"]);
    world.register(serde_json::json!({"redirect_uris": [crate::testing::APP]})).await;
    assert_eq!(store.steps(), ["register"]);
}

#[tokio::test(start_paused = true)]
async fn refuses_tokens_until_revocations_were_read() {
    let world = World::new();
    let client = world.client().await;
    let (one, _) = dying(&world, usize::MAX, false);
    let [revoked, good] = [one.tokens(&client).await, one.tokens(&client).await];
    one.post("/oauth/revoke", &[("client_id", &client), ("token", &revoked.refresh)]).await;
    // A replica starts while the store is unavailable.
    let (two, store) = dying(&world, 0, false);
    let watching = tokio::spawn(two.server.clone().watch());
    let verifier = two.server.verifier(crate::testing::RESOURCE).unwrap();
    let verify = |token: &str| verifier.verify(token).map(|_| ());
    tokio::time::sleep(Duration::from_secs(10)).await;
    for token in [&revoked.access, &good.access] {
        assert_eq!(verify(token), Err(OwnFault::Unread));
        let request = http::Request::get("/oauth/userinfo")
            .header("authorization", format!("Bearer {token}"))
            .body(axum::body::Body::empty());
        let came = two.send(request.unwrap()).await;
        assert_eq!((came.status.as_u16(), came.error().as_str()), (503, "temporarily_unavailable"));
        assert!(
            came.headers.contains_key("retry-after")
                && !came.headers.contains_key("www-authenticate")
        );
        // A failed revocation is not reported as successful.
        let form = [("client_id", client.as_str()), ("token", token)];
        assert_eq!(two.post("/oauth/revoke", &form).await.status, 503);
    }
    // After a reload in the meantime, the set is still incomplete.
    let (after, _) = dying(&world, 0, false);
    let reloaded = after.server.sharing_revocations_with(&two.server);
    let reloaded = reloaded.verifier(crate::testing::RESOURCE).unwrap();
    assert_eq!(reloaded.verify(&good.access).map(|_| ()), Err(OwnFault::Unread));
    let waiting = tokio::spawn({
        let server = two.server.clone();
        async move { server.revocations_read().await }
    });
    store.revive();
    waiting.await.unwrap();
    assert_eq!((verify(&revoked.access), verify(&good.access)), (Err(OwnFault::Revoked), Ok(())));
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn keeps_revocations_over_reloads_without_store() {
    let world = World::new();
    let client = world.client().await;
    let (before, store) = dying(&world, usize::MAX, false);
    let watching = tokio::spawn(before.server.clone().watch());
    let [revoked, good] = [before.tokens(&client).await, before.tokens(&client).await];
    before.post("/oauth/revoke", &[("client_id", &client), ("token", &revoked.refresh)]).await;
    store.die();
    // The access lifespan is shortened, and a multiple of it passes.
    let mut settings = settings();
    settings.keys = crate::Keys::new(&[PEM]).unwrap();
    let hour = Duration::from_secs(3600);
    settings.lifespans =
        crate::Lifespans::new(hour / 60, 168 * hour, Duration::from_secs(600)).unwrap();
    let after = World::over(settings, store.clone(), world.clock.clone());
    let server = after.server.sharing_revocations_with(&before.server);
    let again = tokio::spawn(server.clone().watch());
    watching.abort();
    for minutes in [0, 10, 30, 40] {
        world.clock.advance(Duration::from_secs(minutes * 20));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let verifier = server.verifier(crate::testing::RESOURCE).unwrap();
        let verify = |token: &str| verifier.verify(token).map(|_| ());
        assert_eq!(verify(&revoked.access), Err(OwnFault::Revoked), "{minutes}");
        assert_eq!(verify(&good.access), Ok(()), "{minutes}");
    }
    again.abort();
}

#[tokio::test(start_paused = true)]
async fn tokens_end_with_store_in_memory() {
    let world = World::new();
    let client = world.client().await;
    let (before, _) = dying(&world, usize::MAX, false);
    let old = before.tokens(&client).await;
    // The process ends and loses its revocations, but the signing key remains.
    world.clock.advance(Duration::from_secs(5));
    let limits = vmcp_auth_store::Limits::default();
    let store = vmcp_auth_store::MemoryStore::new(limits, world.clock.clone());
    let mut settings = settings();
    settings.keys = crate::Keys::new(&[PEM]).unwrap();
    let after = World::over(settings, std::sync::Arc::new(store), world.clock.clone());
    let watching = tokio::spawn(after.server.clone().watch());
    after.server.revocations_read().await;
    let verifier = after.server.verifier(crate::testing::RESOURCE).unwrap();
    assert_eq!(verifier.verify(&old.access).map(|_| ()), Err(OwnFault::Revoked));
    let new = after.tokens(&after.client().await).await;
    assert_eq!(verifier.verify(&new.access).map(|_| ()), Ok(()));
    watching.abort();
}
