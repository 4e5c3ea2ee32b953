//! Tests for consent, the redirect to the providers, and the callback.

use vmcp_auth_store::{ClientId, Consent, Digest, Limits, ProviderName};
use vmcp_upstream::{AuthorizationResponseError, EndpointError, EndpointKind, ProviderError};

use crate::IssuerUrl;
use crate::testing::{APP, Browser, Came, ISSUER, LOOPBACK, World, form_request, param};

fn answered(came: &Came) -> url::Url {
    url::Url::parse(&came.location()).unwrap()
}

#[tokio::test]
async fn a_login_goes_through_both_providers_in_order_and_ends_with_a_code() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    assert!(corp.starts_with("https://corp.example/"), "{corp}");
    let git = browser.get(&world, &World::at_provider(&corp)).await.location();
    assert!(git.starts_with("https://git.example/"), "{git}");
    let done = answered(&browser.get(&world, &World::at_provider(&git)).await);
    assert!(done.as_str().starts_with(APP));
    assert_eq!(param(&done, "state").as_deref(), Some("client-state"));
    assert_eq!(param(&done, "iss").as_deref(), Some(ISSUER));
    assert!(param(&done, "code").unwrap().starts_with("vac_"));
}

/// The cookie of a login belongs to the origin of the authorization endpoint; providers may have a callback at another
/// origin.
#[tokio::test]
async fn a_callback_at_another_origin_leads_to_the_browsers_cookie() {
    let mut settings = crate::testing::settings();
    settings.authorization_base = Some(IssuerUrl::parse("https://login.example/auth").unwrap());
    let world = World::with(settings, Limits::default());
    let client = world.client().await;
    let mut browser = Browser::default();
    let authorize = format!("/auth{}", World::authorize(&client, &[]));
    let mut at = world.consent(&mut browser, &authorize).await;
    for _ in ["corp", "git"] {
        // Browsers send no cookie to that origin.
        let forwarded = world.get(&World::at_provider(&at)).await.location();
        let back = forwarded.strip_prefix("https://login.example").unwrap();
        assert!(back.starts_with("/auth/oauth/return/oauth/callback?code="), "{back}");
        at = browser.get(&world, back).await.location();
    }
    assert!(at.starts_with(APP) && at.contains("code="), "{at}");
    // A callback in another browser ends the login.
    let mut other = Browser::default();
    let corp = world.consent(&mut other, &authorize).await;
    let forwarded = world.get(&World::at_provider(&corp)).await.location();
    let back = forwarded.strip_prefix("https://login.example").unwrap();
    assert_eq!(world.get(back).await.status, 403);
}

#[tokio::test]
async fn nothing_goes_to_a_provider_before_the_person_agreed() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let page = browser.get(&world, &World::authorize(&client, &[])).await;
    assert_eq!(page.status, 200);
    let denied = browser.send(&world, World::decision(&page.text, "deny")).await;
    let to = denied.told();
    assert_eq!(param(&to, "error").as_deref(), Some("access_denied"));
    assert_eq!(param(&to, "iss").as_deref(), Some(ISSUER));
    // The login is over: submitting the same page again has no effect.
    let again = browser.send(&world, World::decision(&page.text, "allow")).await;
    assert_eq!(again.status, 400);
    assert_eq!(world.store.counts().await.unwrap().logins, 0);
}

