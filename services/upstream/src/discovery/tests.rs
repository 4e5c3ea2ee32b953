use serde_json::{Value, json};

use super::*;
use crate::testing::{FakeProvider, ISSUER, clock, endpoint};

const OPENID: &str = "/.well-known/openid-configuration";
const OAUTH: &str = "/.well-known/oauth-authorization-server";

fn discovery(fake: &FakeProvider, clock: &Clock) -> Discovery {
    of(fake, clock, &Issuer::new(ISSUER).unwrap())
}

fn of(fake: &FakeProvider, clock: &Clock, issuer: &Issuer) -> Discovery {
    let http_clients = ProviderHttpPair {
        configured: ProviderHttp::new(fake.client(false)),
        supplied: ProviderHttp::new(fake.client(true)),
    };
    Discovery::for_issuer(issuer, http_clients, clock.clone())
}

async fn error(metadata: Value) -> ProviderError {
    let fake = FakeProvider::new();
    fake.state().metadata = metadata;
    discovery(&fake, &clock()).get().await.map(|_| ()).unwrap_err()
}

fn at(cause: EndpointError) -> ProviderError {
    ProviderError::at(EndpointKind::Discovery, cause)
}

#[tokio::test(start_paused = true)]
async fn rejects_metadata_of_other_issuer() {
    for other in ["https://id.example/", "https://ID.example", "https://evil.example"] {
        assert!(
            matches!(error(json!({"issuer": other})).await, ProviderError::ConfigMismatch(_)),
            "{other}"
        );
    }
    assert_eq!(error(json!({"issuer": null})).await, at(EndpointError::Malformed));
}

#[tokio::test(start_paused = true)]
async fn metadata_endpoints_are_https() {
    for name in ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"] {
        for url in ["http://id.example/x", "http://127.0.0.1/x"] {
            assert!(
                matches!(error(json!({name: url})).await, ProviderError::ConfigMismatch(_)),
                "{name} {url}"
            );
        }
        for url in ["javascript:alert(1)", "/x", "https://u:p@id.example/", ""] {
            assert_eq!(
                error(json!({name: url})).await,
                at(EndpointError::Malformed),
                "{name} {url}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn loopback_issuer_may_name_loopback_endpoints() {
    let fake = FakeProvider::new();
    let metadata = |token: &str| {
        json!({"issuer": "http://127.0.0.1:9", "token_endpoint": token,
            "authorization_endpoint": null, "userinfo_endpoint": null, "jwks_uri": null})
    };
    let issuer = Issuer::new("http://127.0.0.1:9").unwrap();
    for (token, fine) in [
        ("http://127.0.0.1:9/token", true),
        ("http://localhost:10/token", true),
        ("https://id.example/token", true),
        ("http://id.example/token", false),
    ] {
        fake.state().metadata = metadata(token);
        assert_eq!(of(&fake, &clock(), &issuer).get().await.is_ok(), fine, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn tries_the_next_metadata_url() {
    let fake = FakeProvider::new();
    let document = json!({"issuer": ISSUER, "token_endpoint": "https://id.example/token"});
    fake.odd(OPENID, 404, "text/html", "nothing");
    fake.odd(OAUTH, 200, "application/json", &document.to_string());
    let metadata = discovery(&fake, &clock()).get().await.ok().unwrap();
    assert_eq!(metadata.token, Some(endpoint("https://id.example/token")));
    fake.odd(OPENID, 503, "text/html", "later");
    let refused = discovery(&fake, &clock()).get().await.map(|_| ()).unwrap_err();
    assert_eq!(refused, at(EndpointError::Status(503)));
}

#[tokio::test(start_paused = true)]
async fn distinguishes_malformed_from_missing_responses() {
    let fake = FakeProvider::new();
    let refused = || async { discovery(&fake, &clock()).get().await.map(|_| ()).unwrap_err() };
    for (status, kind, body, cause) in [
        (200, "text/html", "<h1>".to_owned(), EndpointError::NotJson),
        (200, "application/json", "[]".to_owned(), EndpointError::Malformed),
        (200, "application/json", " ".repeat(1024 * 1024 + 1), EndpointError::TooLarge),
        (302, "text/html", String::new(), EndpointError::Redirected),
        (404, "text/html", String::new(), EndpointError::Status(404)),
    ] {
        fake.odd(OPENID, status, kind, &body);
        assert_eq!(refused().await, at(cause));
    }
    fake.state().silent.push(OPENID);
    assert_eq!(refused().await, at(EndpointError::Timeout));
}

#[tokio::test(start_paused = true)]
async fn metadata_is_cached_for_an_hour() {
    let (fake, clock) = (FakeProvider::new(), clock());
    let discovery = discovery(&fake, &clock);
    let all = futures_util::future::join_all((0..100).map(|_| discovery.get())).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(fake.asked(OPENID).len(), 1);
    clock.advance(Duration::from_secs(3599));
    assert!(discovery.get().await.is_ok());
    assert_eq!(fake.asked(OPENID).len(), 1);
    clock.advance(Duration::from_secs(1));
    assert!(discovery.get().await.is_ok());
    assert_eq!(fake.asked(OPENID).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn stale_metadata_is_used_for_a_day() {
    let (fake, clock) = (FakeProvider::new(), clock());
    let discovery = discovery(&fake, &clock);
    assert!(discovery.get().await.is_ok());
    fake.odd(OPENID, 500, "text/html", "");
    clock.advance(METADATA_TTL);
    for _ in 0..10 {
        assert!(discovery.get().await.is_ok());
    }
    assert_eq!(fake.asked(OPENID).len(), 2, "a failed fetch is not repeated at once");
    clock.advance(STALE_RETRY_INTERVAL);
    assert!(discovery.get().await.is_ok());
    assert_eq!(fake.asked(OPENID).len(), 3);
    clock.advance(STALE_METADATA_TTL);
    assert!(discovery.get().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn failed_fetch_is_retried_after_a_pause() {
    let (fake, clock) = (FakeProvider::new(), clock());
    let discovery = discovery(&fake, &clock);
    fake.odd(OPENID, 500, "text/html", "");
    for _ in 0..10 {
        assert!(discovery.get().await.is_err());
    }
    assert_eq!(fake.asked(OPENID).len(), 1);
    fake.state().odd.clear();
    clock.advance(RETRY_INTERVAL);
    assert!(discovery.get().await.is_ok());
}

async fn keys_of(discovery: &Discovery) -> Result<Arc<vmcp_jwt::KeySet>, vmcp_jwt::KeySourceError> {
    let metadata = discovery.get().await.ok().unwrap();
    let (_, keys) = metadata.keys.clone().unwrap();
    vmcp_jwt::KeySource::load(&keys, None).await
}

#[tokio::test(start_paused = true)]
async fn keys_are_kept_while_their_url_is_unchanged() {
    let (fake, clock) = (FakeProvider::new(), clock());
    let discovery = discovery(&fake, &clock);
    assert!(keys_of(&discovery).await.is_ok());
    fake.odd("/keys", 503, "text/html", "");
    clock.advance(METADATA_TTL);
    assert!(keys_of(&discovery).await.is_ok(), "the older ones");
    fake.state().metadata = json!({"jwks_uri": "https://elsewhere.example/keys"});
    clock.advance(METADATA_TTL);
    assert!(keys_of(&discovery).await.is_err());
    let asked = fake.asked("/keys");
    assert!(!asked[1].supplied, "at the issuer's own origin");
    assert!(asked[2].supplied, "where only the metadata says");
}
