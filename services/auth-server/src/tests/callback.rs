//! Tests for consent, the redirect to the providers, and the callback.

use vmcp_auth_store::{ClientId, Consent, Digest, Limits, ProviderName};
use vmcp_upstream::{AuthorizationResponseError, EndpointError, EndpointKind, ProviderError};

use crate::IssuerUrl;
use crate::testing::{
    APP, ISSUER, LOOPBACK, TestEnv, TestResponse, UserAgent, form_request, param,
};

fn redirect_url(response: &TestResponse) -> url::Url {
    url::Url::parse(&response.location()).unwrap()
}

#[tokio::test]
async fn login_visits_providers_in_order() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    assert!(corp.starts_with("https://corp.example/"), "{corp}");
    let git = browser.get(&env, &TestEnv::provider_callback(&corp)).await.location();
    assert!(git.starts_with("https://git.example/"), "{git}");
    let done = redirect_url(&browser.get(&env, &TestEnv::provider_callback(&git)).await);
    assert!(done.as_str().starts_with(APP));
    assert_eq!(param(&done, "state").as_deref(), Some("client-state"));
    assert_eq!(param(&done, "iss").as_deref(), Some(ISSUER));
    assert!(param(&done, "code").unwrap().starts_with("vac_"));
}

/// The cookie of a login belongs to the origin of the authorization endpoint; providers may have a callback at another
/// origin.
#[tokio::test]
async fn forwards_callback_to_origin_of_cookie() {
    let mut settings = crate::testing::settings();
    settings.authorization_base = Some(IssuerUrl::parse("https://login.example/auth").unwrap());
    let env = TestEnv::with(settings, Limits::default());
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let authorize = format!("/auth{}", TestEnv::authorize(&client, &[]));
    let mut at = env.consent(&mut browser, &authorize).await;
    for _ in ["corp", "git"] {
        // Browsers send no cookie to that origin.
        let forwarded = env.get(&TestEnv::provider_callback(&at)).await.location();
        let back = forwarded.strip_prefix("https://login.example").unwrap();
        assert!(back.starts_with("/auth/oauth/return/oauth/callback?code="), "{back}");
        at = browser.get(&env, back).await.location();
    }
    assert!(at.starts_with(APP) && at.contains("code="), "{at}");
    // A callback in another browser ends the login.
    let mut other = UserAgent::default();
    let corp = env.consent(&mut other, &authorize).await;
    let forwarded = env.get(&TestEnv::provider_callback(&corp)).await.location();
    let back = forwarded.strip_prefix("https://login.example").unwrap();
    assert_eq!(env.get(back).await.status, 403);
}

#[tokio::test]
async fn contacts_no_provider_before_consent() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let page = browser.get(&env, &TestEnv::authorize(&client, &[])).await;
    assert_eq!(page.status, 200);
    let denied = browser.send(&env, TestEnv::decision(&page.text, "deny")).await;
    let to = denied.client_redirect();
    assert_eq!(param(&to, "error").as_deref(), Some("access_denied"));
    assert_eq!(param(&to, "iss").as_deref(), Some(ISSUER));
    // The login is over: submitting the same page again has no effect.
    let again = browser.send(&env, TestEnv::decision(&page.text, "allow")).await;
    assert_eq!(again.status, 400);
    assert_eq!(env.store.counts().await.unwrap().logins, 0);
}

