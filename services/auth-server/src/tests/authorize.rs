//! Tests for the validation of authorization requests and for the receiver of errors.

use http::Request;
use vmcp_auth_store::Limits;

use crate::testing::{APP, Browser, ISSUER, LOOPBACK, World, form_request, param, settings};
use crate::{Rate, Rates};

async fn page(world: &World, address: &str) -> (u16, String) {
    let came = Browser::default().get(world, address).await;
    assert!(!came.headers.contains_key("location"), "{address} leads to {:?}", came.headers);
    (came.status.as_u16(), came.text)
}

#[tokio::test]
async fn nobody_is_redirected_for_a_client_that_is_not_known() {
    let world = World::new();
    for client in ["", "nobody", "https://app.example/", "https://app.example/client.json"] {
        let (status, text) = page(&world, &World::authorize(client, &[])).await;
        assert_eq!(status, 400, "{client}");
        assert!(text.contains("This application is not known here"), "{client}: {text}");
    }
}

#[tokio::test]
async fn nobody_is_redirected_to_an_address_that_is_not_registered() {
    let world = World::new();
    let client = world.client().await;
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
            page(&world, &World::authorize(&client, &[("redirect_uri", uri)])).await;
        assert_eq!(status, 400, "{uri}");
        assert!(text.contains("unknown place"), "{uri}: {text}");
    }
    // With two registered redirect URIs, the parameter is required.
    let (status, _) = page(&world, &World::authorize(&client, &[("redirect_uri", "")])).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_parameter_that_decides_who_is_told_must_not_come_twice() {
    let world = World::new();
    let client = world.client().await;
    let address = World::authorize(&client, &[]);
    for more in ["client_id=other", "redirect_uri=https%3A%2F%2Fevil.example%2Fcb"] {
        let (status, _) = page(&world, &format!("{address}&{more}")).await;
        assert_eq!(status, 400, "{more}");
    }
}

#[tokio::test]
async fn the_client_is_told_what_else_is_wrong_and_by_whom() {
    let world = World::new();
    let client = world.client().await;
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
        let came = Browser::default().get(&world, &World::authorize(&client, changed)).await;
        let to = came.told();
        assert_eq!(param(&to, "error").as_deref(), Some(error), "{changed:?}");
        assert_eq!(param(&to, "state").as_deref(), Some("client-state"), "{changed:?}");
        assert_eq!(param(&to, "iss").as_deref(), Some(ISSUER), "{changed:?}");
        assert!(to.as_str().starts_with(APP), "{to}");
    }
}

/// Anyone can register a client and send users a link that begins with this server's address (RFC 9700 section 4.11.2).
#[tokio::test]
async fn never_redirects_to_clients_without_consent() {
    let world = World::new();
    let deep_link = "com.example.editor://authorized/cb";
    let document = serde_json::json!({ "redirect_uris": [APP, LOOPBACK, deep_link] });
    let client = world.register(document).await.json()["client_id"].as_str().unwrap().to_owned();
    let wrong = [("scope", "admin"), ("prompt", "none"), ("response_type", "token")];
    let mut browser = Browser::default();
    let kinds = [(APP, "app.example"), (LOOPBACK, "127.0.0.1"), (deep_link, "com.example.editor")];
    for changed in wrong {
        for (uri, place) in kinds {
            let asked = World::authorize(&client, &[changed, ("redirect_uri", uri)]);
            let came = browser.get(&world, &asked).await;
            assert_eq!(came.status, 400, "{changed:?} {uri}");
            assert!(came.text.contains(&format!("Go back to <bdi>{place}</bdi>")), "{}", came.text);
            assert!(!came.text.contains("http-equiv"), "{}", came.text);
        }
    }
    for (uri, _) in kinds {
        let page = browser.get(&world, &World::authorize(&client, &[("redirect_uri", uri)])).await;
        let denied = browser.send(&world, World::decision(&page.text, "deny")).await;
        assert!(denied.text.contains("You did not allow it"), "{}", denied.text);
        assert_eq!(denied.error(), "access_denied");
    }

    world.log_in_at(&mut browser, &World::authorize(&client, &[])).await;
    for changed in wrong {
        let came = browser.get(&world, &World::authorize(&client, &[changed])).await;
        assert_eq!(came.status, 303, "{changed:?}");
        let other = Browser::default().get(&world, &World::authorize(&client, &[changed])).await;
        assert_eq!(other.status, 400, "{changed:?}");
    }
    // The consent covers one client only.
    let other = World::authorize(&world.client().await, &[("scope", "admin")]);
    assert_eq!(browser.get(&world, &other).await.status, 400);
}

#[tokio::test]
async fn a_parameter_that_comes_twice_is_refused_and_two_resources_by_their_own_name() {
    let world = World::new();
    let client = world.client().await;
    let address = World::authorize(&client, &[]);
    for (more, error) in [
        ("scope=openid&scope=email", "invalid_request"),
        ("nonce=1&nonce=1", "invalid_request"),
        ("code_challenge_method=plain", "invalid_request"),
        ("resource=https%3A%2F%2Fother.example", "invalid_target"),
    ] {
        let came = Browser::default().get(&world, &format!("{address}&{more}")).await;
        assert_eq!(came.error(), error, "{more}");
    }
}

