//! Tests for the redemption of codes and the claims of tokens.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use vmcp_auth_store::{Digest, Limits};
use vmcp_jwt::TokenError;

use crate::testing::{
    APP, Browser, ISSUER, NOW, RESOURCE, VERIFIER, Watched, World, form_request, param, settings,
};
use crate::{Audience, Audiences, HmacRing, OwnFault};

fn part(token: &str, at: usize) -> Value {
    let part = token.split('.').nth(at).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn an_access_token_says_what_rfc_9068_wants() {
    let world = World::new();
    let client = world.client().await;
    let code = world.code(&client).await;
    let came = world.redeem(&client, &code, &[]).await;
    assert_eq!(came.headers["cache-control"], "no-store");
    assert_eq!(came.headers["pragma"], "no-cache");
    let answer = came.json();
    assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("Bearer"), &json!(3600)));
    let token = answer["access_token"].as_str().unwrap();
    assert_eq!(part(token, 0)["typ"], "at+jwt");
    let claims = part(token, 1);
    for (claim, value) in [
        ("iss", json!(ISSUER)),
        ("aud", json!([RESOURCE])),
        ("client_id", json!(client)),
        ("iat", json!(NOW)),
        ("exp", json!(NOW + 3600)),
        ("scope", json!("openid profile email offline_access")),
        ("scp", json!(["openid", "profile", "email", "offline_access"])),
        ("name", json!("Alice")),
        ("email", json!("alice@example.com")),
    ] {
        assert_eq!(claims[claim], value, "{claim}");
    }
    assert_eq!(claims["sub"].as_str().unwrap().len(), 36);
    assert_ne!(claims["jti"], part(&world.tokens(&client).await.access, 1)["jti"]);
}

#[tokio::test]
async fn the_session_counts_in_own_tokens_alone_and_is_shown_to_nobody() {
    let world = World::new();
    let got = world.tokens(&world.client().await).await;
    let verifier = world.server.verifier(RESOURCE).unwrap();
    let token = verifier.verify(&got.access).unwrap();
    assert!(!token.claims.has("tsid"));
    assert!(world.store.session(&token.session).await.unwrap().is_some());
    assert!(world.server.verifier("https://other.example").is_none());
    // A token of another server, with the same claims.
    let other = World::new();
    let foreign = other.tokens(&other.client().await).await.access;
    assert_eq!(verifier.verify(&foreign).unwrap_err(), OwnFault::Token(TokenError::UnknownKey));
    world.clock.advance(std::time::Duration::from_secs(3700));
    assert_eq!(verifier.verify(&got.access).unwrap_err(), OwnFault::Token(TokenError::Expired));
}

#[tokio::test]
async fn an_id_token_is_for_the_client_and_no_access_token() {
    let world = World::new();
    let client = world.client().await;
    let address = World::authorize(&client, &[("nonce", "n-1"), ("scope", "openid email")]);
    let answer = world.log_in_at(&mut Browser::default(), &address).await;
    let got = world.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.json();
    let id = got["id_token"].as_str().unwrap();
    let claims = part(id, 1);
    assert_eq!(
        (&claims["aud"], &claims["nonce"], &claims["email"], &claims["name"]),
        (&json!(client), &json!("n-1"), &json!("alice@example.com"), &Value::Null)
    );
    // Left half of SHA-256, for a token signed with ES256 (section 3.1.3.6).
    let hash = Digest::of(got["access_token"].as_str().unwrap());
    assert_eq!(claims["at_hash"], URL_SAFE_NO_PAD.encode(&hash.as_bytes()[..16]));
    assert!(world.server.verifier(RESOURCE).unwrap().verify(id).is_err());
    // A login without the scope `openid` yields an access token only.
    let address = World::authorize(&client, &[("scope", "email")]);
    let answer = world.log_in_at(&mut Browser::default(), &address).await;
    let got = world.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.json();
    assert!(got.get("id_token").is_none());
}

