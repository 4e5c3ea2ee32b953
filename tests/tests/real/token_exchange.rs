//! Token exchange at an independent authorization server.

use std::convert::Infallible;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{Request, Response};
use serde_json::Value;
use tower::{Layer, ServiceExt, service_fn};
use vmcp_core::{Caller, Clock, CredentialError, CredentialErrorKind, Identity, cause_ref};
use vmcp_egress::{Egress, FetchPolicy, Fetcher};
use vmcp_tests::counterparts::{TokenServer, skipped};
use vmcp_token_exchange::{
    CachedExchange, EndpointSettings, Exchange, ExchangeError, OAuthClient, Subject, TokenEndpoint,
    TokenExchangeLayer, TokenUrl,
};

fn basic(name: &str) -> OAuthClient {
    OAuthClient::basic(name, &secret(name).into()).unwrap()
}

fn secret(name: &str) -> String {
    format!("{name}: s3cr3t+/%")
}

fn settings(server: &TokenServer, client: OAuthClient) -> EndpointSettings {
    let url = TokenUrl::new(&server.token_url()).unwrap();
    EndpointSettings::new(url).client(client).scopes(["read"]).unwrap()
}

fn endpoint(settings: EndpointSettings) -> TokenEndpoint {
    let fetcher = Fetcher::new(Egress::default(), FetchPolicy::configured()).unwrap();
    TokenEndpoint::new(fetcher, settings, Clock::system())
}

fn exchanging(server: &TokenServer, client: OAuthClient, audience: &str) -> TokenEndpoint {
    let settings = settings(server, client).audience(audience);
    endpoint(settings.resource("https://files.example/mcp").unwrap())
}

/// Returns a user who has logged in at the server.
async fn login(server: &TokenServer, name: &str) -> Identity {
    let token =
        endpoint(settings(server, basic(name))).client_credentials().unwrap().await.unwrap();
    let token = token.value().to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
    Identity::builder("https://idp.example", name).token(token.into()).build()
}

fn claims(authorization: &str) -> Value {
    let payload = authorization.strip_prefix("Bearer ").unwrap().split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

async fn code(server: &TokenServer, client: OAuthClient, audience: &str, who: &Identity) -> String {
    let exchange =
        exchanging(server, client, audience).exchange(Subject::from_identity(who).unwrap());
    match exchange.await.unwrap_err() {
        ExchangeError::Rejected { code } => code.into(),
        ExchangeError::Unavailable(outage) => panic!("{outage}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exchanges_at_real_server_for_each_client_type() {
    if skipped() {
        return;
    }
    let server = TokenServer::start().await.unwrap();
    let ann = login(&server, "ann").await;
    let post = OAuthClient::post("gateway-post", &secret("gateway-post").into()).unwrap();
    let public = OAuthClient::public("gateway-public").unwrap();
    for (client, name) in
        [(basic("gateway"), "gateway"), (post, "gateway-post"), (public, "gateway-public")]
    {
        let exchange =
            exchanging(&server, client, "files").exchange(Subject::from_identity(&ann).unwrap());
        let token = exchange.await.unwrap();
        let claims = claims(token.value().to_str().unwrap());
        assert_eq!(
            (&claims["aud"], &claims["scope"], &claims["client_id"], &claims["exchanged_for"]),
            (&"files".into(), &"read".into(), &name.into(), &"ann".into()),
        );
        let expires_at = token.expires_at().unwrap().duration_since(std::time::UNIX_EPOCH);
        assert!(claims["exp"].as_u64().unwrap().abs_diff(expires_at.unwrap().as_secs()) <= 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_of_real_server_keep_error_codes() {
    if skipped() {
        return;
    }
    let server = TokenServer::start().await.unwrap();
    let ann = login(&server, "ann").await;
    let stranger = Identity::builder("https://idp.example", "eve").token("x".to_owned().into());
    let impostor = OAuthClient::basic("gateway", &"wrong".to_owned().into()).unwrap();
    assert_eq!(code(&server, basic("gateway"), "mail", &ann).await, "invalid_target");
    assert_eq!(code(&server, basic("gateway"), "files", &stranger.build()).await, "invalid_grant");
    assert_eq!(code(&server, impostor, "files", &ann).await, "invalid_client");
    // A client without permission to exchange.
    assert_eq!(code(&server, basic("bob"), "files", &ann).await, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_tokens_are_per_user_and_survive_outage() {
    if skipped() {
        return;
    }
    let server = TokenServer::start().await.unwrap();
    let (ann, bob) = (login(&server, "ann").await, login(&server, "bob").await);
    let late = login(&server, "bob").await;
    let cached =
        CachedExchange::new(exchanging(&server, basic("gateway"), "files"), Clock::system());
    let echo = service_fn(|request: Request<()>| async move {
        let header = &request.headers()["authorization"];
        Ok::<_, Infallible>(Response::new(header.to_str().unwrap().to_owned()))
    });
    let service = TokenExchangeLayer::new(cached.clone()).layer(echo);
    let call = |who: &Identity| {
        let mut request = Request::new(());
        request.extensions_mut().insert(Caller::User(who.clone()));
        service.clone().oneshot(request)
    };
    let interleaved = || async {
        let calls = [(&ann, "ann"), (&bob, "bob")].repeat(50);
        let calls = calls.into_iter().map(|(who, name)| {
            let response = call(who);
            async move { (response.await, name) }
        });
        for (response, name) in futures_util::future::join_all(calls).await {
            assert_eq!(claims(response.unwrap().body())["exchanged_for"], name);
        }
    };
    interleaved().await;
    assert_eq!(cached.len(), 2);
    server.kill().await.unwrap();
    interleaved().await;
    let error = call(&late).await.unwrap_err();
    let error = cause_ref::<CredentialError>(error.as_ref()).unwrap();
    assert!(matches!(error.kind, CredentialErrorKind::Unavailable { .. }), "{error}");
}
