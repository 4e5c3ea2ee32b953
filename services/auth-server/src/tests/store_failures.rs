//! Tests in which the store fails, or a replica dies, at every step.

use std::time::Duration;

use crate::AccessTokenError;
use crate::testing::{FailingStore, PEM, TestEnv, UserAgent, param, settings};

/// Creates a replica over the store of another one, which dies at its `fails_at`th store operation.
fn failing_replica(
    env: &TestEnv,
    fails_at: usize,
    applies_last: bool,
) -> (TestEnv, std::sync::Arc<FailingStore>) {
    let store = FailingStore::new(env.store.clone(), fails_at, applies_last);
    let mut settings = settings();
    settings.keys = crate::SigningKeys::new(&[PEM]).unwrap();
    (TestEnv::with_store(settings, store.clone(), env.clock.clone()), store)
}

/// Runs a login until it fails or completes.
async fn log_in(env: &TestEnv, browser: &mut UserAgent, address: &str) -> Option<String> {
    let page = browser.get(env, address).await;
    let corp = match page.status.as_u16() {
        200 => {
            let left = browser.send(env, TestEnv::decision(&page.text, "allow")).await;
            (left.status == 200).then(|| left.refresh_target())?
        }
        303 => page.location(),
        _ => return None,
    };
    let corp = corp.starts_with("https://corp.example").then_some(corp)?;
    let git = browser.get(env, &TestEnv::provider_callback(&corp)).await;
    let git = (git.status == 303).then(|| git.location())?;
    let git = git.starts_with("https://git.example").then_some(git)?;
    let done = browser.get(env, &TestEnv::provider_callback(&git)).await;
    let done = (done.status == 303).then(|| done.location())?;
    param(&url::Url::parse(&done).unwrap(), "code")
}

#[tokio::test]
async fn login_restarts_after_replica_dies() {
    for applies_last in [false, true] {
        for fails_at in 1.. {
            assert!(fails_at < 40, "the login never ends");
            let env = TestEnv::new();
            let client = env.client().await;
            let (replica, store) = failing_replica(&env, fails_at, applies_last);
            let mut browser = UserAgent::default();
            let address = TestEnv::authorize(&client, &[]);
            let code = log_in(&replica, &mut browser, &address).await;
            let survived = !store.is_failing();
            // The same browser, on another replica.
            let (other, _) = failing_replica(&env, usize::MAX, false);
            let code = match code {
                Some(code) => code,
                None => log_in(&other, &mut browser, &address).await.unwrap_or_else(|| {
                    panic!("a login is stuck after step {fails_at}: {:?}", store.steps())
                }),
            };
            let issued = other.redeem(&client, &code, &[]).await.tokens();
            assert_eq!(other.refresh(&client, &issued.refresh).await.status, 200);
            env.clock.advance(Duration::from_secs(1201));
            let counts = env.store.counts().await.unwrap();
            assert_eq!((counts.sessions, counts.grants), (1, 1), "step {fails_at}");
            if survived {
                break;
            }
        }
    }
}

#[tokio::test]
async fn token_requests_recover_after_replica_dies() {
    for applies_last in [false, true] {
        for fails_at in 1..=3 {
            let env = TestEnv::new();
            let client = env.client().await;
            let (other, _) = failing_replica(&env, usize::MAX, false);
            let code = other.code(&client).await;
            let (replica, store) = failing_replica(&env, fails_at, applies_last);
            let response = replica.redeem(&client, &code, &[]).await;
            assert_eq!(response.status == 200, !store.is_failing(), "{fails_at}");
            if store.is_failing() {
                assert_eq!(response.error(), "temporarily_unavailable");
                assert!(response.headers.contains_key("retry-after"));
                let again = other.redeem(&client, &code, &[]).await;
                assert!(again.status == 200 || again.error() == "invalid_grant", "{}", again.text);
            }
            // A refresh can always be repeated.
            let issued = other.tokens(&client).await;
            let (replica, store) = failing_replica(&env, fails_at, applies_last);
            let response = replica.refresh(&client, &issued.refresh).await;
            assert_eq!(response.status == 200, !store.is_failing(), "{fails_at}");
            let again = other.refresh(&client, &issued.refresh).await.tokens();
            assert_eq!(other.refresh(&client, &again.refresh).await.status, 200);
        }
    }
}

