//! Tests for `prompt` and `max_age` (OpenID Connect Core 1.0 section 3.1.2.1).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use vmcp_upstream::ReauthParams;

use crate::testing::{Browser, NOW, World, param};

#[tokio::test]
async fn what_a_client_wants_is_the_first_providers_to_do() {
    let login = ReauthParams { login: true, ..ReauthParams::default() };
    let choose = ReauthParams { select_account: true, ..ReauthParams::default() };
    let aged = ReauthParams { max_age: Some(60), ..ReauthParams::default() };
    for (changed, wanted) in [
        (&[][..], ReauthParams::default()),
        (&[("prompt", "login")], login),
        (&[("prompt", "consent select_account")], choose),
        (&[("max_age", "60"), ("prompt", "create")], aged),
    ] {
        let world = World::new();
        let client = world.client().await;
        world.corp.set(|script| script.authenticated = Some(0));
        let address = World::authorize(&client, changed);
        let mut browser = Browser::default();
        world.log_in_at(&mut browser, &address).await;
        assert_eq!(*world.corp.wanted.lock().unwrap(), [wanted], "{changed:?}");
        assert_eq!(*world.git.wanted.lock().unwrap(), [ReauthParams::default()], "{changed:?}");
        // With a stored consent, the page is omitted.
        if changed.iter().all(|(_, value)| !value.contains("consent")) {
            browser.get(&world, &address).await.location();
            assert_eq!(*world.corp.wanted.lock().unwrap(), [wanted; 2], "{changed:?}");
        }
    }
}

#[tokio::test]
async fn whether_the_provider_did_it_is_seen_to_and_told() {
    let world = World::new();
    let client = world.client().await;
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
        world.corp.set(|script| script.authenticated = authenticated);
        let wanted = [wanted].into_iter().filter(|(name, _)| !name.is_empty()).collect::<Vec<_>>();
        let mut browser = Browser::default();
        let corp = world.consent(&mut browser, &World::authorize(&client, &wanted)).await;
        let came = browser.get(&world, &World::at_provider(&corp)).await;
        assert_eq!(param(&came.told(), "error").as_deref(), error, "{authenticated:?} {wanted:?}");
        if error.is_some() {
            continue;
        }
        let done = browser.get(&world, &World::at_provider(&came.location())).await.told();
        let got = world.redeem(&client, &param(&done, "code").unwrap(), &[]).await.json();
        for token in ["id_token", "access_token"] {
            let claims = got[token].as_str().unwrap().split('.').nth(1).unwrap();
            let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
            let claims: Value = serde_json::from_slice(&claims).unwrap();
            assert_eq!(claims["auth_time"], NOW - authenticated.unwrap_or(0), "{token}");
        }
    }
    assert_eq!(world.store.counts().await.unwrap().logins, 0);
}

#[tokio::test]
async fn what_cannot_be_wanted_is_refused() {
    let world = World::new();
    let client = world.client().await;
    for (name, value) in [
        ("max_age", "-1"),
        ("max_age", "+1"),
        ("max_age", "1.5"),
        ("max_age", "99999999999"),
        ("max_age", "soon"),
        ("prompt", "none login"),
    ] {
        let came =
            Browser::default().get(&world, &World::authorize(&client, &[(name, value)])).await;
        assert_eq!(came.error(), "invalid_request", "{name}={value}");
    }
}
