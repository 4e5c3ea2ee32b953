//! Tests for refresh tokens: valid once, for their own client, until revoked.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use vmcp_auth_store::SessionId;

use crate::OwnFault;
use crate::testing::{APP, Browser, RESOURCE, Watched, World, form_request, param, settings};

#[tokio::test]
async fn a_refresh_token_is_good_once_and_its_answer_can_be_repeated_for_a_moment() {
    let world = World::new();
    let client = world.client().await;
    let first = world.tokens(&client).await;
    let second = world.refresh(&client, &first.refresh).await.tokens();
    assert_ne!(second.refresh, first.refresh);
    world.clock.advance(std::time::Duration::from_secs(9));
    let again = world.refresh(&client, &first.refresh).await.tokens();
    assert_eq!(again.refresh, second.refresh);
    let third = world.refresh(&client, &second.refresh).await.tokens();
    assert_ne!(third.refresh, second.refresh);
}

#[tokio::test]
async fn a_replay_ends_the_family_and_the_session() {
    let world = World::new();
    let client = world.client().await;
    for late in [true, false] {
        let first = world.tokens(&client).await;
        let second = world.refresh(&client, &first.refresh).await.tokens();
        if late {
            world.clock.advance(std::time::Duration::from_secs(11));
        } else {
            // The successor was used, so the response was not lost.
            world.refresh(&client, &second.refresh).await.tokens();
        }
        assert_eq!(world.refresh(&client, &first.refresh).await.error(), "invalid_grant");
        assert_eq!(world.refresh(&client, &second.refresh).await.error(), "invalid_grant");
        let verifier = world.server.verifier(RESOURCE).unwrap();
        assert_eq!(verifier.verify(&second.access).unwrap_err(), OwnFault::Revoked, "{late}");
    }
    assert_eq!(world.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn five_hundred_refreshes_of_one_token_make_one_successor_and_lose_nobody() {
    let world = World::new();
    let client = world.client().await;
    let first = world.tokens(&client).await;
    let store = Watched::new(world.store.clone(), usize::MAX, false);
    let world = World::over(settings(), store, world.clock.clone());
    let refreshes = (0..500).map(|_| world.refresh(&client, &first.refresh));
    let came = futures_util::future::join_all(refreshes).await;
    let mut successors: Vec<_> = came.iter().map(|came| came.tokens().refresh).collect();
    successors.dedup();
    assert_eq!(successors.len(), 1);
    assert_eq!(world.refresh(&client, &successors[0]).await.status, 200);
}

#[tokio::test]
async fn another_clients_refresh_token_is_refused_and_stays_good() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    let got = world.tokens(&client).await;
    assert_eq!(world.refresh(&other, &got.refresh).await.error(), "invalid_grant");
    assert_eq!(world.refresh("nobody", &got.refresh).await.error(), "invalid_client");
    assert_eq!(world.refresh(&client, &got.refresh).await.status, 200);
}

#[tokio::test]
async fn scopes_can_be_narrowed_for_one_access_token_and_never_widened() {
    let world = World::new();
    let client = world.client().await;
    let first = world.tokens(&client).await;
    let refresh = async |token: &str, more: (&str, &str)| {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", client.as_str()),
            ("refresh_token", token),
            more,
        ];
        world.post("/oauth/token", &form).await
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
async fn a_client_that_registered_refreshing_can_whether_it_asks_for_offline_access_or_not() {
    let world = World::new();
    let client = world.client().await;
    let address = World::authorize(&client, &[("scope", "openid")]);
    let mut browser = Browser::default();
    let page = browser.get(&world, &address).await;
    assert!(page.text.contains("stay logged in while you are away"), "{}", page.text);
    let answer = world.log_in_at(&mut browser, &address).await;
    let came = world.redeem(&client, &param(&answer, "code").unwrap(), &[]).await;
    // The scopes omit what was not requested: some clients reject additional scopes.
    assert_eq!(came.json()["scope"], "openid");
    let next = world.refresh(&client, &came.tokens().refresh).await;
    assert_eq!(next.json()["scope"], "openid");
    assert_eq!(world.refresh(&client, &next.tokens().refresh).await.status, 200);
    // The consent covers either form of the request.
    let address = World::authorize(&client, &[("scope", "openid offline_access")]);
    assert_eq!(browser.get(&world, &address).await.status, 303);
}

#[tokio::test]
async fn who_cannot_refresh_or_is_not_offered_to_gets_no_refresh_token() {
    let world = World::new();
    let without = world.register(json!({"redirect_uris": [APP]})).await.json();
    let without = without["client_id"].as_str().unwrap();
    let page = Browser::default().get(&world, &World::authorize(without, &[])).await;
    assert!(!page.text.contains("stay logged in"), "{}", page.text);
    let code = world.code(without).await;
    let got = world.redeem(without, &code, &[]).await.json();
    assert!(got.get("refresh_token").is_none());
    assert_eq!(got["scope"], "openid profile email");

    let mut settings = settings();
    settings.scopes = crate::Scopes::parse("openid profile").unwrap();
    let world = World::with(settings, vmcp_auth_store::Limits::default());
    let client = world.client().await;
    let code = world.code(&client).await;
    assert!(world.redeem(&client, &code, &[]).await.json().get("refresh_token").is_none());
}

#[tokio::test]
async fn a_refresh_token_that_nobody_uses_ends_and_so_does_every_grant() {
    let world = World::new();
    let client = world.client().await;
    let day = std::time::Duration::from_secs(24 * 3600);
    let got = world.tokens(&client).await;
    world.clock.advance(day * 8);
    assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
    let mut token = world.tokens(&client).await.refresh;
    for at in 0.. {
        assert!(at < 16, "a grant that is used lives for ever");
        // An access token does not outlast its grant, which ends after 90 days.
        if at == 14 {
            world.clock.advance(day * 5 + std::time::Duration::from_secs((24 * 60 - 1) * 60));
            let came = world.refresh(&client, &token).await;
            assert_eq!(came.json()["expires_in"], 60);
            token = came.tokens().refresh;
            world.clock.advance(std::time::Duration::from_secs(60));
        } else {
            world.clock.advance(day * 6);
        }
        let came = world.refresh(&client, &token).await;
        if came.status != 200 {
            assert_eq!(at, 14);
            break;
        }
        token = came.tokens().refresh;
    }
}

#[tokio::test]
async fn a_revoked_token_takes_its_session_along_and_an_unknown_one_is_as_good_as_revoked() {
    let world = World::new();
    let client = world.client().await;
    let verifier = world.server.verifier(RESOURCE).unwrap();
    let revoke = async |client: &str, token: &str| {
        world.post("/oauth/revoke", &[("client_id", client), ("token", token)]).await
    };
    for pick in [
        |got: &crate::testing::Got| got.refresh.clone(),
        |got: &crate::testing::Got| got.access.clone(),
    ] {
        let got = world.tokens(&client).await;
        // Another client cannot use it.
        let other = world.client().await;
        assert_eq!(revoke(&other, &pick(&got)).await.status, 200);
        assert!(verifier.verify(&got.access).is_ok());
        let came = revoke(&client, &pick(&got)).await;
        assert_eq!((came.status.as_u16(), came.text.as_str()), (200, ""));
        assert_eq!(verifier.verify(&got.access).unwrap_err(), OwnFault::Revoked);
        assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
        assert_eq!(revoke(&client, &pick(&got)).await.status, 200);
    }
    assert_eq!(revoke(&client, "made-up").await.status, 200);
    assert_eq!(revoke("nobody", "made-up").await.error(), "invalid_client");
    assert_eq!(
        world.post("/oauth/revoke", &[("client_id", &client)]).await.error(),
        "invalid_request"
    );
}

#[tokio::test]
async fn what_one_replica_revokes_the_others_refuse() {
    let world = World::new();
    let client = world.client().await;
    let got = world.tokens(&client).await;
    let mut settings = crate::testing::settings();
    // Replicas share their keys.
    settings.keys = crate::Keys::new(&[crate::testing::PEM]).unwrap();
    let one = World::over(settings, world.store.clone(), world.clock.clone());
    let mut settings = crate::testing::settings();
    settings.keys = crate::Keys::new(&[crate::testing::PEM]).unwrap();
    let two = World::over(settings, world.store.clone(), world.clock.clone());
    drop(got);
    let watching = tokio::spawn(two.server.clone().watch());
    two.server.revocations_read().await;
    let got = one.tokens(&client).await;
    let verifier = two.server.verifier(RESOURCE).unwrap();
    let session = verifier.verify(&got.access).unwrap().session;
    let (told, hear) = std::sync::mpsc::channel::<SessionId>();
    two.server.on_end(move |session| told.send(session).unwrap());
    tokio::task::yield_now().await;
    one.post("/oauth/revoke", &[("client_id", &client), ("token", &got.refresh)]).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(verifier.verify(&got.access).unwrap_err(), OwnFault::Revoked);
    assert_eq!(hear.try_recv(), Ok(session));
    watching.abort();
}

#[tokio::test]
async fn introspection_is_for_clients_with_a_secret_and_their_own_tokens() {
    let world = World::new();
    let document = json!({
        "redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_post",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let registered = world.register(document).await.json();
    let text = |name: &str| registered[name].as_str().unwrap().to_owned();
    let (id, secret) = (text("client_id"), text("client_secret"));
    let code = world.code(&id).await;
    let got = world.redeem(&id, &code, &[("client_secret", &secret)]).await.tokens();
    let ask = async |token: &str| {
        let mut request = form_request("/oauth/introspect", &[("token", token)]);
        let header = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        request.headers_mut().insert("authorization", header.parse().unwrap());
        world.send(request).await.json()
    };
    let access = ask(&got.access).await;
    assert_eq!((&access["active"], &access["client_id"]), (&json!(true), &json!(id)));
    assert!(access.get("tsid").is_none());
    assert_eq!(access["token_use"], "access_token");
    let refresh = ask(&got.refresh).await;
    assert_eq!(
        (&refresh["active"], &refresh["token_use"]),
        (&json!(true), &json!("refresh_token"))
    );
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", &id),
        ("client_secret", &secret),
        ("refresh_token", &got.refresh),
    ];
    let next = world.post("/oauth/token", &form).await.tokens();
    assert_eq!(ask(&got.refresh).await, json!({"active": false}), "it was used");
    assert_eq!(ask(&next.refresh).await["active"], true);
    let public = world.client().await;
    for foreign in
        [world.tokens(&public).await.access, world.tokens(&public).await.refresh, "x".into()]
    {
        assert_eq!(ask(&foreign).await, json!({"active": false}));
    }
    let came = world.post("/oauth/introspect", &[("client_id", &public), ("token", "x")]).await;
    assert_eq!(came.error(), "unauthorized_client");
}