#[tokio::test]
async fn a_form_counts_once_in_its_own_browser_with_its_own_token() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let page = browser.get(&world, &World::authorize(&client, &[])).await;
    let other_page = Browser::default().get(&world, &World::authorize(&client, &[])).await;
    let allow = || World::decision(&page.text, "allow");

    // Another browser, without a cookie or with its own.
    assert_eq!(world.send(allow()).await.status, 403);
    let mut other = Browser::default();
    other.get(&world, &World::authorize(&client, &[])).await;
    assert_eq!(other.send(&world, allow()).await.status, 403);

    // The token of another form.
    let own = String::from_utf8(body(allow()).await).unwrap();
    let foreign =
        String::from_utf8(body(World::decision(&other_page.text, "allow")).await).unwrap();
    let csrf =
        |text: &str| text.split("csrf=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let mixed = own.replace(&csrf(&own), &csrf(&foreign));
    for text in [mixed.as_str(), &own.replace(&csrf(&own), ""), &format!("{own}&decision=deny")] {
        let mut request = form_request("/oauth/consent", &[]);
        *request.body_mut() = text.to_owned().into();
        let came = browser.send(&world, request).await;
        assert!(came.status == 403 || came.status == 400, "{text}: {}", came.status);
    }

    // A cross-site request, by the browser's headers.
    let mut request = allow();
    request.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
    assert_eq!(browser.send(&world, request).await.status, 403);

    // Rejected attempts do not use up the login; the valid form does.
    assert_eq!(browser.send(&world, allow()).await.status, 200);
    assert_eq!(browser.send(&world, allow()).await.status, 400);
    // A `GET` of the form's address shows an error page.
    let again = browser.get(&world, "/oauth/consent").await;
    assert!(again.text.contains("This login is over"), "{again:?}");
}

async fn body(request: http::Request<axum::body::Body>) -> Vec<u8> {
    axum::body::to_bytes(request.into_body(), 1 << 16).await.unwrap().to_vec()
}

#[tokio::test]
async fn what_was_agreed_to_is_not_asked_again_for_the_same_client_place_and_scopes() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let some = World::authorize(&client, &[("scope", "openid profile")]);
    world.log_in_at(&mut browser, &some).await;
    let asked = async |address: String, browser: &mut Browser| {
        browser.get(&world, &address).await.status == 200
    };
    assert!(!asked(some.clone(), &mut browser).await);
    assert!(!asked(World::authorize(&client, &[("scope", "openid")]), &mut browser).await);
    // More scopes, another redirect URI, another client, another browser, or `prompt=consent`.
    assert!(asked(World::authorize(&client, &[("scope", "openid email")]), &mut browser).await);
    let loopback = World::authorize(&client, &[("scope", "openid"), ("redirect_uri", LOOPBACK)]);
    assert!(asked(loopback, &mut browser).await);
    let other = world.client().await;
    assert!(asked(World::authorize(&other, &[("scope", "openid")]), &mut browser).await);
    assert!(asked(some.clone(), &mut Browser::default()).await);
    let on_request = World::authorize(&client, &[("scope", "openid"), ("prompt", "consent")]);
    assert!(asked(on_request, &mut browser).await);
    // A consent expires.
    world.clock.advance(std::time::Duration::from_secs(31 * 24 * 3600));
    assert!(asked(World::authorize(&world.client().await, &[]), &mut browser).await);
}

#[tokio::test]
async fn of_two_that_bring_the_same_state_one_goes_on() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    let back = World::at_provider(&corp);
    let mut twin = browser.clone();
    let (one, two) = tokio::join!(browser.get(&world, &back), twin.get(&world, &back));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 400]);
}

#[tokio::test]
async fn a_login_that_somebody_else_began_does_not_end_here() {
    let world = World::new();
    let client = world.client().await;
    let mut attacker = Browser::default();
    let corp = world.consent(&mut attacker, &World::authorize(&client, &[])).await;
    // The victim follows the attacker's redirect to the provider and returns.
    let mut victim = Browser::default();
    assert_eq!(victim.get(&world, &World::at_provider(&corp)).await.status, 403);
    victim.get(&world, &World::authorize(&client, &[])).await;
    let mut attacker = Browser::default();
    let corp = world.consent(&mut attacker, &World::authorize(&client, &[])).await;
    let came = victim.get(&world, &World::at_provider(&corp)).await;
    assert_eq!(came.status, 403);
    assert!(came.text.contains("another browser"));
    // The login has ended for the attacker too.
    assert_eq!(attacker.get(&world, &World::at_provider(&corp)).await.status, 400);
}

