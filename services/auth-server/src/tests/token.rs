//! Tests for the redemption of codes and the claims of tokens.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use vmcp_auth_store::{Digest, Limits};
use vmcp_jwt::TokenError;

use crate::testing::{
    APP, FailingStore, ISSUER, NOW, RESOURCE, TestEnv, UserAgent, VERIFIER, form_request, param,
    settings,
};
use crate::{AccessTokenError, Audience, Audiences, HmacKeyRing};

fn part(token: &str, at: usize) -> Value {
    let part = token.split('.').nth(at).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn access_token_has_rfc_9068_claims() {
    let env = TestEnv::new();
    let client = env.client().await;
    let code = env.code(&client).await;
    let response = env.redeem(&client, &code, &[]).await;
    assert_eq!(response.headers["cache-control"], "no-store");
    assert_eq!(response.headers["pragma"], "no-cache");
    let answer = response.json();
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
    assert_ne!(claims["jti"], part(&env.tokens(&client).await.access, 1)["jti"]);
}

#[tokio::test]
async fn session_claim_is_internal_to_issuer() {
    let env = TestEnv::new();
    let issued = env.tokens(&env.client().await).await;
    let verifier = env.server.verifier(RESOURCE).unwrap();
    let token = verifier.verify(&issued.access).unwrap();
    assert!(!token.claims.has("tsid"));
    assert!(env.store.session(&token.session).await.unwrap().is_some());
    assert!(env.server.verifier("https://other.example").is_none());
    // A token of another server, with the same claims.
    let other = TestEnv::new();
    let foreign = other.tokens(&other.client().await).await.access;
    assert_eq!(
        verifier.verify(&foreign).unwrap_err(),
        AccessTokenError::Token(TokenError::UnknownKey)
    );
    env.clock.advance(std::time::Duration::from_secs(3700));
    assert_eq!(
        verifier.verify(&issued.access).unwrap_err(),
        AccessTokenError::Token(TokenError::Expired)
    );
}

#[tokio::test]
async fn id_token_is_not_an_access_token() {
    let env = TestEnv::new();
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[("nonce", "n-1"), ("scope", "openid email")]);
    let answer = env.log_in_at(&mut UserAgent::default(), &address).await;
    let issued = env.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.json();
    let id = issued["id_token"].as_str().unwrap();
    let claims = part(id, 1);
    assert_eq!(
        (&claims["aud"], &claims["nonce"], &claims["email"], &claims["name"]),
        (&json!(client), &json!("n-1"), &json!("alice@example.com"), &Value::Null)
    );
    // Left half of SHA-256, for a token signed with ES256 (section 3.1.3.6).
    let hash = Digest::of(issued["access_token"].as_str().unwrap());
    assert_eq!(claims["at_hash"], URL_SAFE_NO_PAD.encode(&hash.as_bytes()[..16]));
    assert!(env.server.verifier(RESOURCE).unwrap().verify(id).is_err());
    // A login without the scope `openid` yields an access token only.
    let address = TestEnv::authorize(&client, &[("scope", "email")]);
    let answer = env.log_in_at(&mut UserAgent::default(), &address).await;
    let issued = env.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.json();
    assert!(issued.get("id_token").is_none());
}

/// Returns the claims of access token, ID token and userinfo response after a login with these scopes.
async fn claims_for_scope(env: &TestEnv, client: &str, scope: &str) -> [Value; 3] {
    let address = TestEnv::authorize(client, &[("scope", scope)]);
    let answer = env.log_in_at(&mut UserAgent::default(), &address).await;
    let issued = env.redeem(client, &param(&answer, "code").unwrap(), &[]).await.json();
    let access = issued["access_token"].as_str().unwrap();
    let request =
        http::Request::get("/oauth/userinfo").header("authorization", format!("Bearer {access}"));
    let user = env.send(request.body(axum::body::Body::empty()).unwrap()).await.json();
    [part(access, 1), part(issued["id_token"].as_str().unwrap(), 1), user]
}

#[tokio::test]
async fn email_claim_includes_verification_status() {
    let env = TestEnv::new();
    let client = env.client().await;
    for verified in [Some(true), Some(false), None] {
        env.corp.set(|behavior| behavior.email_verified = verified);
        for claims in claims_for_scope(&env, &client, "openid email").await {
            assert_eq!(claims.get("email_verified").and_then(Value::as_bool), verified, "{claims}");
        }
        for claims in claims_for_scope(&env, &client, "openid profile").await {
            assert!(claims.get("email_verified").is_none(), "{claims}");
        }
    }
}

