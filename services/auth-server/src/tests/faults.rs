//! A store that goes away, and a replica that dies, at every step.

use std::time::Duration;

use crate::testing::{Browser, PEM, Watched, World, param, settings};

/// A replica over the store of another one, which dies at its `dies_at`th step.
fn dying(world: &World, dies_at: usize, last_is_taken: bool) -> (World, std::sync::Arc<Watched>) {
    let store = Watched::new(world.store.clone(), dies_at, last_is_taken);
    let mut settings = settings();
    settings.keys = crate::Keys::new(&[PEM]).unwrap();
    (World::over(settings, store.clone(), world.clock.clone()), store)
}

/// A login that goes on until it stops.
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
    assert_eq!(store.steps(), ["take_login", "user", "put_row", "put_login"]);
    let done = browser.get(&world, &World::at_provider(&git)).await.location();
    assert_eq!(store.steps(), ["take_login", "put_row", "put_code", "remember"]);
    let code = param(&url::Url::parse(&done).unwrap(), "code").unwrap();
    let got = world.redeem(&client, &code, &[]).await.tokens();
    assert_eq!(store.steps(), ["take_code", "start_grant"]);
    let got = world.refresh(&client, &got.refresh).await.tokens();
    assert_eq!(store.steps(), ["grant", "rotate"]);

    // Verifying costs nothing, and neither does userinfo.
    let token =
        world.server.verifier(crate::testing::RESOURCE).unwrap().verify(&got.access).unwrap();
    let request = http::Request::get("/oauth/userinfo")
        .header("authorization", format!("Bearer {}", got.access));
    assert_eq!(world.send(request.body(axum::body::Body::empty()).unwrap()).await.status, 200);
    assert_eq!(store.steps(), [""; 0]);

    // An upstream token is read once, and then at hand for a while.
    let tokens = world.server.tokens(token.session);
    for _ in 0..3 {
        tokens.token("git", vmcp_core::UpstreamKind::Access).await.unwrap();
    }
    assert_eq!(store.steps(), ["session"]);
    world.clock.advance(Duration::from_secs(3590));
    tokens.token("git", vmcp_core::UpstreamKind::Access).await.unwrap();
    assert_eq!(store.steps(), ["session", "lock_row", "replace_row", "unlock_row"]);

    // Agreed to before: the page is left out.
    browser.get(&world, &address).await.location();
    assert_eq!(store.steps(), ["client", "browser", "put_login"]);
    world.post("/oauth/revoke", &[("client_id", &client), ("token", &got.refresh)]).await;
    assert_eq!(store.steps(), ["grant", "revoke"]);
    world.register(serde_json::json!({"redirect_uris": [crate::testing::APP]})).await;
    assert_eq!(store.steps(), ["register"]);
}
