use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use vmcp_core::{Body, BoxError};

use super::*;
use crate::testing::{AUDIENCE, ISSUER, claims, now, set};
use crate::{TokenError, ValidationOptions, VerifiedToken, Verifier, VerifyError};
use vmcp_test_support::SigningKey;

type Client = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// Fake issuer with configurable responses.
#[derive(Clone, Default)]
struct FakeIssuer(Arc<State>);

#[derive(Default)]
struct State {
    answers: Mutex<HashMap<String, (u16, String)>>,
    delay: Mutex<Duration>,
    down: AtomicBool,
    requests: AtomicUsize,
}

impl FakeIssuer {
    fn respond(&self, url: &str, status: u16, body: impl Into<String>) {
        self.0.answers.lock().unwrap().insert(url.into(), (status, body.into()));
    }

    fn publish(&self, keys: &[Value]) {
        self.respond("https://id.example/keys", 200, set(keys));
    }

    fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    fn client(&self) -> Client {
        let this = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Body>| {
            let state = Arc::clone(&this.0);
            async move {
                state.requests.fetch_add(1, Ordering::Relaxed);
                let delay = *state.delay.lock().unwrap();
                tokio::time::sleep(delay).await;
                if state.down.load(Ordering::Relaxed) {
                    return Err(BoxError::from("connection refused"));
                }
                let answers = state.answers.lock().unwrap();
                let result = answers.get(&request.uri().to_string()).cloned();
                let (status, body) = result.unwrap_or((404, String::new()));
                let mut response = Response::new(Body::from(Bytes::from(body)));
                *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
                Ok(response)
            }
        }))
    }
}

fn unreachable_client() -> Client {
    let refuse =
        |_: Request<Body>| async { Err::<Response<Body>, BoxError>("not this way".into()) };
    BoxCloneSyncService::new(tower::service_fn(refuse))
}

struct Fixture {
    fake: FakeIssuer,
    clock: Clock,
    verifier: Arc<Verifier<JwksSource>>,
}

fn fixture() -> Fixture {
    let (fake, clock) = (FakeIssuer::default(), Clock::manual(now()));
    let keys =
        JwksSource::from_url("https://id.example/keys", fake.client(), clock.clone()).unwrap();
    let rules = ValidationOptions::new(ISSUER, AUDIENCE).leeway(Duration::from_hours(2400));
    let verifier = Arc::new(Verifier::new(keys, rules).clock(clock.clone()));
    Fixture { fake, clock, verifier }
}

impl Fixture {
    async fn verify(&self, pair: &SigningKey, kid: &str) -> Result<VerifiedToken, VerifyError> {
        self.verifier.verify(&pair.sign_as("EdDSA", kid, &claims())).await
    }

