use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use vmcp_core::{Body, BoxError};
use vmcp_jwt::{Rules, TokenFault, Verified, Verifier, VerifyError};

use super::*;
use crate::testing::{AUDIENCE, ISSUER, Pair, claims, now, set};

type Client = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// An issuer that answers what a test puts there, after a while.
#[derive(Clone, Default)]
struct Fake(Arc<State>);

#[derive(Default)]
struct State {
    answers: Mutex<HashMap<String, (u16, String)>>,
    delay: Mutex<Duration>,
    down: AtomicBool,
    asked: AtomicUsize,
}

impl Fake {
    fn put(&self, url: &str, status: u16, body: impl Into<String>) {
        self.0.answers.lock().unwrap().insert(url.into(), (status, body.into()));
    }

    fn keys(&self, keys: &[Value]) {
        self.put("https://id.example/keys", 200, set(keys));
    }

    fn asked(&self) -> usize {
        self.0.asked.load(Ordering::Relaxed)
    }

    fn client(&self) -> Client {
        let this = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Body>| {
            let state = Arc::clone(&this.0);
            async move {
                state.asked.fetch_add(1, Ordering::Relaxed);
                let delay = *state.delay.lock().unwrap();
                tokio::time::sleep(delay).await;
                if state.down.load(Ordering::Relaxed) {
                    return Err(BoxError::from("connection refused"));
                }
                let answers = state.answers.lock().unwrap();
                let answer = answers.get(&request.uri().to_string()).cloned();
                let (status, body) = answer.unwrap_or((404, String::new()));
                let mut response = Response::new(Body::from(Bytes::from(body)));
                *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
                Ok(response)
            }
        }))
    }
}

fn nobody() -> Client {
    let refuse =
        |_: Request<Body>| async { Err::<Response<Body>, BoxError>("not this way".into()) };
    BoxCloneSyncService::new(tower::service_fn(refuse))
}

struct Scene {
    fake: Fake,
    clock: Clock,
    verifier: Arc<Verifier<JwksSource>>,
}

fn scene() -> Scene {
    let (fake, clock) = (Fake::default(), Clock::manual(now()));
    let keys = JwksSource::at("https://id.example/keys", fake.client(), clock.clone()).unwrap();
    let rules = Rules::new(ISSUER, AUDIENCE).leeway(Duration::from_secs(100 * 24 * 3600));
    let verifier = Arc::new(Verifier::new(keys, rules).clock(clock.clone()));
    Scene { fake, clock, verifier }
}

impl Scene {
    async fn verify(&self, pair: &Pair, kid: &str) -> Result<Verified, VerifyError> {
        self.verifier.verify(&pair.sign(kid, &claims())).await
    }

