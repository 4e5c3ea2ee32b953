//! Tests that logs, pages and the store contain no secrets.

use serde_json::json;
use vmcp_auth_store::{ProviderName, Stage};
use vmcp_core::UpstreamKind;
use vmcp_test_support::LogCapture;

use crate::testing::{APP, RESOURCE, TestEnv, UserAgent, VERIFIER, param};

#[tokio::test]
async fn secrets_stay_out_of_logs_and_debug() {
    let log = LogCapture::current_thread();

    let env = TestEnv::new();
    let document = json!({
        "redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_post",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let registered = env.register(document).await.json();
    let text = |name: &str| registered[name].as_str().unwrap().to_owned();
    let (client, secret) = (text("client_id"), text("client_secret"));
    let with_secret = [("client_secret", secret.as_str())];
    let mut browser = UserAgent::default();
    let answer = env.log_in_at(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let code = param(&answer, "code").unwrap();
    let issued = env.redeem(&client, &code, &with_secret).await.tokens();
    // Errors are logged too.
    env.redeem(&client, &code, &with_secret).await;
    env.redeem(&client, &code, &[("client_secret", "wrong-canary")]).await;
    env.refresh(&client, &issued.refresh).await;
    let issued = {
        let code = env.code(&client).await;
        env.redeem(&client, &code, &with_secret).await.tokens()
    };
    let verifier = env.server.verifier(RESOURCE).unwrap();
    let token = verifier.verify(&issued.access).unwrap();
    let tokens = env.server.upstream_tokens(token.session);
    tokens.token("git", UpstreamKind::Access).await.unwrap();
    env.git.set(|behavior| behavior.refresh = Some(vmcp_upstream::RefreshError::GrantEnded));
    env.clock.advance(std::time::Duration::from_hours(1));
    assert!(tokens.token("git", UpstreamKind::Access).await.is_err());
    browser.get(&env, "/oauth/callback?error=canary&state=canary").await;

    let session = env.store.session(&token.session).await.unwrap();
    let shown =
        format!("{:?} {session:?} {verifier:?} {token:?} {:?}", env.server, env.server.settings());
    let logged = log.text();
    assert!(logged.contains("replayed"), "{logged}");
    let cookie = browser.cookie.unwrap();
    let cookie = cookie.split_once('=').unwrap().1;
    for canary in [
        "canary",
        &code,
        &issued.access,
        &issued.refresh,
        &secret,
        VERIFIER,
        cookie,
        "alice@example.com",
    ] {
        assert!(!logged.contains(canary), "{canary} is logged: {logged}");
        assert!(!shown.contains(canary), "{canary} is shown: {shown}");
    }
}

#[tokio::test]
async fn store_encrypts_logins_and_upstream_tokens() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let state = param(&url::Url::parse(&corp).unwrap(), "state").unwrap();
    let login = env.store.login(&crate::login::upstream_login_key(&state)).await.unwrap().unwrap();
    let Stage::AwaitUpstream { leg, .. } = &login.stage else { panic!("{login:?}") };
    let clear = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"canary");
    assert!(!clear(leg.as_bytes()));
    let kept = serde_json::to_string(&login).unwrap();
    assert!(!kept.contains(&state) && !kept.contains("canary"));
    let issued = env.tokens(&client).await;
    let token = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap();
    let session = env.store.session(&token.session).await.unwrap().unwrap();
    let row = &session.rows[&ProviderName::new("git").unwrap()];
    assert!(!clear(row.sealed.as_bytes()));
}