    async fn wait_for_refresh(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_tokens_cause_one_fetch() {
    let (fixture, pair) = (fixture(), SigningKey::ed25519());
    fixture.fake.publish(&[pair.jwk("1")]);
    *fixture.fake.0.delay.lock().unwrap() = Duration::from_secs(1);
    let token = pair.sign_as("EdDSA", "1", &claims());
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let (verifier, token) = (Arc::clone(&fixture.verifier), token.clone());
            tokio::spawn(async move { verifier.verify(&token).await })
        })
        .collect();
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    assert_eq!(fixture.fake.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_key_causes_one_fetch() {
    let (fixture, old, new) = (fixture(), SigningKey::ed25519(), SigningKey::ed25519());
    fixture.fake.publish(&[old.jwk("1")]);
    assert!(fixture.verify(&old, "1").await.is_ok());
    fixture.fake.publish(&[new.jwk("2"), old.jwk("1")]);
    *fixture.fake.0.delay.lock().unwrap() = Duration::from_secs(1);
    let token = new.sign_as("EdDSA", "2", &claims());
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let (verifier, token) = (Arc::clone(&fixture.verifier), token.clone());
            tokio::spawn(async move { verifier.verify(&token).await })
        })
        .collect();
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    assert!(fixture.verify(&old, "1").await.is_ok());
    assert_eq!(fixture.fake.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn forged_tokens_cause_few_fetches() {
    let (fixture, pair) = (fixture(), SigningKey::ed25519());
    fixture.fake.publish(&[pair.jwk("1")]);
    assert!(fixture.verify(&pair, "1").await.is_ok());
    let foreign = json!({"iss": "https://evil.example", "aud": AUDIENCE, "sub": "a", "exp": 1});
    let foreign = pair.sign_as("EdDSA", "9", &foreign);
    let refused = fixture.verifier.verify(&foreign).await;
    assert_eq!((refused.unwrap_err(), fixture.fake.requests()), (TokenError::Issuer.into(), 1));
    for attempt in 0..100 {
        let refused = fixture.verify(&pair, &format!("made-up-{attempt}")).await;
        assert_eq!(refused.unwrap_err(), TokenError::UnknownKey.into());
    }
    assert_eq!(fixture.fake.requests(), 2);
    fixture.clock.advance(UNKNOWN_KEY_INTERVAL);
    assert!(fixture.verify(&pair, "made-up").await.is_err());
    assert_eq!(fixture.fake.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn refreshes_keys_in_background() {
    let (fixture, old, new) = (fixture(), SigningKey::ed25519(), SigningKey::ed25519());
    fixture.fake.publish(&[old.jwk("1")]);
    assert!(fixture.verify(&old, "1").await.is_ok());
    fixture.fake.publish(&[new.jwk("2")]);
    fixture.clock.advance(Duration::from_secs(500));
    // The refresh runs in the background.
    *fixture.fake.0.delay.lock().unwrap() = Duration::from_secs(1);
    assert!(fixture.verify(&old, "1").await.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    fixture.wait_for_refresh().await;
    assert_eq!(fixture.fake.requests(), 2);
    // The removed key is rejected.
    let refused = fixture.verify(&old, "1").await;
    assert_eq!(refused.unwrap_err(), TokenError::UnknownKey.into());
    assert!(fixture.verify(&new, "2").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn issuer_outage_fails_only_new_keys() {
    let (fixture, pair) = (fixture(), SigningKey::ed25519());
    fixture.fake.publish(&[pair.jwk("1")]);
    assert!(fixture.verify(&pair, "1").await.is_ok());
    fixture.fake.0.down.store(true, Ordering::Relaxed);
    let refused = fixture.verify(&SigningKey::ed25519(), "2").await;
    assert_eq!(refused.unwrap_err(), KeySourceError::Unreachable.into());
    for _ in 0..24 {
        assert!(fixture.verify(&pair, "1").await.is_ok());
        fixture.wait_for_refresh().await;
        fixture.clock.advance(Duration::from_secs(3599));
    }
    fixture.clock.advance(Duration::from_hours(1));
    let refused = fixture.verify(&pair, "1").await;
    assert_eq!(refused.unwrap_err(), KeySourceError::Unreachable.into());
    fixture.fake.0.down.store(false, Ordering::Relaxed);
    fixture.clock.advance(RETRY_INTERVAL);
    assert!(fixture.verify(&pair, "1").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn backs_off_after_failed_fetch() {
    let (fixture, pair) = (fixture(), SigningKey::ed25519());
    fixture.fake.0.down.store(true, Ordering::Relaxed);
    for _ in 0..100 {
        let refused = fixture.verify(&pair, "1").await;
        assert_eq!(refused.unwrap_err(), KeySourceError::Unreachable.into());
    }
    assert_eq!(fixture.fake.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn invalid_key_sets_keep_cached_keys() {
    let pair = SigningKey::ed25519();
    let huge = format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(5 * 1024 * 1024));
    for (status, body, error) in [
        (200, set(&[]), KeySourceError::NoUsableKey),
        (200, "<html></html>".into(), KeySourceError::Malformed),
        (200, huge, KeySourceError::TooLarge),
        (302, String::new(), KeySourceError::Status(302)),
        (500, set(&[pair.jwk("2")]), KeySourceError::Status(500)),
    ] {
        let fixture = fixture();
        fixture.fake.respond("https://id.example/keys", status, body.clone());
        assert_eq!(fixture.verify(&pair, "1").await.unwrap_err(), error.into());
        fixture.clock.advance(RETRY_INTERVAL);
        fixture.fake.publish(&[pair.jwk("1")]);
        assert!(fixture.verify(&pair, "1").await.is_ok());
        fixture.clock.advance(Duration::from_hours(2));
        fixture.fake.respond("https://id.example/keys", status, body);
        assert!(fixture.verify(&pair, "1").await.is_ok(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_times_out_after_five_seconds() {
    let (fixture, pair) = (fixture(), SigningKey::ed25519());
    *fixture.fake.0.delay.lock().unwrap() = Duration::from_hours(1);
    let began = tokio::time::Instant::now();
    assert_eq!(fixture.verify(&pair, "1").await.unwrap_err(), KeySourceError::TooSlow.into());
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn discovery_times_out_after_ten_seconds() {
    let fake = FakeIssuer::default();
    *fake.0.delay.lock().unwrap() = Duration::from_secs(4);
    let began = tokio::time::Instant::now();
    assert_eq!(load(&fake, unreachable_client()).await.unwrap_err(), KeySourceError::TooSlow);
    assert_eq!(began.elapsed().as_secs(), 10);
}

fn metadata(issuer: &str, keys: &str) -> String {
    json!({"issuer": issuer, "jwks_uri": keys}).to_string()
}

async fn load(configured: &FakeIssuer, supplied: Client) -> Result<Arc<KeySet>, KeySourceError> {
    let clock = Clock::manual(now());
    let source = JwksSource::discover(ISSUER, configured.client(), supplied, clock).unwrap();
    source.load(None).await
}

#[tokio::test(start_paused = true)]
async fn discovers_keys_at_each_metadata_url() {
    for location in [
        "https://id.example/t1/.well-known/openid-configuration",
        "https://id.example/.well-known/oauth-authorization-server/t1",
        "https://id.example/.well-known/openid-configuration/t1",
    ] {
        let fake = FakeIssuer::default();
        fake.publish(&[SigningKey::ed25519().jwk("1")]);
        fake.respond(location, 200, metadata(ISSUER, "https://id.example/keys"));
        assert!(load(&fake, unreachable_client()).await.is_ok(), "{location}");
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_metadata_of_other_issuer() {
    let fake = FakeIssuer::default();
    fake.publish(&[SigningKey::ed25519().jwk("1")]);
    let location = "https://id.example/t1/.well-known/openid-configuration";
    fake.respond(location, 200, metadata("https://id.example/t2", "https://id.example/keys"));
    let log = vmcp_test_support::LogCapture::current_thread();
    assert_eq!(load(&fake, unreachable_client()).await.unwrap_err(), KeySourceError::WrongIssuer);
    let names = "configured=\"https://id.example/t1\" found=\"https://id.example/t2\"";
    assert!(log.text().contains(names), "{}", log.text());
    assert!(log.text().contains("host=\"id.example\""), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn uses_supplied_client_for_other_origins() {
    let (is_same_origin, away) = (FakeIssuer::default(), FakeIssuer::default());
    let location = "https://id.example/t1/.well-known/openid-configuration";
    is_same_origin.respond(location, 200, metadata(ISSUER, "https://169.254.169.254/keys"));
    assert_eq!(
        load(&is_same_origin, unreachable_client()).await.unwrap_err(),
        KeySourceError::Unreachable
    );
    is_same_origin.respond(location, 200, metadata(ISSUER, "https://keys.example/keys"));
    away.respond("https://keys.example/keys", 200, set(&[SigningKey::ed25519().jwk("1")]));
    assert!(load(&is_same_origin, away.client()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn rediscovers_moved_keys() {
    let (fake, clock, pair) = (FakeIssuer::default(), Clock::manual(now()), SigningKey::ed25519());
    let location = "https://id.example/t1/.well-known/openid-configuration";
    fake.respond(location, 200, metadata(ISSUER, "https://id.example/keys"));
    fake.publish(&[pair.jwk("1")]);
    let source =
        JwksSource::discover(ISSUER, fake.client(), unreachable_client(), clock.clone()).unwrap();
    let first = source.load(None).await.unwrap();
    fake.respond("https://id.example/keys", 404, "");
    fake.respond("https://id.example/keys2", 200, set(&[pair.jwk("2")]));
    fake.respond(location, 200, metadata(ISSUER, "https://id.example/keys2"));
    assert!(source.load(Some(Arc::clone(&first))).await.is_err());
    clock.advance(UNKNOWN_KEY_INTERVAL);
    assert_eq!(source.load(Some(first)).await.unwrap().keys()[0].kid(), Some("2"));
}

#[test]
fn rejects_invalid_source_urls() {
    let ready = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    for url in ["/keys", "ftp://id.example/keys", "https://u:p@id.example/keys"] {
        assert!(JwksSource::from_url(url, ready, Clock::system()).is_err(), "{url}");
    }
}