/// Returns the claims of access token, ID token and userinfo response after a login with these scopes.
async fn said(world: &World, client: &str, scope: &str) -> [Value; 3] {
    let address = World::authorize(client, &[("scope", scope)]);
    let answer = world.log_in_at(&mut Browser::default(), &address).await;
    let got = world.redeem(client, &param(&answer, "code").unwrap(), &[]).await.json();
    let access = got["access_token"].as_str().unwrap();
    let request =
        http::Request::get("/oauth/userinfo").header("authorization", format!("Bearer {access}"));
    let user = world.send(request.body(axum::body::Body::empty()).unwrap()).await.json();
    [part(access, 1), part(got["id_token"].as_str().unwrap(), 1), user]
}

#[tokio::test]
async fn address_goes_with_whether_it_is_verified() {
    let world = World::new();
    let client = world.client().await;
    for verified in [Some(true), Some(false), None] {
        world.corp.set(|script| script.email_verified = verified);
        for claims in said(&world, &client, "openid email").await {
            assert_eq!(claims.get("email_verified").and_then(Value::as_bool), verified, "{claims}");
        }
        for claims in said(&world, &client, "openid profile").await {
            assert!(claims.get("email_verified").is_none(), "{claims}");
        }
    }
}

#[tokio::test]
async fn name_and_address_are_in_tokens_for_their_scopes_only() {
    let world = World::new();
    let client = world.client().await;
    let cases = [
        ("openid", [false; 2]),
        ("openid profile", [true, false]),
        ("openid email", [false, true]),
    ];
    for (scope, wanted) in cases {
        for claims in said(&world, &client, scope).await {
            let found = ["name", "email"].map(|claim| claims.get(claim).is_some());
            assert_eq!(found, wanted, "{scope}: {claims}");
        }
    }
}

#[tokio::test]
async fn userinfo_says_what_the_scopes_allow() {
    let world = World::new();
    let client = world.client().await;
    let ask = async |scope: &str, scheme: &str| {
        let answer = world
            .log_in_at(&mut Browser::default(), &World::authorize(&client, &[("scope", scope)]))
            .await;
        let got = world.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.tokens();
        let request = http::Request::get("/oauth/userinfo")
            .header("authorization", format!("{scheme} {}", got.access));
        world.send(request.body(axum::body::Body::empty()).unwrap()).await
    };
    let came = ask("openid email", "bearer").await.json();
    assert_eq!((&came["email"], came.get("name")), (&json!("alice@example.com"), None));
    let came = ask("email", "Bearer").await;
    let challenge = "Bearer error=\"insufficient_scope\", \
        error_description=\"the scope openid is needed\", scope=\"openid\"";
    assert_eq!(
        (came.status.as_u16(), came.headers["www-authenticate"].to_str().unwrap()),
        (403, challenge)
    );
    assert_eq!(came.error(), "insufficient_scope");
    let request = http::Request::get("/oauth/userinfo").header("authorization", "Bearer made-up");
    let came = world.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!((came.status.as_u16(), came.error().as_str()), (401, "invalid_token"));
    assert_eq!(ask("openid", "Basic").await.status, 401);
    assert_eq!(world.get("/oauth/userinfo").await.headers["www-authenticate"], "Bearer");
}