#[tokio::test]
async fn accepts_consent_form_once_from_own_browser() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let page = browser.get(&env, &TestEnv::authorize(&client, &[])).await;
    let other_page = UserAgent::default().get(&env, &TestEnv::authorize(&client, &[])).await;
    let allow = || TestEnv::decision(&page.text, "allow");

    // Another browser, without a cookie or with its own.
    assert_eq!(env.send(allow()).await.status, 403);
    let mut other = UserAgent::default();
    other.get(&env, &TestEnv::authorize(&client, &[])).await;
    assert_eq!(other.send(&env, allow()).await.status, 403);

    // The token of another form.
    let own = String::from_utf8(body(allow()).await).unwrap();
    let foreign =
        String::from_utf8(body(TestEnv::decision(&other_page.text, "allow")).await).unwrap();
    let csrf =
        |text: &str| text.split("csrf=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let mixed = own.replace(&csrf(&own), &csrf(&foreign));
    for text in [mixed.as_str(), &own.replace(&csrf(&own), ""), &format!("{own}&decision=deny")] {
        let mut request = form_request("/oauth/consent", &[]);
        *request.body_mut() = text.to_owned().into();
        let response = browser.send(&env, request).await;
        assert!(response.status == 403 || response.status == 400, "{text}: {}", response.status);
    }

    // A cross-site request, by the browser's headers.
    let mut request = allow();
    request.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
    assert_eq!(browser.send(&env, request).await.status, 403);

    // Rejected attempts do not use up the login; the valid form does.
    assert_eq!(browser.send(&env, allow()).await.status, 200);
    assert_eq!(browser.send(&env, allow()).await.status, 400);
    // A `GET` of the form's address shows an error page.
    let again = browser.get(&env, "/oauth/consent").await;
    assert!(again.text.contains("This login has expired"), "{again:?}");
}

async fn body(request: http::Request<axum::body::Body>) -> Vec<u8> {
    axum::body::to_bytes(request.into_body(), 1 << 16).await.unwrap().to_vec()
}

#[tokio::test]
async fn skips_consent_page_for_stored_consent() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let some = TestEnv::authorize(&client, &[("scope", "openid profile")]);
    env.log_in_at(&mut browser, &some).await;
    let asked = async |address: String, browser: &mut UserAgent| {
        browser.get(&env, &address).await.status == 200
    };
    assert!(!asked(some.clone(), &mut browser).await);
    assert!(!asked(TestEnv::authorize(&client, &[("scope", "openid")]), &mut browser).await);
    // More scopes, another redirect URI, another client, another browser, or `prompt=consent`.
    assert!(asked(TestEnv::authorize(&client, &[("scope", "openid email")]), &mut browser).await);
    let loopback = TestEnv::authorize(&client, &[("scope", "openid"), ("redirect_uri", LOOPBACK)]);
    assert!(asked(loopback, &mut browser).await);
    let other = env.client().await;
    assert!(asked(TestEnv::authorize(&other, &[("scope", "openid")]), &mut browser).await);
    assert!(asked(some.clone(), &mut UserAgent::default()).await);
    let on_request = TestEnv::authorize(&client, &[("scope", "openid"), ("prompt", "consent")]);
    assert!(asked(on_request, &mut browser).await);
    // A consent expires.
    env.clock.advance(std::time::Duration::from_hours(744));
    assert!(asked(TestEnv::authorize(&env.client().await, &[]), &mut browser).await);
}

#[tokio::test]
async fn accepts_each_state_once() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let back = TestEnv::provider_callback(&corp);
    let mut twin = browser.clone();
    let (one, two) = tokio::join!(browser.get(&env, &back), twin.get(&env, &back));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 400]);
}

#[tokio::test]
async fn rejects_login_started_in_other_browser() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut attacker = UserAgent::default();
    let corp = env.consent(&mut attacker, &TestEnv::authorize(&client, &[])).await;
    // The victim follows the attacker's redirect to the provider and returns.
    let mut victim = UserAgent::default();
    assert_eq!(victim.get(&env, &TestEnv::provider_callback(&corp)).await.status, 403);
    victim.get(&env, &TestEnv::authorize(&client, &[])).await;
    let mut attacker = UserAgent::default();
    let corp = env.consent(&mut attacker, &TestEnv::authorize(&client, &[])).await;
    let response = victim.get(&env, &TestEnv::provider_callback(&corp)).await;
    assert_eq!(response.status, 403);
    assert!(response.text.contains("another browser"));
    // The login has ended for the attacker too.
    assert_eq!(attacker.get(&env, &TestEnv::provider_callback(&corp)).await.status, 400);
}