#[tokio::test]
async fn two_cookies_of_the_same_name_are_none() {
    let world = World::new();
    let client = world.client().await;
    let planted = format!("__Host-vmcp-browser={}", "A".repeat(43));
    for is_first in [true, false] {
        let mut browser = Browser::default();
        let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
        let own = browser.cookie.take().unwrap();
        let both = if is_first { [&*planted, &*own] } else { [&*own, &*planted] };
        browser.cookie = Some(both.join("; "));
        assert_eq!(browser.get(&world, &World::at_provider(&corp)).await.status, 403, "{is_first}");
    }
}

#[tokio::test]
async fn a_login_ends_after_ten_minutes() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    world.clock.advance(std::time::Duration::from_secs(601));
    let came = browser.get(&world, &World::at_provider(&corp)).await;
    assert_eq!(came.status, 400);
    assert!(came.text.contains("This login is over"));
}

#[tokio::test]
async fn what_a_provider_says_of_an_error_is_shown_to_nobody() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    let back = World::at_provider(&corp)
        .replace("code=", "error=%3Cscript%3Ecanary&error_description=canary&x=");
    let came = browser.get(&world, &back).await;
    assert!(!came.location().contains("canary"));
    assert_eq!(came.error(), "access_denied");
    // Without a matching login, the browser is not redirected.
    let came = browser.get(&world, "/oauth/callback?error=canary&state=unknown").await;
    assert_eq!(came.status, 400);
    assert!(!came.text.contains("canary"));
    for query in ["", "?code=1", "?state=", "?state=a&state=b"] {
        assert_eq!(
            browser.get(&world, &format!("/oauth/callback{query}")).await.status,
            400,
            "{query}"
        );
    }
}

#[tokio::test]
async fn who_cancels_at_a_provider_comes_back_to_the_client_with_what_it_can_act_on() {
    let world = World::new();
    let client = world.client().await;
    for (error, code) in [
        ("access_denied", "access_denied"),
        ("user_cancelled_login", "access_denied"),
        ("temporarily_unavailable", "temporarily_unavailable"),
        ("server_error", "temporarily_unavailable"),
        ("unauthorized_client", "server_error"),
    ] {
        for legs in [1, 2] {
            let mut browser = Browser::default();
            let mut at = world.consent(&mut browser, &World::authorize(&client, &[])).await;
            if legs == 2 {
                at = browser.get(&world, &World::at_provider(&at)).await.location();
            }
            let back = World::not_at_provider(&at, error);
            let came = browser.get(&world, &back).await;
            let to = answered(&came);
            assert!(to.as_str().starts_with(APP) && !to.as_str().contains("canary"), "{to}");
            assert_eq!(param(&to, "error").as_deref(), Some(code), "{error}");
            assert!(param(&to, "error_description").unwrap().contains("identity provider"));
            assert_eq!(param(&to, "state").as_deref(), Some("client-state"));
            assert_eq!(param(&to, "iss").as_deref(), Some(ISSUER));
            assert!(param(&to, "code").is_none());
            // The login has ended, and the tokens of its first provider are deleted.
            let counts = world.store.counts().await.unwrap();
            assert_eq!((counts.logins, counts.sessions, counts.codes), (0, 0, 0));
            assert_eq!(browser.get(&world, &back).await.status, 400);
            let after = World::at_provider(&at);
            assert_eq!(browser.get(&world, &after).await.status, 400);
        }
    }
}

