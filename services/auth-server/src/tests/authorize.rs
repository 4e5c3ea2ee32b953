//! Tests for the validation of authorization requests and for the receiver of errors.

use http::Request;
use vmcp_auth_store::Limits;

use crate::testing::{APP, ISSUER, LOOPBACK, TestEnv, UserAgent, form_request, param, settings};
use crate::{Rate, RateLimits};

async fn page(env: &TestEnv, address: &str) -> (u16, String) {
    let response = UserAgent::default().get(env, address).await;
    assert!(
        !response.headers.contains_key("location"),
        "{address} leads to {:?}",
        response.headers
    );
    (response.status.as_u16(), response.text)
}

#[tokio::test]
async fn shows_page_for_unknown_client() {
    let env = TestEnv::new();
    for client in ["", "nobody", "https://app.example/", "https://app.example/client.json"] {
        let (status, text) = page(&env, &TestEnv::authorize(client, &[])).await;
        assert_eq!(status, 400, "{client}");
        assert!(text.contains("Unknown application"), "{client}: {text}");
    }
}

#[tokio::test]
async fn shows_page_for_unregistered_redirect_uri() {
    let env = TestEnv::new();
    let client = env.client().await;
    for uri in [
        "https://evil.example/cb",
        "https://app.example/cb/",
        "https://app.example/cb?x=1",
        "https://app.example/cb/../cb",
        "https://APP.example/cb",
        "https://app.example@evil.example/cb",
        "https://app.example/cb#x",
        "http://127.0.0.1@evil.example/cb",
        "http://localhost/cb",
        "http://localhost.evil.example/cb",
        "http://[::1]/cb",
        "http://127.1/cb",
        "http://127.0.0.1:0/cb",
        "http://127.0.0.1:51234/other",
        "http://127.0.0.1:51234/cb?x",
        "javascript:alert(1)",
    ] {
        let (status, text) =
            page(&env, &TestEnv::authorize(&client, &[("redirect_uri", uri)])).await;
        assert_eq!(status, 400, "{uri}");
        assert!(text.contains("Unregistered redirect address"), "{uri}: {text}");
    }
    // With two registered redirect URIs, the parameter is required.
    let (status, _) = page(&env, &TestEnv::authorize(&client, &[("redirect_uri", "")])).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn shows_page_for_repeated_client_or_redirect_uri() {
    let env = TestEnv::new();
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[]);
    for more in ["client_id=other", "redirect_uri=https%3A%2F%2Fevil.example%2Fcb"] {
        let (status, _) = page(&env, &format!("{address}&{more}")).await;
        assert_eq!(status, 400, "{more}");
    }
}

#[tokio::test]
async fn redirects_other_errors_to_client_with_iss() {
    let env = TestEnv::new();
    let client = env.client().await;
    let long = "x".repeat(2049);
    for (changed, error) in [
        (&[("response_type", "")][..], "invalid_request"),
        (&[("response_type", "token")], "unsupported_response_type"),
        (&[("response_type", "code id_token")], "unsupported_response_type"),
        (&[("response_mode", "form_post")], "invalid_request"),
        (&[("code_challenge", "")], "invalid_request"),
        (&[("code_challenge", "short")], "invalid_request"),
        (&[("code_challenge", &"A".repeat(44))], "invalid_request"),
        (&[("code_challenge", &"!".repeat(43))], "invalid_request"),
        (&[("code_challenge_method", "")], "invalid_request"),
        (&[("code_challenge_method", "plain")], "invalid_request"),
        (&[("scope", "admin")], "invalid_scope"),
        (&[("scope", "openid \"")], "invalid_scope"),
        (&[("resource", "https://other.example/mcp")], "invalid_target"),
        (&[("resource", "https://mcp.example/mcp#x")], "invalid_target"),
        (&[("resource", "mcp")], "invalid_target"),
        (&[("request", "eyJ")], "request_not_supported"),
        (&[("request_uri", "https://x.example")], "request_uri_not_supported"),
        (&[("prompt", "none")], "login_required"),
        (&[("nonce", &long)], "invalid_request"),
    ] {
        let response = UserAgent::default().get(&env, &TestEnv::authorize(&client, changed)).await;
        let to = response.client_redirect();
        assert_eq!(param(&to, "error").as_deref(), Some(error), "{changed:?}");
        assert_eq!(param(&to, "state").as_deref(), Some("client-state"), "{changed:?}");
        assert_eq!(param(&to, "iss").as_deref(), Some(ISSUER), "{changed:?}");
        assert!(to.as_str().starts_with(APP), "{to}");
    }
}