#[tokio::test]
async fn ignores_cookie_sent_twice() {
    let env = TestEnv::new();
    let client = env.client().await;
    let planted = format!("__Host-vmcp-browser={}", "A".repeat(43));
    for is_first in [true, false] {
        let mut browser = UserAgent::default();
        let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
        let own = browser.cookie.take().unwrap();
        let both = if is_first { [&*planted, &*own] } else { [&*own, &*planted] };
        browser.cookie = Some(both.join("; "));
        assert_eq!(
            browser.get(&env, &TestEnv::provider_callback(&corp)).await.status,
            403,
            "{is_first}"
        );
    }
}

#[tokio::test]
async fn login_expires_after_ten_minutes() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    env.clock.advance(std::time::Duration::from_secs(601));
    let response = browser.get(&env, &TestEnv::provider_callback(&corp)).await;
    assert_eq!(response.status, 400);
    assert!(response.text.contains("This login has expired"));
}

#[tokio::test]
async fn hides_error_text_of_providers() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let back = TestEnv::provider_callback(&corp)
        .replace("code=", "error=%3Cscript%3Ecanary&error_description=canary&x=");
    let response = browser.get(&env, &back).await;
    assert!(!response.location().contains("canary"));
    assert_eq!(response.error(), "access_denied");
    // Without a matching login, the browser is not redirected.
    let response = browser.get(&env, "/oauth/callback?error=canary&state=unknown").await;
    assert_eq!(response.status, 400);
    assert!(!response.text.contains("canary"));
    for query in ["", "?code=1", "?state=", "?state=a&state=b"] {
        assert_eq!(
            browser.get(&env, &format!("/oauth/callback{query}")).await.status,
            400,
            "{query}"
        );
    }
}

#[tokio::test]
async fn maps_provider_errors_for_client() {
    let env = TestEnv::new();
    let client = env.client().await;
    for (error, code) in [
        ("access_denied", "access_denied"),
        ("user_cancelled_login", "access_denied"),
        ("temporarily_unavailable", "temporarily_unavailable"),
        ("server_error", "temporarily_unavailable"),
        ("unauthorized_client", "server_error"),
    ] {
        for upstreams in [1, 2] {
            let mut browser = UserAgent::default();
            let mut at = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
            if upstreams == 2 {
                at = browser.get(&env, &TestEnv::provider_callback(&at)).await.location();
            }
            let back = TestEnv::provider_error_callback(&at, error);
            let response = browser.get(&env, &back).await;
            let to = redirect_url(&response);
            assert!(to.as_str().starts_with(APP) && !to.as_str().contains("canary"), "{to}");
            assert_eq!(param(&to, "error").as_deref(), Some(code), "{error}");
            assert!(param(&to, "error_description").unwrap().contains("identity provider"));
            assert_eq!(param(&to, "state").as_deref(), Some("client-state"));
            assert_eq!(param(&to, "iss").as_deref(), Some(ISSUER));
            assert!(param(&to, "code").is_none());
            // The login has ended, and the tokens of its first provider are deleted.
            let counts = env.store.counts().await.unwrap();
            assert_eq!((counts.logins, counts.sessions, counts.codes), (0, 0, 0));
            assert_eq!(browser.get(&env, &back).await.status, 400);
            let after = TestEnv::provider_callback(&at);
            assert_eq!(browser.get(&env, &after).await.status, 400);
        }
    }
}