#[tokio::test]
async fn endpoints_use_documented_number_of_round_trips() {
    let base = TestEnv::new();
    let client = base.client().await;
    let (env, store) = failing_replica(&base, usize::MAX, false);
    let mut browser = UserAgent::default();
    let address = TestEnv::authorize(&client, &[]);

    let page = browser.get(&env, &address).await;
    assert_eq!(store.steps(), ["client", "put_login"]);
    let left = browser.send(&env, TestEnv::decision(&page.text, "allow")).await;
    assert_eq!(store.steps(), ["login", "advance_login"]);
    let git =
        browser.get(&env, &TestEnv::provider_callback(&left.refresh_target())).await.location();
    assert_eq!(store.steps(), ["take_login", "upsert_user", "put_upstream_token", "put_login"]);
    let done = browser.get(&env, &TestEnv::provider_callback(&git)).await.location();
    assert_eq!(store.steps(), ["take_login", "put_upstream_token", "put_code", "put_browser"]);
    let code = param(&url::Url::parse(&done).unwrap(), "code").unwrap();
    let issued = env.redeem(&client, &code, &[]).await.tokens();
    assert_eq!(store.steps(), ["redeem_code", "start_grant"]);
    let issued = env.refresh(&client, &issued.refresh).await.tokens();
    assert_eq!(store.steps(), ["grant", "session", "rotate"]);

    // Verification and userinfo need no round trip to the store.
    let token =
        env.server.verifier(crate::testing::RESOURCE).unwrap().verify(&issued.access).unwrap();
    let request = http::Request::get("/oauth/userinfo")
        .header("authorization", format!("Bearer {}", issued.access));
    assert_eq!(env.send(request.body(axum::body::Body::empty()).unwrap()).await.status, 200);
    assert_eq!(store.steps(), [""; 0]);

    // An upstream token is read once and then cached.
    let tokens = env.server.upstream_tokens(token.session);
    for _ in 0..3 {
        tokens.token("git", vmcp_core::UpstreamKind::Access).await.unwrap();
    }
    assert_eq!(store.steps(), ["session"]);
    env.clock.advance(Duration::from_secs(3590));
    tokens.token("git", vmcp_core::UpstreamKind::Access).await.unwrap();
    assert_eq!(
        store.steps(),
        ["session", "lock_upstream_token", "replace_upstream_token", "unlock_upstream_token"]
    );

    // With a stored consent, the page is omitted.
    browser.get(&env, &address).await.location();
    assert_eq!(store.steps(), ["client", "browser", "put_login"]);
    env.post("/oauth/revoke", &[("client_id", &client), ("token", &issued.refresh)]).await;
    assert_eq!(store.steps(), ["grant", "revoke"]);
    env.register(serde_json::json!({"redirect_uris": [crate::testing::APP]})).await;
    assert_eq!(store.steps(), ["register"]);
}