/// Anyone can register a client and send users a link that begins with this server's address (RFC 9700 section 4.11.2).
#[tokio::test]
async fn never_redirects_to_clients_without_consent() {
    let env = TestEnv::new();
    let deep_link = "com.example.editor://authorized/cb";
    let document = serde_json::json!({ "redirect_uris": [APP, LOOPBACK, deep_link] });
    let client = env.register(document).await.json()["client_id"].as_str().unwrap().to_owned();
    let wrong = [("scope", "admin"), ("prompt", "none"), ("response_type", "token")];
    let mut browser = UserAgent::default();
    let kinds = [(APP, "app.example"), (LOOPBACK, "127.0.0.1"), (deep_link, "com.example.editor")];
    for changed in wrong {
        for (uri, place) in kinds {
            let asked = TestEnv::authorize(&client, &[changed, ("redirect_uri", uri)]);
            let response = browser.get(&env, &asked).await;
            assert_eq!(response.status, 400, "{changed:?} {uri}");
            assert!(
                response.text.contains(&format!("Go back to <bdi>{place}</bdi>")),
                "{}",
                response.text
            );
            assert!(!response.text.contains("http-equiv"), "{}", response.text);
        }
    }
    for (uri, _) in kinds {
        let page = browser.get(&env, &TestEnv::authorize(&client, &[("redirect_uri", uri)])).await;
        let denied = browser.send(&env, TestEnv::decision(&page.text, "deny")).await;
        assert!(denied.text.contains("You denied access"), "{}", denied.text);
        assert_eq!(denied.error(), "access_denied");
    }

    env.log_in_at(&mut browser, &TestEnv::authorize(&client, &[])).await;
    for changed in wrong {
        let response = browser.get(&env, &TestEnv::authorize(&client, &[changed])).await;
        assert_eq!(response.status, 303, "{changed:?}");
        let other = UserAgent::default().get(&env, &TestEnv::authorize(&client, &[changed])).await;
        assert_eq!(other.status, 400, "{changed:?}");
    }
    // The consent covers one client only.
    let other = TestEnv::authorize(&env.client().await, &[("scope", "admin")]);
    assert_eq!(browser.get(&env, &other).await.status, 400);
}

#[tokio::test]
async fn rejects_repeated_parameters() {
    let env = TestEnv::new();
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[]);
    for (more, error) in [
        ("scope=openid&scope=email", "invalid_request"),
        ("nonce=1&nonce=1", "invalid_request"),
        ("code_challenge_method=plain", "invalid_request"),
        ("resource=https%3A%2F%2Fother.example", "invalid_target"),
    ] {
        let response = UserAgent::default().get(&env, &format!("{address}&{more}")).await;
        assert_eq!(response.error(), error, "{more}");
    }
}

#[tokio::test]
async fn rejects_invalid_state_without_echo() {
    let env = TestEnv::new();
    let client = env.client().await;
    for state in ["x".repeat(2049), "a\r\nSet-Cookie: b=c".into(), "ü".into(), "\0".into()] {
        let response = UserAgent::default()
            .get(&env, &TestEnv::authorize(&client, &[("state", &state)]))
            .await;
        let to = response.client_redirect();
        assert_eq!(param(&to, "error").as_deref(), Some("invalid_request"));
        assert_eq!(param(&to, "state"), None);
        assert!(!response.headers.contains_key("set-cookie"));
    }
}

#[tokio::test]
async fn resource_scope_and_state_are_optional() {
    let env = TestEnv::new();
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[("resource", ""), ("scope", ""), ("state", "")]);
    let answer = env.log_in_at(&mut UserAgent::default(), &address).await;
    assert_eq!(param(&answer, "state"), None);
    let code = param(&answer, "code").unwrap();
    let issued = env.redeem(&client, &code, &[]).await.json();
    assert_eq!(issued["scope"], "openid profile email offline_access");
}

