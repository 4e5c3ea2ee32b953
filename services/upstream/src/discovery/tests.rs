use serde_json::{Value, json};

use super::*;
use crate::testing::{Fake, ISSUER, clock, endpoint};

const OPENID: &str = "/.well-known/openid-configuration";
const OAUTH: &str = "/.well-known/oauth-authorization-server";

fn discovery(fake: &Fake, clock: &Clock) -> Discovery {
    of(fake, clock, &Issuer::new(ISSUER).unwrap())
}

fn of(fake: &Fake, clock: &Clock, issuer: &Issuer) -> Discovery {
    let webs =
        Webs { configured: Web::new(fake.client(false)), supplied: Web::new(fake.client(true)) };
    Discovery::of(issuer, webs, clock.clone())
}

async fn fault(metadata: Value) -> Fault {
    let fake = Fake::new();
    fake.state().metadata = metadata;
    discovery(&fake, &clock()).get().await.map(|_| ()).unwrap_err()
}

fn at(outage: Outage) -> Fault {
    Fault::at(Place::Discovery, outage)
}

#[tokio::test(start_paused = true)]
async fn metadata_of_another_issuer_is_refused() {
    for other in ["https://id.example/", "https://ID.example", "https://evil.example"] {
        assert!(matches!(fault(json!({"issuer": other})).await, Fault::Misfit(_)), "{other}");
    }
    assert_eq!(fault(json!({"issuer": null})).await, at(Outage::Malformed));
}

#[tokio::test(start_paused = true)]
async fn what_metadata_names_is_https() {
    for name in ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"] {
        for url in ["http://id.example/x", "http://127.0.0.1/x"] {
            assert!(matches!(fault(json!({name: url})).await, Fault::Misfit(_)), "{name} {url}");
        }
        for url in ["javascript:alert(1)", "/x", "https://u:p@id.example/", ""] {
            assert_eq!(fault(json!({name: url})).await, at(Outage::Malformed), "{name} {url}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_issuer_on_this_machine_may_name_others_on_it() {
    let fake = Fake::new();
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
async fn the_next_place_is_asked_where_nothing_is_at_the_first() {
    let fake = Fake::new();
    let document = json!({"issuer": ISSUER, "token_endpoint": "https://id.example/token"});
    fake.odd(OPENID, 404, "text/html", "nothing");
    fake.odd(OAUTH, 200, "application/json", &document.to_string());
    let metadata = discovery(&fake, &clock()).get().await.ok().unwrap();
    assert_eq!(metadata.token, Some(endpoint("https://id.example/token")));
    fake.odd(OPENID, 503, "text/html", "later");
    let refused = discovery(&fake, &clock()).get().await.map(|_| ()).unwrap_err();
    assert_eq!(refused, at(Outage::Status(503)));
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_told_from_silence() {
    let fake = Fake::new();
    let refused = || async { discovery(&fake, &clock()).get().await.map(|_| ()).unwrap_err() };
    for (status, kind, body, outage) in [
        (200, "text/html", "<h1>".to_owned(), Outage::NotJson),
        (200, "application/json", "[]".to_owned(), Outage::Malformed),
        (200, "application/json", " ".repeat(1024 * 1024 + 1), Outage::TooLarge),
        (302, "text/html", String::new(), Outage::Redirects),
        (404, "text/html", String::new(), Outage::Status(404)),
    ] {
        fake.odd(OPENID, status, kind, &body);
        assert_eq!(refused().await, at(outage));
    }
    fake.state().silent.push(OPENID);
    assert_eq!(refused().await, at(Outage::Slow));
}

#[tokio::test(start_paused = true)]
async fn it_is_fetched_once_for_all_and_again_after_an_hour() {
    let (fake, clock) = (Fake::new(), clock());
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
async fn older_metadata_serves_while_no_newer_can_be_had_for_a_day() {
    let (fake, clock) = (Fake::new(), clock());
    let discovery = discovery(&fake, &clock);
    assert!(discovery.get().await.is_ok());
    fake.odd(OPENID, 500, "text/html", "");
    clock.advance(FRESH);
    for _ in 0..10 {
        assert!(discovery.get().await.is_ok());
    }
    assert_eq!(fake.asked(OPENID).len(), 2, "a failed fetch is not repeated at once");
    clock.advance(PATIENT_RETRY);
    assert!(discovery.get().await.is_ok());
    assert_eq!(fake.asked(OPENID).len(), 3);
    clock.advance(LAST);
    assert!(discovery.get().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_repeated_after_a_while() {
    let (fake, clock) = (Fake::new(), clock());
    let discovery = discovery(&fake, &clock);
    fake.odd(OPENID, 500, "text/html", "");
    for _ in 0..10 {
        assert!(discovery.get().await.is_err());
    }
    assert_eq!(fake.asked(OPENID).len(), 1);
    fake.state().odd.clear();
    clock.advance(RETRY);
    assert!(discovery.get().await.is_ok());
}

async fn keys_of(discovery: &Discovery) -> Result<Arc<vmcp_jwt::KeySet>, vmcp_jwt::KeysError> {
    let metadata = discovery.get().await.ok().unwrap();
    let (_, keys) = metadata.keys.clone().unwrap();
    vmcp_jwt::KeySource::load(&keys, None).await
}

#[tokio::test(start_paused = true)]
async fn keys_outlive_the_metadata_that_named_them_unless_newer_names_others() {
    let (fake, clock) = (Fake::new(), clock());
    let discovery = discovery(&fake, &clock);
    assert!(keys_of(&discovery).await.is_ok());
    fake.odd("/keys", 503, "text/html", "");
    clock.advance(FRESH);
    assert!(keys_of(&discovery).await.is_ok(), "the older ones");
    fake.state().metadata = json!({"jwks_uri": "https://elsewhere.example/keys"});
    clock.advance(FRESH);
    assert!(keys_of(&discovery).await.is_err());
    let asked = fake.asked("/keys");
    assert!(!asked[1].supplied, "at the issuer's own origin");
    assert!(asked[2].supplied, "where only the metadata says");
}