#[tokio::test]
async fn profile_claims_require_their_scopes() {
    let env = TestEnv::new();
    let client = env.client().await;
    let cases = [
        ("openid", [false; 2]),
        ("openid profile", [true, false]),
        ("openid email", [false, true]),
    ];
    for (scope, wanted) in cases {
        for claims in claims_for_scope(&env, &client, scope).await {
            let found = ["name", "email"].map(|claim| claims.get(claim).is_some());
            assert_eq!(found, wanted, "{scope}: {claims}");
        }
    }
}

#[tokio::test]
async fn userinfo_returns_claims_within_scopes() {
    let env = TestEnv::new();
    let client = env.client().await;
    let ask = async |scope: &str, scheme: &str| {
        let answer = env
            .log_in_at(&mut UserAgent::default(), &TestEnv::authorize(&client, &[("scope", scope)]))
            .await;
        let issued = env.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.tokens();
        let request = http::Request::get("/oauth/userinfo")
            .header("authorization", format!("{scheme} {}", issued.access));
        env.send(request.body(axum::body::Body::empty()).unwrap()).await
    };
    let response = ask("openid email", "bearer").await.json();
    assert_eq!((&response["email"], response.get("name")), (&json!("alice@example.com"), None));
    let response = ask("email", "Bearer").await;
    let challenge = "Bearer error=\"insufficient_scope\", \
        error_description=\"the scope openid is required; request it at login\", scope=\"openid\"";
    assert_eq!(
        (response.status.as_u16(), response.headers["www-authenticate"].to_str().unwrap()),
        (403, challenge)
    );
    assert_eq!(response.error(), "insufficient_scope");
    let request = http::Request::get("/oauth/userinfo").header("authorization", "Bearer made-up");
    let response = env.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!((response.status.as_u16(), response.error().as_str()), (401, "invalid_token"));
    assert_eq!(ask("openid", "Basic").await.status, 401);
    assert_eq!(env.get("/oauth/userinfo").await.headers["www-authenticate"], "Bearer");
}

