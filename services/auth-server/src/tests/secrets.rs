//! Tests that logs, pages and the store contain no secrets.

use serde_json::json;
use vmcp_auth_store::{ProviderName, Stage};
use vmcp_core::UpstreamKind;
use vmcp_log_capture::Log;

use crate::testing::{APP, Browser, RESOURCE, VERIFIER, World, param};

#[tokio::test]
async fn no_secret_is_in_a_log_or_a_debug_form() {
    let log = Log::of_this_thread();

    let world = World::new();
    let document = json!({
        "redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_post",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let registered = world.register(document).await.json();
    let text = |name: &str| registered[name].as_str().unwrap().to_owned();
    let (client, secret) = (text("client_id"), text("client_secret"));
    let with_secret = [("client_secret", secret.as_str())];
    let mut browser = Browser::default();
    let answer = world.log_in_at(&mut browser, &World::authorize(&client, &[])).await;
    let code = param(&answer, "code").unwrap();
    let got = world.redeem(&client, &code, &with_secret).await.tokens();
    // Errors are logged too.
    world.redeem(&client, &code, &with_secret).await;
    world.redeem(&client, &code, &[("client_secret", "wrong-canary")]).await;
    world.refresh(&client, &got.refresh).await;
    let got = {
        let code = world.code(&client).await;
        world.redeem(&client, &code, &with_secret).await.tokens()
    };
    let verifier = world.server.verifier(RESOURCE).unwrap();
    let token = verifier.verify(&got.access).unwrap();
    let tokens = world.server.tokens(token.session);
    tokens.token("git", UpstreamKind::Access).await.unwrap();
    world.git.set(|script| script.refresh = Some(vmcp_upstream::RefreshError::GrantEnded));
    world.clock.advance(std::time::Duration::from_secs(3600));
    assert!(tokens.token("git", UpstreamKind::Access).await.is_err());
    browser.get(&world, "/oauth/callback?error=canary&state=canary").await;

    let session = world.store.session(&token.session).await.unwrap();
    let shown = format!(
        "{:?} {session:?} {verifier:?} {token:?} {:?}",
        world.server,
        world.server.settings()
    );
    let logged = log.text();
    assert!(logged.contains("presented again"), "{logged}");
    let cookie = browser.cookie.unwrap();
    let cookie = cookie.split_once('=').unwrap().1;
    for canary in
        ["canary", &code, &got.access, &got.refresh, &secret, VERIFIER, cookie, "alice@example.com"]
    {
        assert!(!logged.contains(canary), "{canary} is logged: {logged}");
        assert!(!shown.contains(canary), "{canary} is shown: {shown}");
    }
}

#[tokio::test]
async fn what_the_store_has_of_a_login_and_a_row_is_encrypted() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    let state = param(&url::Url::parse(&corp).unwrap(), "state").unwrap();
    let login = world.store.login(&crate::flow::state_key(&state)).await.unwrap().unwrap();
    let Stage::AwaitUpstream { leg, .. } = &login.stage else { panic!("{login:?}") };
    let clear = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"canary");
    assert!(!clear(leg.as_bytes()));
    let kept = serde_json::to_string(&login).unwrap();
    assert!(!kept.contains(&state) && !kept.contains("canary"));
    let got = world.tokens(&client).await;
    let token = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap();
    let session = world.store.session(&token.session).await.unwrap().unwrap();
    let row = &session.rows[&ProviderName::new("git").unwrap()];
    assert!(!clear(row.sealed.as_bytes()));
}