    async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_first_tokens_cause_one_fetch() {
    let (scene, pair) = (scene(), Pair::ed());
    scene.fake.keys(&[pair.jwk("1")]);
    *scene.fake.0.delay.lock().unwrap() = Duration::from_secs(1);
    let token = pair.sign("1", &claims());
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let (verifier, token) = (Arc::clone(&scene.verifier), token.clone());
            tokio::spawn(async move { verifier.verify(&token).await })
        })
        .collect();
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    assert_eq!(scene.fake.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_picked_up_with_one_fetch_for_a_thousand_tokens() {
    let (scene, old, new) = (scene(), Pair::ed(), Pair::ed());
    scene.fake.keys(&[old.jwk("1")]);
    assert!(scene.verify(&old, "1").await.is_ok());
    scene.fake.keys(&[new.jwk("2"), old.jwk("1")]);
    *scene.fake.0.delay.lock().unwrap() = Duration::from_secs(1);
    let token = new.sign("2", &claims());
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let (verifier, token) = (Arc::clone(&scene.verifier), token.clone());
            tokio::spawn(async move { verifier.verify(&token).await })
        })
        .collect();
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    assert!(scene.verify(&old, "1").await.is_ok());
    assert_eq!(scene.fake.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn made_up_keys_cause_few_fetches_and_made_up_claims_none() {
    let (scene, pair) = (scene(), Pair::ed());
    scene.fake.keys(&[pair.jwk("1")]);
    assert!(scene.verify(&pair, "1").await.is_ok());
    let foreign = json!({"iss": "https://evil.example", "aud": AUDIENCE, "sub": "a", "exp": 1});
    let foreign = pair.sign("9", &foreign);
    let refused = scene.verifier.verify(&foreign).await;
    assert_eq!((refused.unwrap_err(), scene.fake.asked()), (TokenFault::Issuer.into(), 1));
    for attempt in 0..100 {
        let refused = scene.verify(&pair, &format!("made-up-{attempt}")).await;
        assert_eq!(refused.unwrap_err(), TokenFault::UnknownKey.into());
    }
    assert_eq!(scene.fake.asked(), 2);
    scene.clock.advance(UNKNOWN);
    assert!(scene.verify(&pair, "made-up").await.is_err());
    assert_eq!(scene.fake.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_ahead_while_the_old_ones_serve() {
    let (scene, old, new) = (scene(), Pair::ed(), Pair::ed());
    scene.fake.keys(&[old.jwk("1")]);
    assert!(scene.verify(&old, "1").await.is_ok());
    scene.fake.keys(&[new.jwk("2")]);
    scene.clock.advance(Duration::from_secs(500));
    // Nobody waits for it.
    *scene.fake.0.delay.lock().unwrap() = Duration::from_secs(1);
    assert!(scene.verify(&old, "1").await.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.settle().await;
    assert_eq!(scene.fake.asked(), 2);
    // The key that was taken back is not trusted any more.
    let refused = scene.verify(&old, "1").await;
    assert_eq!(refused.unwrap_err(), TokenFault::UnknownKey.into());
    assert!(scene.verify(&new, "2").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn while_the_issuer_is_down_only_new_keys_fail() {
    let (scene, pair) = (scene(), Pair::ed());
    scene.fake.keys(&[pair.jwk("1")]);
    assert!(scene.verify(&pair, "1").await.is_ok());
    scene.fake.0.down.store(true, Ordering::Relaxed);
    let refused = scene.verify(&Pair::ed(), "2").await;
    assert_eq!(refused.unwrap_err(), KeysError::Unreachable.into());
    for _ in 0..24 {
        assert!(scene.verify(&pair, "1").await.is_ok());
        scene.settle().await;
        scene.clock.advance(Duration::from_secs(3599));
    }
    scene.clock.advance(Duration::from_secs(3600));
    let refused = scene.verify(&pair, "1").await;
    assert_eq!(refused.unwrap_err(), KeysError::Unreachable.into());
    scene.fake.0.down.store(false, Ordering::Relaxed);
    scene.clock.advance(RETRY);
    assert!(scene.verify(&pair, "1").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_not_repeated_at_once() {
    let (scene, pair) = (scene(), Pair::ed());
    scene.fake.0.down.store(true, Ordering::Relaxed);
    for _ in 0..100 {
        let refused = scene.verify(&pair, "1").await;
        assert_eq!(refused.unwrap_err(), KeysError::Unreachable.into());
    }
    assert_eq!(scene.fake.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_no_keys_leave_the_old_ones_in_use() {
    let pair = Pair::ed();
    let huge = format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(5 * 1024 * 1024));
    for (status, body, error) in [
        (200, set(&[]), KeysError::NoUsableKey),
        (200, "<html></html>".into(), KeysError::Malformed),
        (200, huge, KeysError::TooLarge),
        (302, String::new(), KeysError::Status(302)),
        (500, set(&[pair.jwk("2")]), KeysError::Status(500)),
    ] {
        let scene = scene();
        scene.fake.put("https://id.example/keys", status, body.clone());
        assert_eq!(scene.verify(&pair, "1").await.unwrap_err(), error.into());
        scene.clock.advance(RETRY);
        scene.fake.keys(&[pair.jwk("1")]);
        assert!(scene.verify(&pair, "1").await.is_ok());
        scene.clock.advance(Duration::from_secs(2 * 3600));
        scene.fake.put("https://id.example/keys", status, body);
        assert!(scene.verify(&pair, "1").await.is_ok(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_issuer_has_five_seconds() {
    let (scene, pair) = (scene(), Pair::ed());
    *scene.fake.0.delay.lock().unwrap() = Duration::from_secs(3600);
    let began = tokio::time::Instant::now();
    assert_eq!(scene.verify(&pair, "1").await.unwrap_err(), KeysError::TooSlow.into());
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn finding_the_keys_has_ten_seconds_altogether() {
    let fake = Fake::default();
    *fake.0.delay.lock().unwrap() = Duration::from_secs(4);
    let began = tokio::time::Instant::now();
    assert_eq!(load(&fake, nobody()).await.unwrap_err(), KeysError::TooSlow);
    assert_eq!(began.elapsed().as_secs(), 10);
}

fn metadata(issuer: &str, keys: &str) -> String {
    json!({"issuer": issuer, "jwks_uri": keys}).to_string()
}

async fn load(configured: &Fake, supplied: Client) -> Result<Arc<KeySet>, KeysError> {
    let clock = Clock::manual(now());
    let source = JwksSource::discovered(ISSUER, configured.client(), supplied, clock).unwrap();
    source.load(None).await
}

#[tokio::test(start_paused = true)]
async fn finds_the_keys_by_metadata_in_each_place() {
    for place in [
        "https://id.example/t1/.well-known/openid-configuration",
        "https://id.example/.well-known/oauth-authorization-server/t1",
        "https://id.example/.well-known/openid-configuration/t1",
    ] {
        let fake = Fake::default();
        fake.keys(&[Pair::ed().jwk("1")]);
        fake.put(place, 200, metadata(ISSUER, "https://id.example/keys"));
        assert!(load(&fake, nobody()).await.is_ok(), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_of_another_issuer_is_not_followed() {
    let fake = Fake::default();
    fake.keys(&[Pair::ed().jwk("1")]);
    let place = "https://id.example/t1/.well-known/openid-configuration";
    fake.put(place, 200, metadata("https://id.example/t2", "https://id.example/keys"));
    let log = vmcp_log_capture::Log::of_this_thread();
    assert_eq!(load(&fake, nobody()).await.unwrap_err(), KeysError::WrongIssuer);
    let names = "configured=\"https://id.example/t1\" found=\"https://id.example/t2\"";
    assert!(log.text().contains(names), "{}", log.text());
    assert!(log.text().contains("host=\"id.example\""), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn where_the_metadata_sends_elsewhere_the_other_client_goes() {
    let (home, away) = (Fake::default(), Fake::default());
    let place = "https://id.example/t1/.well-known/openid-configuration";
    home.put(place, 200, metadata(ISSUER, "https://169.254.169.254/keys"));
    assert_eq!(load(&home, nobody()).await.unwrap_err(), KeysError::Unreachable);
    home.put(place, 200, metadata(ISSUER, "https://keys.example/keys"));
    away.put("https://keys.example/keys", 200, set(&[Pair::ed().jwk("1")]));
    assert!(load(&home, away.client()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn keys_that_have_moved_are_found_again() {
    let (fake, clock, pair) = (Fake::default(), Clock::manual(now()), Pair::ed());
    let place = "https://id.example/t1/.well-known/openid-configuration";
    fake.put(place, 200, metadata(ISSUER, "https://id.example/keys"));
    fake.keys(&[pair.jwk("1")]);
    let source = JwksSource::discovered(ISSUER, fake.client(), nobody(), clock.clone()).unwrap();
    let first = source.load(None).await.unwrap();
    fake.put("https://id.example/keys", 404, "");
    fake.put("https://id.example/keys2", 200, set(&[pair.jwk("2")]));
    fake.put(place, 200, metadata(ISSUER, "https://id.example/keys2"));
    assert!(source.load(Some(Arc::clone(&first))).await.is_err());
    clock.advance(UNKNOWN);
    assert_eq!(source.load(Some(first)).await.unwrap().keys()[0].kid(), Some("2"));
}

#[test]
fn a_source_that_cannot_be_asked_is_refused_at_once() {
    let ready = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    for url in ["/keys", "ftp://id.example/keys", "https://u:p@id.example/keys"] {
        assert!(JwksSource::at(url, ready, Clock::system()).is_err(), "{url}");
    }
}