#[tokio::test]
async fn failed_provider_login_leaves_no_records() {
    let env = TestEnv::new();
    let client = env.client().await;
    let away =
        ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Timeout };
    for (cause, error) in [
        (ProviderError::Response(AuthorizationResponseError::WrongIssuer), "access_denied"),
        (away.clone(), "temporarily_unavailable"),
        (ProviderError::ConfigMismatch("x"), "server_error"),
    ] {
        let mut browser = UserAgent::default();
        let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
        let git = browser.get(&env, &TestEnv::provider_callback(&corp)).await.location();
        env.git.set(|behavior| behavior.finish = Some(cause));
        let response = browser.get(&env, &TestEnv::provider_callback(&git)).await;
        assert_eq!(response.error(), error);
        assert_eq!(param(&redirect_url(&response), "iss").as_deref(), Some(ISSUER));
        env.git.set(|behavior| behavior.finish = None);
        assert_eq!(env.store.counts().await.unwrap().sessions, 0, "{error}");
    }
    env.git.set(|behavior| behavior.begin = Some(away));
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let response = browser.get(&env, &TestEnv::provider_callback(&corp)).await;
    assert_eq!(response.error(), "temporarily_unavailable");
    env.corp.set(|behavior| behavior.begin = Some(ProviderError::ConfigMismatch("x")));
    let page = UserAgent::default().get(&env, &TestEnv::authorize(&client, &[])).await;
    let cookie = page.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let left = UserAgent { cookie: Some(cookie), address: None }
        .send(&env, TestEnv::decision(&page.text, "allow"))
        .await;
    assert!(left.refresh_target().contains("error=server_error"));
}

#[tokio::test]
async fn rejects_callback_with_repeated_parameters() {
    let env = TestEnv::new();
    let client = env.client().await;
    for more in ["code=another", "error=access_denied&error=x", "iss=a&iss=b", "x=1&x=1"] {
        let mut browser = UserAgent::default();
        let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
        let back = format!("{}&{more}", TestEnv::provider_callback(&corp));
        let answer = redirect_url(&browser.get(&env, &back).await);
        let words = param(&answer, "error_description").unwrap();
        assert!(words.contains("malformed"), "{more}: {words}");
    }
    assert_eq!(env.store.counts().await.unwrap().users, 0);
}

#[tokio::test]
async fn rejects_code_of_other_provider() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let git = browser.get(&env, &TestEnv::provider_callback(&corp)).await.location();
    let code = TestEnv::provider_callback(&corp).split('&').next().unwrap().to_owned();
    let state = TestEnv::provider_callback(&git).split_once('&').unwrap().1.to_owned();
    let response = browser.get(&env, &format!("{code}&{state}")).await;
    assert_eq!(response.error(), "access_denied");
}

#[tokio::test]
async fn only_first_provider_identifies_user() {
    let env = TestEnv::new();
    let client = env.client().await;
    let subject = |access: &str| {
        let token = env.server.verifier(crate::testing::RESOURCE).unwrap().verify(access).unwrap();
        token.subject
    };
    let alice = subject(&env.tokens(&client).await.access);
    env.git.set(|behavior| behavior.subject = "somebody-else");
    assert_eq!(subject(&env.tokens(&client).await.access), alice);
    env.corp.set(|behavior| behavior.subject = "bob");
    assert_ne!(subject(&env.tokens(&client).await.access), alice);
}

#[tokio::test]
async fn uses_synthetic_subject_unchanged() {
    let env = TestEnv::new();
    let client = env.client().await;
    env.corp.set(|behavior| {
        behavior.subject = "tk-0123456789abcdef0123456789abcdef";
        behavior.is_synthetic = true;
    });
    let access = env.tokens(&client).await.access;
    let token = env.server.verifier(crate::testing::RESOURCE).unwrap().verify(&access).unwrap();
    assert_eq!(token.subject, "tk-0123456789abcdef0123456789abcdef");
    assert_eq!(env.store.counts().await.unwrap().users, 0);
}

