//! Tests for refresh tokens: valid once, for their own client, until revoked.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use vmcp_auth_store::SessionId;

use crate::AccessTokenError;
use crate::testing::{
    APP, FailingStore, RESOURCE, TestEnv, UserAgent, form_request, param, settings,
};

#[tokio::test]
async fn repeats_refresh_response_for_short_time() {
    let env = TestEnv::new();
    let client = env.client().await;
    let first = env.tokens(&client).await;
    let second = env.refresh(&client, &first.refresh).await.tokens();
    assert_ne!(second.refresh, first.refresh);
    env.clock.advance(std::time::Duration::from_secs(9));
    let again = env.refresh(&client, &first.refresh).await.tokens();
    assert_eq!(again.refresh, second.refresh);
    let third = env.refresh(&client, &second.refresh).await.tokens();
    assert_ne!(third.refresh, second.refresh);
}

#[tokio::test]
async fn replayed_refresh_token_revokes_family_and_session() {
    let env = TestEnv::new();
    let client = env.client().await;
    for late in [true, false] {
        let first = env.tokens(&client).await;
        let second = env.refresh(&client, &first.refresh).await.tokens();
        if late {
            env.clock.advance(std::time::Duration::from_secs(11));
        } else {
            // The successor was used, so the response was not lost.
            env.refresh(&client, &second.refresh).await.tokens();
        }
        assert_eq!(env.refresh(&client, &first.refresh).await.error(), "invalid_grant");
        assert_eq!(env.refresh(&client, &second.refresh).await.error(), "invalid_grant");
        let verifier = env.server.verifier(RESOURCE).unwrap();
        assert_eq!(
            verifier.verify(&second.access).unwrap_err(),
            AccessTokenError::Revoked,
            "{late}"
        );
    }
    assert_eq!(env.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn concurrent_refreshes_share_one_successor() {
    let env = TestEnv::new();
    let client = env.client().await;
    let first = env.tokens(&client).await;
    let store = FailingStore::new(env.store.clone(), usize::MAX, false);
    let env = TestEnv::with_store(settings(), store, env.clock.clone());
    let refreshes = (0..500).map(|_| env.refresh(&client, &first.refresh));
    let response = futures_util::future::join_all(refreshes).await;
    let mut successors: Vec<_> =
        response.iter().map(|response| response.tokens().refresh).collect();
    successors.dedup();
    assert_eq!(successors.len(), 1);
    assert_eq!(env.refresh(&client, &successors[0]).await.status, 200);
}

#[tokio::test]
async fn rejects_refresh_token_of_other_client() {
    let env = TestEnv::new();
    let (client, other) = (env.client().await, env.client().await);
    let issued = env.tokens(&client).await;
    assert_eq!(env.refresh(&other, &issued.refresh).await.error(), "invalid_grant");
    assert_eq!(env.refresh("nobody", &issued.refresh).await.error(), "invalid_client");
    assert_eq!(env.refresh(&client, &issued.refresh).await.status, 200);
}

#[tokio::test]
async fn refresh_narrows_scopes_and_never_widens() {
    let env = TestEnv::new();
    let client = env.client().await;
    let first = env.tokens(&client).await;
    let refresh = async |token: &str, more: (&str, &str)| {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", client.as_str()),
            ("refresh_token", token),
            more,
        ];
        env.post("/oauth/token", &form).await
    };
    assert_eq!(refresh(&first.refresh, ("scope", "openid admin")).await.error(), "invalid_scope");
    assert_eq!(
        refresh(&first.refresh, ("resource", "https://other.example")).await.error(),
        "invalid_target"
    );
    let narrow = refresh(&first.refresh, ("scope", "email")).await;
    assert_eq!(narrow.json()["scope"], "email");
    let wide = refresh(&narrow.tokens().refresh, ("resource", RESOURCE)).await;
    assert_eq!(wide.json()["scope"], "openid profile email offline_access");
}

/// Many clients register the grant type and never request the scope; their users would otherwise log in each hour.
#[tokio::test]
async fn grant_type_suffices_for_refresh_token() {
    let env = TestEnv::new();
    let client = env.client().await;
    let address = TestEnv::authorize(&client, &[("scope", "openid")]);
    let mut browser = UserAgent::default();
    let page = browser.get(&env, &address).await;
    assert!(page.text.contains("keep access while you are offline"), "{}", page.text);
    let answer = env.log_in_at(&mut browser, &address).await;
    let response = env.redeem(&client, &param(&answer, "code").unwrap(), &[]).await;
    // The scopes omit what was not requested: some clients reject additional scopes.
    assert_eq!(response.json()["scope"], "openid");
    let next = env.refresh(&client, &response.tokens().refresh).await;
    assert_eq!(next.json()["scope"], "openid");
    assert_eq!(env.refresh(&client, &next.tokens().refresh).await.status, 200);
    // The consent covers either form of the request.
    let address = TestEnv::authorize(&client, &[("scope", "openid offline_access")]);
    assert_eq!(browser.get(&env, &address).await.status, 303);
}

#[tokio::test]
async fn issues_no_refresh_token_without_grant_type() {
    let env = TestEnv::new();
    let without = env.register(json!({"redirect_uris": [APP]})).await.json();
    let without = without["client_id"].as_str().unwrap();
    let page = UserAgent::default().get(&env, &TestEnv::authorize(without, &[])).await;
    assert!(!page.text.contains("while you are offline"), "{}", page.text);
    let code = env.code(without).await;
    let issued = env.redeem(without, &code, &[]).await.json();
    assert!(issued.get("refresh_token").is_none());
    assert_eq!(issued["scope"], "openid profile email");

    let mut settings = settings();
    settings.scopes = crate::Scopes::parse("openid profile").unwrap();
    let env = TestEnv::with(settings, vmcp_auth_store::Limits::default());
    let client = env.client().await;
    let code = env.code(&client).await;
    assert!(env.redeem(&client, &code, &[]).await.json().get("refresh_token").is_none());
}

#[tokio::test]
async fn unused_refresh_tokens_and_old_grants_expire() {
    let env = TestEnv::new();
    let client = env.client().await;
    let day = std::time::Duration::from_hours(24);
    let issued = env.tokens(&client).await;
    env.clock.advance(day * 8);
    assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
    let mut token = env.tokens(&client).await.refresh;
    for at in 0.. {
        assert!(at < 16, "a grant that is used lives for ever");
        // An access token does not outlast its grant, which ends after 90 days.
        if at == 14 {
            env.clock.advance(day * 5 + std::time::Duration::from_mins(1439));
            let response = env.refresh(&client, &token).await;
            assert_eq!(response.json()["expires_in"], 60);
            token = response.tokens().refresh;
            env.clock.advance(std::time::Duration::from_mins(1));
        } else {
            env.clock.advance(day * 6);
        }
        let response = env.refresh(&client, &token).await;
        if response.status != 200 {
            assert_eq!(at, 14);
            break;
        }
        token = response.tokens().refresh;
    }
}

#[tokio::test]
async fn revocation_ends_session_and_accepts_unknown_tokens() {
    let env = TestEnv::new();
    let client = env.client().await;
    let verifier = env.server.verifier(RESOURCE).unwrap();
    let revoke = async |client: &str, token: &str| {
        env.post("/oauth/revoke", &[("client_id", client), ("token", token)]).await
    };
    for pick in [
        |issued: &crate::testing::TokenPair| issued.refresh.clone(),
        |issued: &crate::testing::TokenPair| issued.access.clone(),
    ] {
        let issued = env.tokens(&client).await;
        // Another client cannot use it.
        let other = env.client().await;
        assert_eq!(revoke(&other, &pick(&issued)).await.status, 200);
        assert!(verifier.verify(&issued.access).is_ok());
        let response = revoke(&client, &pick(&issued)).await;
        assert_eq!((response.status.as_u16(), response.text.as_str()), (200, ""));
        assert_eq!(verifier.verify(&issued.access).unwrap_err(), AccessTokenError::Revoked);
        assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
        assert_eq!(revoke(&client, &pick(&issued)).await.status, 200);
    }
    assert_eq!(revoke(&client, "made-up").await.status, 200);
    assert_eq!(revoke("nobody", "made-up").await.error(), "invalid_client");
    assert_eq!(
        env.post("/oauth/revoke", &[("client_id", &client)]).await.error(),
        "invalid_request"
    );
}

#[tokio::test]
async fn replicas_reject_tokens_revoked_elsewhere() {
    let env = TestEnv::new();
    let client = env.client().await;
    let issued = env.tokens(&client).await;
    let mut settings = crate::testing::settings();
    // Replicas share their keys.
    settings.keys = crate::SigningKeys::new(&[crate::testing::PEM]).unwrap();
    let one = TestEnv::with_store(settings, env.store.clone(), env.clock.clone());
    let mut settings = crate::testing::settings();
    settings.keys = crate::SigningKeys::new(&[crate::testing::PEM]).unwrap();
    let two = TestEnv::with_store(settings, env.store.clone(), env.clock.clone());
    drop(issued);
    let watching = tokio::spawn(two.server.clone().watch_revocations());
    two.server.wait_revocations_loaded().await;
    let issued = one.tokens(&client).await;
    let verifier = two.server.verifier(RESOURCE).unwrap();
    let session = verifier.verify(&issued.access).unwrap().session;
    let (told, hear) = std::sync::mpsc::channel::<SessionId>();
    two.server.on_revocation(move |session| told.send(session).unwrap());
    tokio::task::yield_now().await;
    one.post("/oauth/revoke", &[("client_id", &client), ("token", &issued.refresh)]).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(verifier.verify(&issued.access).unwrap_err(), AccessTokenError::Revoked);
    assert_eq!(hear.try_recv(), Ok(session));
    watching.abort();
}

#[tokio::test]
async fn introspection_requires_secret_and_own_token() {
    let env = TestEnv::new();
    let document = json!({
        "redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_post",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let registered = env.register(document).await.json();
    let text = |name: &str| registered[name].as_str().unwrap().to_owned();
    let (id, secret) = (text("client_id"), text("client_secret"));
    let code = env.code(&id).await;
    let issued = env.redeem(&id, &code, &[("client_secret", &secret)]).await.tokens();
    let ask = async |token: &str| {
        let mut request = form_request("/oauth/introspect", &[("token", token)]);
        let header = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        request.headers_mut().insert("authorization", header.parse().unwrap());
        env.send(request).await.json()
    };
    let access = ask(&issued.access).await;
    assert_eq!((&access["active"], &access["client_id"]), (&json!(true), &json!(id)));
    assert!(access.get("tsid").is_none());
    assert_eq!(access["token_use"], "access_token");
    let refresh = ask(&issued.refresh).await;
    assert_eq!(
        (&refresh["active"], &refresh["token_use"]),
        (&json!(true), &json!("refresh_token"))
    );
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", &id),
        ("client_secret", &secret),
        ("refresh_token", &issued.refresh),
    ];
    let next = env.post("/oauth/token", &form).await.tokens();
    assert_eq!(ask(&issued.refresh).await, json!({"active": false}), "it was used");
    assert_eq!(ask(&next.refresh).await["active"], true);
    let public = env.client().await;
    for foreign in [env.tokens(&public).await.access, env.tokens(&public).await.refresh, "x".into()]
    {
        assert_eq!(ask(&foreign).await, json!({"active": false}));
    }
    let response = env.post("/oauth/introspect", &[("client_id", &public), ("token", "x")]).await;
    assert_eq!(response.error(), "unauthorized_client");
}