#[tokio::test]
async fn a_failed_leg_tells_the_client_and_leaves_nothing() {
    let world = World::new();
    let client = world.client().await;
    let away =
        ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Timeout };
    for (fault, error) in [
        (ProviderError::Response(AuthorizationResponseError::WrongIssuer), "access_denied"),
        (away.clone(), "temporarily_unavailable"),
        (ProviderError::ConfigMismatch("x"), "server_error"),
    ] {
        let mut browser = Browser::default();
        let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
        let git = browser.get(&world, &World::at_provider(&corp)).await.location();
        world.git.set(|script| script.finish = Some(fault));
        let came = browser.get(&world, &World::at_provider(&git)).await;
        assert_eq!(came.error(), error);
        assert_eq!(param(&answered(&came), "iss").as_deref(), Some(ISSUER));
        world.git.set(|script| script.finish = None);
        assert_eq!(world.store.counts().await.unwrap().sessions, 0, "{error}");
    }
    world.git.set(|script| script.begin = Some(away));
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    let came = browser.get(&world, &World::at_provider(&corp)).await;
    assert_eq!(came.error(), "temporarily_unavailable");
    world.corp.set(|script| script.begin = Some(ProviderError::ConfigMismatch("x")));
    let page = Browser::default().get(&world, &World::authorize(&client, &[])).await;
    let cookie = page.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let left = Browser { cookie: Some(cookie), address: None }
        .send(&world, World::decision(&page.text, "allow"))
        .await;
    assert!(left.refresh_target().contains("error=server_error"));
}

#[tokio::test]
async fn an_answer_that_says_something_twice_is_none() {
    let world = World::new();
    let client = world.client().await;
    for more in ["code=another", "error=access_denied&error=x", "iss=a&iss=b", "x=1&x=1"] {
        let mut browser = Browser::default();
        let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
        let back = format!("{}&{more}", World::at_provider(&corp));
        let answer = answered(&browser.get(&world, &back).await);
        let words = param(&answer, "error_description").unwrap();
        assert!(words.contains("malformed"), "{more}: {words}");
    }
    assert_eq!(world.store.counts().await.unwrap().users, 0);
}

#[tokio::test]
async fn a_code_of_one_leg_is_no_good_at_another() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    let git = browser.get(&world, &World::at_provider(&corp)).await.location();
    let code = World::at_provider(&corp).split('&').next().unwrap().to_owned();
    let state = World::at_provider(&git).split_once('&').unwrap().1.to_owned();
    let came = browser.get(&world, &format!("{code}&{state}")).await;
    assert_eq!(came.error(), "access_denied");
}

#[tokio::test]
async fn the_first_provider_says_who_it_is_and_the_second_does_not_change_it() {
    let world = World::new();
    let client = world.client().await;
    let subject = |access: &str| {
        let token =
            world.server.verifier(crate::testing::RESOURCE).unwrap().verify(access).unwrap();
        token.subject
    };
    let alice = subject(&world.tokens(&client).await.access);
    world.git.set(|script| script.subject = "somebody-else");
    assert_eq!(subject(&world.tokens(&client).await.access), alice);
    world.corp.set(|script| script.subject = "bob");
    assert_ne!(subject(&world.tokens(&client).await.access), alice);
}

#[tokio::test]
async fn a_made_up_subject_is_the_token_s_own() {
    let world = World::new();
    let client = world.client().await;
    world.corp.set(|script| {
        script.subject = "tk-0123456789abcdef0123456789abcdef";
        script.is_synthetic = true;
    });
    let access = world.tokens(&client).await.access;
    let token = world.server.verifier(crate::testing::RESOURCE).unwrap().verify(&access).unwrap();
    assert_eq!(token.subject, "tk-0123456789abcdef0123456789abcdef");
    assert_eq!(world.store.counts().await.unwrap().users, 0);
}