#[tokio::test]
async fn asks_for_consent_again_if_subject_is_synthetic() {
    let env = TestEnv::new();
    let client = env.client().await;
    env.corp.set(|behavior| (behavior.subject, behavior.is_synthetic) = ("tk-0123", true));
    let mut browser = UserAgent::default();
    let address = TestEnv::authorize(&client, &[]);
    env.log_in_at(&mut browser, &address).await;
    env.corp.set(|behavior| behavior.subject = "tk-4567");
    assert_eq!(browser.get(&env, &address).await.status, 200, "another person may use it now");
    let answer = env.log_in_at(&mut browser, &address).await;
    assert!(param(&answer, "code").is_some(), "{answer}");
    // A consent that an earlier version stored does not count either.
    let cookie = browser.cookie.as_deref().unwrap().split_once('=').unwrap().1;
    let cookie = Digest::of(["browser\0", cookie].concat());
    let user = env.store.browser(&cookie).await.unwrap().unwrap().user;
    let now = env.clock.now().into();
    let day = std::time::Duration::from_hours(24);
    let consent = Consent {
        client: ClientId::new(&*client).unwrap(),
        redirect_uri: APP.into(),
        scopes: ["openid", "profile", "email", "offline_access"].map(str::to_owned).into(),
        given: now,
        expires: now + day,
    };
    env.store.put_browser(&cookie, &user, Some(&consent), day).await.unwrap();
    assert_eq!(browser.get(&env, &address).await.status, 200);
}

#[tokio::test]
async fn inherits_refresh_token_for_same_subject_only() {
    let env = TestEnv::new();
    let client = env.client().await;
    let row = async |access: &str| {
        let token = env.server.verifier(crate::testing::RESOURCE).unwrap().verify(access).unwrap();
        let session = env.store.session(&token.session).await.unwrap().unwrap();
        let upstream = env.server.providers.by_name("git").unwrap();
        let row = session.rows[&ProviderName::new("git").unwrap()].clone();
        env.server.cipher.decrypt_tokens(token.session, upstream, &row).unwrap().refresh.is_some()
    };
    assert!(row(&env.tokens(&client).await.access).await);
    env.git.set(|behavior| behavior.refresh_token = None);
    assert!(row(&env.tokens(&client).await.access).await);
    // A refresh token is bound to the client that the provider issued it to.
    env.git.set(|behavior| behavior.client_id = "us-again");
    assert!(!row(&env.tokens(&client).await.access).await);
    env.git.set(|behavior| {
        (behavior.client_id, behavior.subject) = ("us", "somebody-else");
    });
    assert!(!row(&env.tokens(&client).await.access).await);
}

#[tokio::test]
async fn consent_covers_only_consenting_user() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let through = async |browser: &mut UserAgent, corp: String| {
        let response = browser.get(&env, &TestEnv::provider_callback(&corp)).await.location();
        if response.starts_with("https://git.example/") {
            return redirect_url(&browser.get(&env, &TestEnv::provider_callback(&response)).await);
        }
        url::Url::parse(&response).unwrap()
    };
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    assert!(param(&through(&mut browser, corp).await, "code").is_some());

    // The same user sees no consent page.
    let corp = browser.get(&env, &TestEnv::authorize(&client, &[])).await.location();
    assert!(param(&through(&mut browser, corp).await, "code").is_some());

    // Another user of the same browser gets no code without a consent page.
    env.corp.set(|behavior| behavior.subject = "bob");
    let corp = browser.get(&env, &TestEnv::authorize(&client, &[])).await.location();
    let refused = through(&mut browser, corp).await;
    assert_eq!(param(&refused, "error").as_deref(), Some("access_denied"));
    let page = browser.get(&env, &TestEnv::authorize(&client, &[])).await;
    assert_eq!(page.status, 200);
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    assert!(param(&through(&mut browser, corp).await, "code").is_some());
}

#[tokio::test]
async fn synthetic_user_never_inherits_earlier_session() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let git = browser.get(&env, &TestEnv::provider_callback(&corp)).await.location();
    browser.get(&env, &TestEnv::provider_callback(&git)).await;

    env.corp
        .set(|behavior| (behavior.subject, behavior.is_synthetic) = ("tk-0123456789abcdef", true));
    let corp = browser.get(&env, &TestEnv::authorize(&client, &[])).await.location();
    let refused = redirect_url(&browser.get(&env, &TestEnv::provider_callback(&corp)).await);
    assert_eq!(param(&refused, "error").as_deref(), Some("access_denied"));
}