#[tokio::test]
async fn only_public_clients_may_vary_loopback_port() {
    let env = TestEnv::new();
    let client = env.client().await;
    let asked = "http://127.0.0.1:51234/cb";
    let address = TestEnv::authorize(&client, &[("redirect_uri", asked)]);
    let answer = env.log_in_at(&mut UserAgent::default(), &address).await;
    assert_eq!(answer.port(), Some(51234));
    let code = param(&answer, "code").unwrap();
    let other = [("redirect_uri", "http://127.0.0.1:51235/cb")];
    assert_eq!(env.redeem(&client, &code, &other).await.error(), "invalid_grant");
    let document = serde_json::json!({
        "redirect_uris": [LOOPBACK], "token_endpoint_auth_method": "client_secret_basic",
    });
    let client = env.register(document).await.json()["client_id"].as_str().unwrap().to_owned();
    let (status, _) = page(&env, &TestEnv::authorize(&client, &[("redirect_uri", asked)])).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn accepts_authorization_request_as_form() {
    let env = TestEnv::new();
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[]);
    let (path, query) = address.split_once('?').unwrap();
    let form: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let form: Vec<_> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
    // A cross-site form arrives without the browser's cookie, which must be neither missed nor replaced.
    let mut browser = UserAgent::default();
    let again = browser.send(&env, form_request(path, &form)).await;
    assert!(!again.headers.contains_key("set-cookie"));
    let response = browser.get(&env, &again.location()).await;
    assert!(response.text.contains("Allow <bdi>Editor</bdi>"), "{}", response.text);
    let cookie = browser.cookie.clone();
    let response = browser.send(&env, form_request(path, &form)).await;
    assert!(response.text.contains("Allow <bdi>Editor</bdi>"), "{}", response.text);
    assert_eq!(browser.cookie, cookie);
    for (media, text) in [
        ("application/json", "{}"),
        ("application/x-www-form-urlencoded", "client_id=ä"),
        ("application/x-www-form-urlencoded", "client_id=a\r\nx: y"),
    ] {
        let request = Request::post(path).header("content-type", media);
        let response = env.send(request.body(text.into()).unwrap()).await;
        assert_eq!(response.status, 400, "{text}");
        assert!(response.text.contains("This request is malformed"), "{text}");
    }
}

#[tokio::test]
async fn browser_cookie_is_host_only_and_http_only() {
    let env = TestEnv::new();
    let client = env.client().await;
    let response = UserAgent::default().get(&env, &TestEnv::authorize(&client, &[])).await;
    let set = response.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("__Host-vmcp-browser="), "{set}");
    for part in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Secure"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Domain"));
}

#[tokio::test]
async fn limits_requests_per_address() {
    let mut settings = settings();
    settings.rate_limits =
        RateLimits { pages: Rate { burst: 2, per_second: 1 }, ..settings.rate_limits };
    let env = TestEnv::with(settings, Limits::default());
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[]);
    for status in [200, 200, 429] {
        assert_eq!(page(&env, &address).await.0, status);
    }
    env.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(page(&env, &address).await.0, 200);
}

#[tokio::test]
async fn flooded_logins_evict_only_same_address() {
    let env = TestEnv::with(settings(), Limits { logins_per_origin: 2, ..Limits::default() });
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[]);
    let (mut own, mut other) = (UserAgent::at("192.0.2.1"), UserAgent::at("192.0.2.2"));
    let page = own.get(&env, &address).await;
    let mut first = other.clone();
    let flooded = first.get(&env, &address).await;
    for _ in 0..50 {
        assert_eq!(other.get(&env, &address).await.status, 200);
    }
    // Logins of other addresses remain, even of the same client: the oldest login of the same address was evicted.
    let response = own.send(&env, TestEnv::decision(&page.text, "allow")).await;
    assert!(response.refresh_target().starts_with("https://corp.example/"), "{}", response.text);
    let response = first.send(&env, TestEnv::decision(&flooded.text, "allow")).await;
    assert!(response.text.contains("This login has expired"), "{}", response.text);
    assert_eq!(env.store.counts().await.unwrap().logins, 3);
}
