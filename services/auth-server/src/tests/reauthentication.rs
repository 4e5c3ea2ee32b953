//! Tests for `prompt` and `max_age` (OpenID Connect Core 1.0 section 3.1.2.1).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use vmcp_upstream::ReauthParams;

use crate::testing::{NOW, TestEnv, UserAgent, param};

#[tokio::test]
async fn passes_reauth_parameters_to_first_provider() {
    let login = ReauthParams { login: true, ..ReauthParams::default() };
    let choose = ReauthParams { select_account: true, ..ReauthParams::default() };
    let aged = ReauthParams { max_age: Some(60), ..ReauthParams::default() };
    for (changed, wanted) in [
        (&[][..], ReauthParams::default()),
        (&[("prompt", "login")], login),
        (&[("prompt", "consent select_account")], choose),
        (&[("max_age", "60"), ("prompt", "create")], aged),
    ] {
        let env = TestEnv::new();
        let client = env.client().await;
        env.corp.set(|behavior| behavior.authenticated = Some(0));
        let address = TestEnv::authorize(&client, changed);
        let mut browser = UserAgent::default();
        env.log_in_at(&mut browser, &address).await;
        assert_eq!(*env.corp.reauth_params.lock().unwrap(), [wanted], "{changed:?}");
        assert_eq!(
            *env.git.reauth_params.lock().unwrap(),
            [ReauthParams::default()],
            "{changed:?}"
        );
        // With a stored consent, the page is omitted.
        if changed.iter().all(|(_, value)| !value.contains("consent")) {
            browser.get(&env, &address).await.location();
            assert_eq!(*env.corp.reauth_params.lock().unwrap(), [wanted; 2], "{changed:?}");
        }
    }
}

#[tokio::test]
async fn verifies_authentication_time_of_provider() {
    let env = TestEnv::new();
    let client = env.client().await;
    // A browser can drop the parameters on the redirect to the provider.
    for (authenticated, wanted, error) in [
        (Some(3000), ("", ""), None),
        (None, ("", ""), None),
        (Some(0), ("prompt", "login"), None),
        (None, ("prompt", "login"), None),
        (Some(3000), ("prompt", "login"), Some("login_required")),
        (Some(3000), ("max_age", "3600"), None),
        (Some(3000), ("max_age", "60"), Some("login_required")),
        (None, ("max_age", "3600"), Some("login_required")),
        (Some(3), ("max_age", "0"), None),
    ] {
        env.corp.set(|behavior| behavior.authenticated = authenticated);
        let wanted = [wanted].into_iter().filter(|(name, _)| !name.is_empty()).collect::<Vec<_>>();
        let mut browser = UserAgent::default();
        let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &wanted)).await;
        let response = browser.get(&env, &TestEnv::provider_callback(&corp)).await;
        assert_eq!(
            param(&response.client_redirect(), "error").as_deref(),
            error,
            "{authenticated:?} {wanted:?}"
        );
        if error.is_some() {
            continue;
        }
        let done = browser
            .get(&env, &TestEnv::provider_callback(&response.location()))
            .await
            .client_redirect();
        let issued = env.redeem(&client, &param(&done, "code").unwrap(), &[]).await.json();
        for token in ["id_token", "access_token"] {
            let claims = issued[token].as_str().unwrap().split('.').nth(1).unwrap();
            let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
            let claims: Value = serde_json::from_slice(&claims).unwrap();
            assert_eq!(claims["auth_time"], NOW - authenticated.unwrap_or(0), "{token}");
        }
    }
    assert_eq!(env.store.counts().await.unwrap().logins, 0);
}

#[tokio::test]
async fn rejects_invalid_prompt_and_max_age() {
    let env = TestEnv::new();
    let client = env.client().await;
    for (name, value) in [
        ("max_age", "-1"),
        ("max_age", "+1"),
        ("max_age", "1.5"),
        ("max_age", "99999999999"),
        ("max_age", "soon"),
        ("prompt", "none login"),
    ] {
        let response =
            UserAgent::default().get(&env, &TestEnv::authorize(&client, &[(name, value)])).await;
        assert_eq!(response.error(), "invalid_request", "{name}={value}");
    }
}