#[tokio::test]
async fn a_code_that_is_presented_again_revokes_what_it_gave() {
    let world = World::new();
    let client = world.client().await;
    let code = world.code(&client).await;
    let got = world.redeem(&client, &code, &[]).await.tokens();
    let verifier = world.server.verifier(RESOURCE).unwrap();
    assert!(verifier.verify(&got.access).is_ok());
    assert_eq!(world.redeem(&client, &code, &[]).await.error(), "invalid_grant");
    assert_eq!(verifier.verify(&got.access).unwrap_err(), OwnFault::Revoked);
    assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
    assert_eq!(world.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn of_a_hundred_that_redeem_one_code_one_gets_tokens() {
    let base = World::new();
    let client = base.client().await;
    let store = Watched::new(base.store.clone(), usize::MAX, false);
    let world = World::over(settings(), store, base.clock.clone());
    let code = world.code(&client).await;
    let redeem = (0..100).map(|_| world.redeem(&client, &code, &[]));
    let came = futures_util::future::join_all(redeem).await;
    let given = came.iter().filter(|came| came.status == 200).count();
    assert_eq!(given, 1);
    let got = came.iter().find(|came| came.status == 200).unwrap().tokens();
    assert!(
        world.server.verifier(RESOURCE).unwrap().verify(&got.access).is_ok(),
        "it was taken away again"
    );
    assert_eq!(world.refresh(&client, &got.refresh).await.status, 200);
    assert!(
        came.iter().filter(|came| came.status != 200).all(|came| came.error() == "invalid_grant")
    );
}

#[tokio::test]
async fn a_code_is_burnt_by_whoever_cannot_answer_for_it() {
    let world = World::new();
    let client = world.client().await;
    let other = world.client().await;
    let wrong = "x".repeat(43);
    for (changed, error) in [
        (&[("client_id", other.as_str())][..], "invalid_grant"),
        (&[("code_verifier", wrong.as_str())], "invalid_grant"),
        (&[("redirect_uri", "https://app.example/other")], "invalid_grant"),
        (&[("resource", "https://other.example")], "invalid_target"),
        (&[("client_secret", "guess")], "invalid_client"),
    ] {
        let code = world.code(&client).await;
        assert_eq!(world.redeem(&client, &code, changed).await.error(), error, "{changed:?}");
        assert_eq!(world.redeem(&client, &code, &[]).await.error(), "invalid_grant", "{changed:?}");
    }
    assert_eq!(world.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn what_cannot_be_a_verifier_is_malformed_and_burns_nothing() {
    let world = World::new();
    let client = world.client().await;
    let code = world.code(&client).await;
    let illegal = format!("{}+", "x".repeat(42));
    for verifier in ["", &"x".repeat(42), &"x".repeat(129), &illegal] {
        let came = world.redeem(&client, &code, &[("code_verifier", verifier)]).await;
        assert_eq!(came.error(), "invalid_request", "{verifier}");
    }
    // OAuth 2.1 omits the redirect URI.
    assert_eq!(world.redeem(&client, &code, &[("redirect_uri", "")]).await.status, 200);
    for length in [43, 128] {
        let verifier = "y".repeat(length);
        let challenge = vmcp_auth_store::CodeChallenge::of_verifier(&verifier).to_text();
        let address = World::authorize(&client, &[("code_challenge", &challenge)]);
        let answer = world.log_in_at(&mut Browser::default(), &address).await;
        let code = param(&answer, "code").unwrap();
        let came = world.redeem(&client, &code, &[("code_verifier", &verifier)]).await;
        assert_eq!(came.status, 200, "{length}");
    }
}

#[tokio::test]
async fn a_code_lives_for_as_long_as_configured() {
    let world = World::new();
    let client = world.client().await;
    let code = world.code(&client).await;
    world.clock.advance(std::time::Duration::from_secs(601));
    assert_eq!(world.redeem(&client, &code, &[]).await.error(), "invalid_grant");
}

#[tokio::test]
async fn codes_of_a_secret_that_is_rotated_out_are_refused() {
    let ring = |bytes: &[u8]| {
        let secrets: Vec<_> = bytes.iter().map(|byte| vec![*byte; 32].into()).collect();
        let mut settings = settings();
        settings.hmac = HmacRing::new(&secrets).unwrap();
        settings
    };
    let before = World::with(ring(&[1]), Limits::default());
    let replica = |bytes| World::over(ring(bytes), before.store.clone(), before.clock.clone());
    let client = before.client().await;
    let (one, two) = (before.code(&client).await, before.code(&client).await);
    assert_eq!(replica(&[2, 1]).redeem(&client, &one, &[]).await.status, 200);
    assert_eq!(replica(&[2]).redeem(&client, &two, &[]).await.error(), "invalid_grant");
}

#[tokio::test]
async fn requests_that_are_no_requests_are_told_so() {
    let world = World::new();
    let client = world.client().await;
    let id = ("client_id", client.as_str());
    for (form, error) in [
        (&[id][..], "invalid_request"),
        (&[id, ("grant_type", "password")], "unsupported_grant_type"),
        (&[id, ("grant_type", "client_credentials")], "unsupported_grant_type"),
        (&[id, ("grant_type", "authorization_code")], "invalid_request"),
        (&[id, ("grant_type", "refresh_token")], "invalid_request"),
        (&[("grant_type", "refresh_token"), ("refresh_token", "x")], "invalid_client"),
        (&[id, ("grant_type", "refresh_token"), ("refresh_token", "x"), id], "invalid_request"),
        (
            &[id, ("grant_type", "refresh_token"), ("resource", "a"), ("resource", "b")],
            "invalid_target",
        ),
        (&[id, ("grant_type", "refresh_token"), ("refresh_token", "x")], "invalid_grant"),
        (
            &[id, ("grant_type", "authorization_code"), ("code", "x"), ("code_verifier", VERIFIER)],
            "invalid_grant",
        ),
    ] {
        assert_eq!(world.post("/oauth/token", form).await.error(), error, "{form:?}");
    }
    let mut request = form_request("/oauth/token", &[]);
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    assert_eq!(world.send(request).await.error(), "invalid_request");
    let huge = "x".repeat(65 * 1024);
    assert_eq!(world.post("/oauth/token", &[("code", &huge)]).await.error(), "invalid_request");
    assert_eq!(world.get("/oauth/token").await.status, 405);
}

#[tokio::test]
async fn a_client_with_a_secret_proves_it_in_one_place() {
    let world = World::new();
    let document = json!({
        "redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let registered = world.register(document).await.json();
    let text = |name: &str| registered[name].as_str().unwrap().to_owned();
    let (id, secret) = (text("client_id"), text("client_secret"));
    let redeem = async |code: &str, header: Option<String>, more: &[(&str, &str)]| {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", APP),
            ("code_verifier", VERIFIER),
        ];
        form.extend(more);
        let mut request = form_request("/oauth/token", &form);
        if let Some(header) = header {
            let header = format!("Basic {}", STANDARD.encode(header));
            request.headers_mut().insert("authorization", header.parse().unwrap());
        }
        world.send(request).await
    };
    let both = [("client_id", id.as_str()), ("client_secret", secret.as_str())];
    for (header, form, status) in [
        (Some(format!("{id}:{secret}")), &[][..], 200),
        (None, &both, 200),
        (None, &both[..1], 401),
        (Some(format!("{id}:wrong")), &[], 401),
        (Some(format!("{id}:")), &[], 401),
        (Some(format!("{id}:{secret}")), &both, 400),
        (Some(format!("{id}%3A:{secret}")), &[], 401),
    ] {
        let code = world.code(&id).await;
        let basic = header.is_some();
        let came = redeem(&code, header, form).await;
        assert_eq!(came.status.as_u16(), status, "{form:?} {}", came.text);
        assert_eq!(came.headers.contains_key("www-authenticate"), basic && status == 401);
    }
    // Some libraries try the header first, even without a secret.
    let public = world.client().await;
    let code = world.code(&public).await;
    assert_eq!(redeem(&code, Some(format!("{public}:")), &[]).await.status, 200);
}

#[tokio::test]
async fn tokens_are_for_the_resource_that_was_asked_for() {
    let mut settings = settings();
    let two = [RESOURCE, "https://mcp.example/other"].map(|text| Audience::parse(text).unwrap());
    settings.audiences = Audiences::new(two.to_vec()).unwrap();
    let world = World::with(settings, Limits::default());
    let client = world.client().await;
    let code = world.code(&client).await;
    let other = [("resource", "https://mcp.example/other")];
    assert_eq!(world.redeem(&client, &code, &other).await.error(), "invalid_target");
    let code = world.code(&client).await;
    let same = [("resource", "HTTPS://mcp.EXAMPLE:443/mcp")];
    let got = world.redeem(&client, &code, &same).await.tokens();
    assert!(world.server.verifier(RESOURCE).unwrap().verify(&got.access).is_ok());
    assert!(
        world.server.verifier("https://mcp.example/other").unwrap().verify(&got.access).is_err()
    );
    // A refresh does not change the audience of the tokens.
    let other = [
        ("grant_type", "refresh_token"),
        ("client_id", &client),
        ("refresh_token", &got.refresh),
        ("resource", "https://mcp.example/other"),
    ];
    assert_eq!(world.post("/oauth/token", &other).await.error(), "invalid_target");
    // With two audiences, the request must name one.
    let came =
        Browser::default().get(&world, &World::authorize(&client, &[("resource", "")])).await;
    assert_eq!(came.error(), "invalid_target");
}