#[tokio::test]
async fn replayed_code_revokes_issued_tokens() {
    let env = TestEnv::new();
    let client = env.client().await;
    let code = env.code(&client).await;
    let issued = env.redeem(&client, &code, &[]).await.tokens();
    let verifier = env.server.verifier(RESOURCE).unwrap();
    assert!(verifier.verify(&issued.access).is_ok());
    assert_eq!(env.redeem(&client, &code, &[]).await.error(), "invalid_grant");
    assert_eq!(verifier.verify(&issued.access).unwrap_err(), AccessTokenError::Revoked);
    assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
    assert_eq!(env.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn concurrent_redemptions_issue_tokens_once() {
    let base = TestEnv::new();
    let client = base.client().await;
    let store = FailingStore::new(base.store.clone(), usize::MAX, false);
    let env = TestEnv::with_store(settings(), store, base.clock.clone());
    let code = env.code(&client).await;
    let redeem = (0..100).map(|_| env.redeem(&client, &code, &[]));
    let response = futures_util::future::join_all(redeem).await;
    let given = response.iter().filter(|response| response.status == 200).count();
    assert_eq!(given, 1);
    let issued = response.iter().find(|response| response.status == 200).unwrap().tokens();
    assert!(
        env.server.verifier(RESOURCE).unwrap().verify(&issued.access).is_ok(),
        "it was taken away again"
    );
    assert_eq!(env.refresh(&client, &issued.refresh).await.status, 200);
    assert!(
        response
            .iter()
            .filter(|response| response.status != 200)
            .all(|response| response.error() == "invalid_grant")
    );
}

#[tokio::test]
async fn failed_redemption_invalidates_code() {
    let env = TestEnv::new();
    let client = env.client().await;
    let other = env.client().await;
    let wrong = "x".repeat(43);
    for (changed, error) in [
        (&[("client_id", other.as_str())][..], "invalid_grant"),
        (&[("code_verifier", wrong.as_str())], "invalid_grant"),
        (&[("redirect_uri", "https://app.example/other")], "invalid_grant"),
        (&[("resource", "https://other.example")], "invalid_target"),
        (&[("client_secret", "guess")], "invalid_client"),
    ] {
        let code = env.code(&client).await;
        assert_eq!(env.redeem(&client, &code, changed).await.error(), error, "{changed:?}");
        assert_eq!(env.redeem(&client, &code, &[]).await.error(), "invalid_grant", "{changed:?}");
    }
    assert_eq!(env.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn malformed_code_verifier_leaves_code_valid() {
    let env = TestEnv::new();
    let client = env.client().await;
    let code = env.code(&client).await;
    let illegal = format!("{}+", "x".repeat(42));
    for verifier in ["", &"x".repeat(42), &"x".repeat(129), &illegal] {
        let response = env.redeem(&client, &code, &[("code_verifier", verifier)]).await;
        assert_eq!(response.error(), "invalid_request", "{verifier}");
    }
    // OAuth 2.1 omits the redirect URI.
    assert_eq!(env.redeem(&client, &code, &[("redirect_uri", "")]).await.status, 200);
    for length in [43, 128] {
        let verifier = "y".repeat(length);
        let challenge = vmcp_auth_store::CodeChallenge::of_verifier(&verifier).to_text();
        let address = TestEnv::authorize(&client, &[("code_challenge", &challenge)]);
        let answer = env.log_in_at(&mut UserAgent::default(), &address).await;
        let code = param(&answer, "code").unwrap();
        let response = env.redeem(&client, &code, &[("code_verifier", &verifier)]).await;
        assert_eq!(response.status, 200, "{length}");
    }
}

#[tokio::test]
async fn code_expires_after_configured_lifespan() {
    let env = TestEnv::new();
    let client = env.client().await;
    let code = env.code(&client).await;
    env.clock.advance(std::time::Duration::from_secs(601));
    assert_eq!(env.redeem(&client, &code, &[]).await.error(), "invalid_grant");
}

#[tokio::test]
async fn rejects_codes_of_removed_secret() {
    let ring = |bytes: &[u8]| {
        let secrets: Vec<_> = bytes.iter().map(|byte| vec![*byte; 32].into()).collect();
        let mut settings = settings();
        settings.hmac = HmacKeyRing::new(&secrets).unwrap();
        settings
    };
    let before = TestEnv::with(ring(&[1]), Limits::default());
    let replica =
        |bytes| TestEnv::with_store(ring(bytes), before.store.clone(), before.clock.clone());
    let client = before.client().await;
    let (one, two) = (before.code(&client).await, before.code(&client).await);
    assert_eq!(replica(&[2, 1]).redeem(&client, &one, &[]).await.status, 200);
    assert_eq!(replica(&[2]).redeem(&client, &two, &[]).await.error(), "invalid_grant");
}

#[tokio::test]
async fn malformed_token_requests_get_matching_errors() {
    let env = TestEnv::new();
    let client = env.client().await;
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
        assert_eq!(env.post("/oauth/token", form).await.error(), error, "{form:?}");
    }
    let mut request = form_request("/oauth/token", &[]);
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    assert_eq!(env.send(request).await.error(), "invalid_request");
    let huge = "x".repeat(65 * 1024);
    assert_eq!(env.post("/oauth/token", &[("code", &huge)]).await.error(), "invalid_request");
    assert_eq!(env.get("/oauth/token").await.status, 405);
}

#[tokio::test]
async fn confidential_client_authenticates_by_one_method() {
    let env = TestEnv::new();
    let document = json!({
        "redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let registered = env.register(document).await.json();
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
        env.send(request).await
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
        let code = env.code(&id).await;
        let basic = header.is_some();
        let response = redeem(&code, header, form).await;
        assert_eq!(response.status.as_u16(), status, "{form:?} {}", response.text);
        assert_eq!(response.headers.contains_key("www-authenticate"), basic && status == 401);
    }
    // Some libraries try the header first, even without a secret.
    let public = env.client().await;
    let code = env.code(&public).await;
    assert_eq!(redeem(&code, Some(format!("{public}:")), &[]).await.status, 200);
}

#[tokio::test]
async fn tokens_have_requested_audience() {
    let mut settings = settings();
    let two = [RESOURCE, "https://mcp.example/other"].map(|text| Audience::parse(text).unwrap());
    settings.audiences = Audiences::new(two.to_vec()).unwrap();
    let env = TestEnv::with(settings, Limits::default());
    let client = env.client().await;
    let code = env.code(&client).await;
    let other = [("resource", "https://mcp.example/other")];
    assert_eq!(env.redeem(&client, &code, &other).await.error(), "invalid_target");
    let code = env.code(&client).await;
    let same = [("resource", "HTTPS://mcp.EXAMPLE:443/mcp")];
    let issued = env.redeem(&client, &code, &same).await.tokens();
    assert!(env.server.verifier(RESOURCE).unwrap().verify(&issued.access).is_ok());
    assert!(
        env.server.verifier("https://mcp.example/other").unwrap().verify(&issued.access).is_err()
    );
    // A refresh does not change the audience of the tokens.
    let other = [
        ("grant_type", "refresh_token"),
        ("client_id", &client),
        ("refresh_token", &issued.refresh),
        ("resource", "https://mcp.example/other"),
    ];
    assert_eq!(env.post("/oauth/token", &other).await.error(), "invalid_target");
    // A request that names none is for the first.
    let mut user = UserAgent::default();
    let response = user.get(&env, &TestEnv::authorize(&client, &[("resource", "")])).await;
    assert_eq!(response.status, 200);
    let other = TestEnv::authorize(&client, &[("resource", "https://mcp.example/third")]);
    assert_eq!(user.get(&env, &other).await.error(), "invalid_target");
}