#[tokio::test(start_paused = true)]
async fn rejects_tokens_until_revocations_are_loaded() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (one, _) = failing_replica(&env, usize::MAX, false);
    let [revoked, good] = [one.tokens(&client).await, one.tokens(&client).await];
    one.post("/oauth/revoke", &[("client_id", &client), ("token", &revoked.refresh)]).await;
    // A replica starts while the store is unavailable.
    let (two, store) = failing_replica(&env, 0, false);
    let watching = tokio::spawn(two.server.clone().watch_revocations());
    let verifier = two.server.verifier(crate::testing::RESOURCE).unwrap();
    let verify = |token: &str| verifier.verify(token).map(|_| ());
    tokio::time::sleep(Duration::from_secs(10)).await;
    for token in [&revoked.access, &good.access] {
        assert_eq!(verify(token), Err(AccessTokenError::RevocationsNotLoaded));
        let request = http::Request::get("/oauth/userinfo")
            .header("authorization", format!("Bearer {token}"))
            .body(axum::body::Body::empty());
        let response = two.send(request.unwrap()).await;
        assert_eq!(
            (response.status.as_u16(), response.error().as_str()),
            (503, "temporarily_unavailable")
        );
        assert!(
            response.headers.contains_key("retry-after")
                && !response.headers.contains_key("www-authenticate")
        );
        // A failed revocation is not reported as successful.
        let form = [("client_id", client.as_str()), ("token", token)];
        assert_eq!(two.post("/oauth/revoke", &form).await.status, 503);
    }
    // After a reload in the meantime, the set is still incomplete.
    let (after, _) = failing_replica(&env, 0, false);
    let reloaded = after.server.with_shared_revocations(&two.server);
    let reloaded = reloaded.verifier(crate::testing::RESOURCE).unwrap();
    assert_eq!(
        reloaded.verify(&good.access).map(|_| ()),
        Err(AccessTokenError::RevocationsNotLoaded)
    );
    let waiting = tokio::spawn({
        let server = two.server.clone();
        async move { server.wait_revocations_loaded().await }
    });
    store.recover();
    waiting.await.unwrap();
    assert_eq!(
        (verify(&revoked.access), verify(&good.access)),
        (Err(AccessTokenError::Revoked), Ok(()))
    );
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn keeps_revocations_over_reload_without_store() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (before, store) = failing_replica(&env, usize::MAX, false);
    let watching = tokio::spawn(before.server.clone().watch_revocations());
    let [revoked, good] = [before.tokens(&client).await, before.tokens(&client).await];
    before.post("/oauth/revoke", &[("client_id", &client), ("token", &revoked.refresh)]).await;
    store.fail();
    // The access lifespan is shortened, and a multiple of it passes.
    let mut settings = settings();
    settings.keys = crate::SigningKeys::new(&[PEM]).unwrap();
    let hour = Duration::from_hours(1);
    settings.lifespans =
        crate::Lifespans::new(hour / 60, 168 * hour, Duration::from_mins(10)).unwrap();
    let after = TestEnv::with_store(settings, store.clone(), env.clock.clone());
    let server = after.server.with_shared_revocations(&before.server);
    let again = tokio::spawn(server.clone().watch_revocations());
    watching.abort();
    for minutes in [0, 10, 30, 40] {
        env.clock.advance(Duration::from_secs(minutes * 20));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let verifier = server.verifier(crate::testing::RESOURCE).unwrap();
        let verify = |token: &str| verifier.verify(token).map(|_| ());
        assert_eq!(verify(&revoked.access), Err(AccessTokenError::Revoked), "{minutes}");
        assert_eq!(verify(&good.access), Ok(()), "{minutes}");
    }
    again.abort();
}

#[tokio::test(start_paused = true)]
async fn tokens_end_with_store_in_memory() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (before, _) = failing_replica(&env, usize::MAX, false);
    let old = before.tokens(&client).await;
    // The process ends and loses its revocations, but the signing key remains.
    env.clock.advance(Duration::from_secs(5));
    let limits = vmcp_auth_store::Limits::default();
    let store = vmcp_auth_store::MemoryStore::new(limits, env.clock.clone());
    let mut settings = settings();
    settings.keys = crate::SigningKeys::new(&[PEM]).unwrap();
    let after = TestEnv::with_store(settings, std::sync::Arc::new(store), env.clock.clone());
    let watching = tokio::spawn(after.server.clone().watch_revocations());
    after.server.wait_revocations_loaded().await;
    let verifier = after.server.verifier(crate::testing::RESOURCE).unwrap();
    assert_eq!(verifier.verify(&old.access).map(|_| ()), Err(AccessTokenError::Revoked));
    let new = after.tokens(&after.client().await).await;
    assert_eq!(verifier.verify(&new.access).map(|_| ()), Ok(()));
    watching.abort();
}