#[tokio::test]
async fn a_state_that_is_huge_or_not_printable_is_refused_and_not_repeated() {
    let world = World::new();
    let client = world.client().await;
    for state in ["x".repeat(2049), "a\r\nSet-Cookie: b=c".into(), "ü".into(), "\0".into()] {
        let came =
            Browser::default().get(&world, &World::authorize(&client, &[("state", &state)])).await;
        let to = came.told();
        assert_eq!(param(&to, "error").as_deref(), Some("invalid_request"));
        assert_eq!(param(&to, "state"), None);
        assert!(!came.headers.contains_key("set-cookie"));
    }
}

#[tokio::test]
async fn resource_scope_and_state_may_be_left_out() {
    let world = World::new();
    let client = world.client().await;
    let address = World::authorize(&client, &[("resource", ""), ("scope", ""), ("state", "")]);
    let answer = world.log_in_at(&mut Browser::default(), &address).await;
    assert_eq!(param(&answer, "state"), None);
    let code = param(&answer, "code").unwrap();
    let got = world.redeem(&client, &code, &[]).await.json();
    assert_eq!(got["scope"], "openid profile email offline_access");
}

#[tokio::test]
async fn the_port_of_a_loopback_address_is_free_for_public_clients_only() {
    let world = World::new();
    let client = world.client().await;
    let asked = "http://127.0.0.1:51234/cb";
    let address = World::authorize(&client, &[("redirect_uri", asked)]);
    let answer = world.log_in_at(&mut Browser::default(), &address).await;
    assert_eq!(answer.port(), Some(51234));
    let code = param(&answer, "code").unwrap();
    let other = [("redirect_uri", "http://127.0.0.1:51235/cb")];
    assert_eq!(world.redeem(&client, &code, &other).await.error(), "invalid_grant");
    let document = serde_json::json!({
        "redirect_uris": [LOOPBACK], "token_endpoint_auth_method": "client_secret_basic",
    });
    let client = world.register(document).await.json()["client_id"].as_str().unwrap().to_owned();
    let (status, _) = page(&world, &World::authorize(&client, &[("redirect_uri", asked)])).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_request_may_come_as_a_form() {
    let world = World::new();
    let client = world.client().await;
    let address = World::authorize(&client, &[]);
    let (path, query) = address.split_once('?').unwrap();
    let form: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let form: Vec<_> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
    // A cross-site form arrives without the browser's cookie, which must be neither missed nor replaced.
    let mut browser = Browser::default();
    let again = browser.send(&world, form_request(path, &form)).await;
    assert!(!again.headers.contains_key("set-cookie"));
    let came = browser.get(&world, &again.location()).await;
    assert!(came.text.contains("Allow <bdi>Editor</bdi>"), "{}", came.text);
    let cookie = browser.cookie.clone();
    let came = browser.send(&world, form_request(path, &form)).await;
    assert!(came.text.contains("Allow <bdi>Editor</bdi>"), "{}", came.text);
    assert_eq!(browser.cookie, cookie);
    for (media, text) in [
        ("application/json", "{}"),
        ("application/x-www-form-urlencoded", "client_id=ä"),
        ("application/x-www-form-urlencoded", "client_id=a\r\nx: y"),
    ] {
        let request = Request::post(path).header("content-type", media);
        let came = world.send(request.body(text.into()).unwrap()).await;
        assert_eq!(came.status, 400, "{text}");
        assert!(came.text.contains("This request is malformed"), "{text}");
    }
}

#[tokio::test]
async fn the_cookie_is_the_hosts_own_and_out_of_reach_of_scripts() {
    let world = World::new();
    let client = world.client().await;
    let came = Browser::default().get(&world, &World::authorize(&client, &[])).await;
    let set = came.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("__Host-vmcp-browser="), "{set}");
    for part in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Secure"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Domain"));
}

#[tokio::test]
async fn an_address_that_asks_too_often_waits() {
    let mut settings = settings();
    settings.rates = Rates { pages: Rate { burst: 2, per_second: 1 }, ..settings.rates };
    let world = World::with(settings, Limits::default());
    let client = world.client().await;
    let address = World::authorize(&client, &[]);
    for status in [200, 200, 429] {
        assert_eq!(page(&world, &address).await.0, status);
    }
    world.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(page(&world, &address).await.0, 200);
}

#[tokio::test]
async fn logins_before_consent_take_nothing_from_others() {
    let world = World::with(settings(), Limits { logins_per_origin: 2, ..Limits::default() });
    let client = world.client().await;
    let address = World::authorize(&client, &[]);
    let (mut own, mut other) = (Browser::at("192.0.2.1"), Browser::at("192.0.2.2"));
    let page = own.get(&world, &address).await;
    let mut first = other.clone();
    let flooded = first.get(&world, &address).await;
    for _ in 0..50 {
        assert_eq!(other.get(&world, &address).await.status, 200);
    }
    // Logins of other addresses remain, even of the same client: the oldest login of the same address was evicted.
    let came = own.send(&world, World::decision(&page.text, "allow")).await;
    assert!(came.refresh_target().starts_with("https://corp.example/"), "{}", came.text);
    let came = first.send(&world, World::decision(&flooded.text, "allow")).await;
    assert!(came.text.contains("This login is over"), "{}", came.text);
    assert_eq!(world.store.counts().await.unwrap().logins, 3);
}