#[tokio::test]
async fn asks_next_person_of_shared_browser_if_subjects_are_made_up() {
    let world = World::new();
    let client = world.client().await;
    world.corp.set(|script| (script.subject, script.is_synthetic) = ("tk-0123", true));
    let mut browser = Browser::default();
    let address = World::authorize(&client, &[]);
    world.log_in_at(&mut browser, &address).await;
    world.corp.set(|script| script.subject = "tk-4567");
    assert_eq!(browser.get(&world, &address).await.status, 200, "another person may use it now");
    let answer = world.log_in_at(&mut browser, &address).await;
    assert!(param(&answer, "code").is_some(), "{answer}");
    // A consent that an earlier version stored does not count either.
    let cookie = browser.cookie.as_deref().unwrap().split_once('=').unwrap().1;
    let cookie = Digest::of(["browser\0", cookie].concat());
    let user = world.store.browser(&cookie).await.unwrap().unwrap().user;
    let now = world.clock.now().into();
    let day = std::time::Duration::from_secs(24 * 3600);
    let consent = Consent {
        client: ClientId::new(&*client).unwrap(),
        redirect_uri: APP.into(),
        scopes: ["openid", "profile", "email", "offline_access"].map(str::to_owned).into(),
        given: now,
        expires: now + day,
    };
    world.store.put_browser(&cookie, &user, Some(&consent), day).await.unwrap();
    assert_eq!(browser.get(&world, &address).await.status, 200);
}

#[tokio::test]
async fn a_refresh_token_is_carried_forward_for_the_same_subject_alone() {
    let world = World::new();
    let client = world.client().await;
    let row = async |access: &str| {
        let token =
            world.server.verifier(crate::testing::RESOURCE).unwrap().verify(access).unwrap();
        let session = world.store.session(&token.session).await.unwrap().unwrap();
        let leg =
            world.server.legs().iter().find(|leg| leg.name.as_str() == "git").unwrap().clone();
        let row = session.rows[&ProviderName::new("git").unwrap()].clone();
        world.server.inner().open_row(token.session, &leg, &row).unwrap().refresh.is_some()
    };
    assert!(row(&world.tokens(&client).await.access).await);
    world.git.set(|script| script.refresh_token = None);
    assert!(row(&world.tokens(&client).await.access).await);
    // A refresh token is bound to the client that the provider issued it to.
    world.git.set(|script| script.client_id = "us-again");
    assert!(!row(&world.tokens(&client).await.access).await);
    world.git.set(|script| {
        (script.client_id, script.subject) = ("us", "somebody-else");
    });
    assert!(!row(&world.tokens(&client).await.access).await);
}

#[tokio::test]
async fn a_consent_is_remembered_for_whoever_gave_it_alone() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let through = async |browser: &mut Browser, corp: String| {
        let came = browser.get(&world, &World::at_provider(&corp)).await.location();
        if came.starts_with("https://git.example/") {
            return answered(&browser.get(&world, &World::at_provider(&came)).await);
        }
        url::Url::parse(&came).unwrap()
    };
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    assert!(param(&through(&mut browser, corp).await, "code").is_some());

    // The same user sees no consent page.
    let corp = browser.get(&world, &World::authorize(&client, &[])).await.location();
    assert!(param(&through(&mut browser, corp).await, "code").is_some());

    // Another user of the same browser gets no code without a consent page.
    world.corp.set(|script| script.subject = "bob");
    let corp = browser.get(&world, &World::authorize(&client, &[])).await.location();
    let refused = through(&mut browser, corp).await;
    assert_eq!(param(&refused, "error").as_deref(), Some("access_denied"));
    let page = browser.get(&world, &World::authorize(&client, &[])).await;
    assert_eq!(page.status, 200);
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    assert!(param(&through(&mut browser, corp).await, "code").is_some());
}

#[tokio::test]
async fn a_provider_that_says_no_names_lets_nobody_in_as_who_was_there_before() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    let git = browser.get(&world, &World::at_provider(&corp)).await.location();
    browser.get(&world, &World::at_provider(&git)).await;

    world.corp.set(|script| (script.subject, script.is_synthetic) = ("tk-0123456789abcdef", true));
    let corp = browser.get(&world, &World::authorize(&client, &[])).await.location();
    let refused = answered(&browser.get(&world, &World::at_provider(&corp)).await);
    assert_eq!(param(&refused, "error").as_deref(), Some("access_denied"));
}
