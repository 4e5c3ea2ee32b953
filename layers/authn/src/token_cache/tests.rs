use std::future::ready;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use vmcp_jwt::{KeySet, Verifier};

use super::*;
use crate::testing::{claims, clock, jwt, keys, rules, token};
use crate::{AuthError, JwtVerifier};

/// Verifier that takes a second and counts its calls.
struct SlowVerifier {
    asked: AtomicUsize,
    result: Mutex<Result<Identity, AuthError>>,
}

impl SlowVerifier {
    fn new(result: Result<Identity, AuthError>) -> Arc<Self> {
        Arc::new(Self { asked: AtomicUsize::new(0), result: Mutex::new(result) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl TokenVerifier for SlowVerifier {
    fn verify<'a>(&'a self, _: &'a str) -> AuthenticationFuture<'a> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.result.lock().unwrap().clone()
        })
    }
}

/// Verifier whose keys change during the verification.
struct ChangingKeys(AtomicUsize);

impl TokenVerifier for ChangingKeys {
    fn verify<'a>(&'a self, _: &'a str) -> AuthenticationFuture<'a> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(alice())
        })
    }

    fn epoch(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64
    }
}

/// Verifier that accepts every token as alice's.
struct AcceptAll;

impl TokenVerifier for AcceptAll {
    fn verify<'a>(&'a self, _: &'a str) -> AuthenticationFuture<'a> {
        Box::pin(ready(Ok(alice())))
    }
}

fn alice() -> Identity {
    Identity::new("https://id.example", "alice")
}

async fn verify<I: TokenVerifier>(
    cached: &CachedVerifier<I>,
    token: &str,
) -> Result<Identity, AuthError> {
    match cached.try_now(token) {
        Some(result) => result,
        None => cached.verify(token).await,
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_with_new_token_verify_once() {
    let slow = SlowVerifier::new(Ok(alice()));
    let cached = Arc::new(CachedVerifier::introspected(Arc::clone(&slow), clock()));
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let cached = Arc::clone(&cached);
            tokio::spawn(async move { verify(&cached, "opaque").await })
        })
        .collect();
    for one in waiting {
        assert_eq!(one.await.unwrap(), Ok(alice()));
    }
    assert_eq!((slow.asked(), cached.len()), (1, 1));
    assert!(verify(&cached, "another").await.is_ok());
    assert_eq!(slow.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn skips_caching_if_keys_changed_meanwhile() {
    let cached = CachedVerifier::introspected(ChangingKeys(AtomicUsize::new(0)), clock());
    assert!(verify(&cached, "opaque").await.is_ok());
    assert!(cached.is_empty());
}

#[tokio::test(start_paused = true)]
async fn caches_results_for_configured_time() {
    let (slow, clock) = (SlowVerifier::new(Ok(alice())), clock());
    let cached = CachedVerifier::introspected(Arc::clone(&slow), clock.clone());
    for (wait, asked) in [(0, 1), (59, 1), (1, 2)] {
        clock.advance(Duration::from_secs(wait));
        assert!(verify(&cached, "opaque").await.is_ok());
        assert_eq!(slow.asked(), asked, "after {wait} s");
    }
}

#[tokio::test(start_paused = true)]
async fn never_caches_beyond_token_expiry() {
    let clock = clock();
    let soon = Identity::builder("i", "s").expires_at(clock.now() + Duration::from_secs(10));
    let slow = SlowVerifier::new(Ok(soon.build()));
    let cached = CachedVerifier::introspected(Arc::clone(&slow), clock.clone());
    for (wait, asked) in [(0, 1), (9, 1), (1, 2)] {
        clock.advance(Duration::from_secs(wait));
        assert!(verify(&cached, "opaque").await.is_ok());
        assert_eq!(slow.asked(), asked, "after {wait} s");
    }
}

#[tokio::test(start_paused = true)]
async fn caches_rejections_briefly_but_not_outages() {
    let (slow, clock) = (SlowVerifier::new(Err(AuthError::InvalidToken("no".into()))), clock());
    let cached = CachedVerifier::introspected(Arc::clone(&slow), clock.clone());
    for (wait, asked) in [(0, 1), (4, 1), (1, 2)] {
        clock.advance(Duration::from_secs(wait));
        assert!(verify(&cached, "opaque").await.is_err());
        assert_eq!(slow.asked(), asked, "after {wait} s");
    }
    *slow.result.lock().unwrap() = Err(AuthError::unavailable());
    for asked in [3, 4] {
        assert_eq!(verify(&cached, "another").await, Err(AuthError::unavailable()));
        assert_eq!(slow.asked(), asked);
    }
}

#[tokio::test]
async fn rejects_cached_token_after_key_removal() {
    let current = Arc::new(Mutex::new(keys("1")));
    let source = {
        let current = Arc::clone(&current);
        move || Arc::<KeySet>::clone(&current.lock().unwrap())
    };
    let clock = clock();
    let verifier = Verifier::new(source, rules()).clock(clock.clone());
    let cached = CachedVerifier::verified(JwtVerifier::new(verifier), clock);
    let token = token(&claims(&json!({})));
    assert!(verify(&cached, &token).await.is_ok());
    assert!(verify(&cached, &token).await.is_ok());
    assert_eq!(cached.len(), 1);
    *current.lock().unwrap() = keys("2");
    assert!(matches!(verify(&cached, &token).await, Err(AuthError::InvalidToken(_))));
}

#[tokio::test]
async fn cached_token_expires() {
    let clock = clock();
    let cached = CachedVerifier::verified(jwt(&clock), clock.clone());
    let token = token(&claims(&json!({"exp": crate::testing::NOW + 100})));
    assert!(verify(&cached, &token).await.is_ok());
    assert!(verify(&cached, &token).await.is_ok());
    clock.advance(Duration::from_secs(131));
    assert!(matches!(verify(&cached, &token).await, Err(AuthError::InvalidToken(_))));
}

#[tokio::test(start_paused = true)]
async fn caches_verified_token_at_second_use() {
    let slow = SlowVerifier::new(Ok(alice()));
    let cached = CachedVerifier::verified(Arc::clone(&slow), clock());
    for (token, asked, remembered) in
        [("a", 1, 0), ("b", 2, 0), ("a", 3, 1), ("a", 3, 1), ("c", 4, 1), ("b", 5, 2), ("b", 5, 2)]
    {
        assert!(verify(&cached, token).await.is_ok());
        assert_eq!((slow.asked(), cached.len()), (asked, remembered), "{token}");
    }
}

#[tokio::test]
async fn bounds_number_of_cached_tokens() {
    let cached = CachedVerifier::new(AcceptAll, clock(), VERIFIED_TTL, None, 64);
    for token in 0..1000 {
        assert!(verify(&cached, &token.to_string()).await.is_ok());
    }
    assert!(cached.len() <= 64, "{}", cached.len());
}

/// Verifier for sessions that can end, with the token as subject; counts its calls.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>);

struct Session(Sessions, String);

impl vmcp_core::SessionRevocation for Session {
    fn revoked(&self) -> vmcp_core::RevocationFuture {
        Box::pin(std::future::pending())
    }

    fn is_revoked(&self) -> bool {
        self.0.is_revoked(&self.1)
    }
}

impl Sessions {
    fn is_revoked(&self, name: &str) -> bool {
        self.0.lock().unwrap().iter().any(|ended| ended == name)
    }

    fn end(&self, name: &str) {
        self.0.lock().unwrap().push(name.to_owned());
    }

    fn inspected(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl TokenVerifier for Sessions {
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        if self.is_revoked(token) {
            return Some(Err(AuthError::InvalidToken("the session ended".into())));
        }
        let revocation = Arc::new(Session(self.clone(), token.to_owned()));
        Some(Ok(Identity::builder("https://id.example", token).revocation(revocation).build()))
    }

    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        Box::pin(ready(self.try_now(token).unwrap()))
    }
}

#[tokio::test]
async fn ended_session_invalidates_only_its_token() {
    let (sessions, clock) = (Sessions::default(), clock());
    let cached = CachedVerifier::verified(Arc::new(sessions.clone()), clock.clone());
    for name in 0..500 {
        // The first use is not cached.
        for _ in 0..2 {
            assert!(verify(&cached, &name.to_string()).await.is_ok());
        }
    }
    assert_eq!(sessions.inspected(), 1000);
    for name in 0..499 {
        sessions.end(&name.to_string());
        assert!(verify(&cached, "499").await.is_ok());
    }
    assert_eq!(sessions.inspected(), 1000, "what ended elsewhere costs nobody anything");
    for name in 0..499 {
        assert!(verify(&cached, &name.to_string()).await.is_err(), "{name}");
    }
    let inspected = sessions.inspected();
    sessions.end("499");
    assert!(verify(&cached, "499").await.is_err());
    assert_eq!(sessions.inspected(), inspected + 1);
}

/// Returns a clock that follows the test's paused time.
fn ticking() -> Clock {
    let clock = clock();
    let moved = clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            moved.advance(Duration::from_secs(1));
        }
    });
    clock
}

#[tokio::test(start_paused = true)]
async fn ends_streams_after_introspection_rejects_token() {
    let slow = SlowVerifier::new(Ok(alice()));
    let cached = Arc::new(CachedVerifier::introspected(Arc::clone(&slow), ticking()));
    let caller = verify(&*cached, "token").await.unwrap();
    assert_eq!(caller.expires_at(), None);
    let began = Instant::now();
    let ended = tokio::spawn(caller.revoked().unwrap());
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(!ended.is_finished());
    *slow.result.lock().unwrap() = Err(AuthError::InvalidToken("revoked".into()));
    ended.await.unwrap();
    let after = began.elapsed();
    assert!(after < Duration::from_secs(3725), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn ends_streams_without_successful_token_checks() {
    // The endpoint is unavailable: streams continue for a while.
    let slow = SlowVerifier::new(Ok(alice()));
    let cached = Arc::new(CachedVerifier::introspected(Arc::clone(&slow), ticking()));
    let caller = verify(&*cached, "token").await.unwrap();
    *slow.result.lock().unwrap() = Err(AuthError::unavailable());
    let (began, ended) = (Instant::now(), caller.revoked().unwrap());
    ended.await;
    let after = began.elapsed();
    assert!(
        (MAX_UNCHECKED..MAX_UNCHECKED + Duration::from_secs(125)).contains(&after),
        "{after:?}"
    );
    // The layer is dropped, as after a reload.
    *slow.result.lock().unwrap() = Ok(alice());
    let ended = caller.revoked().unwrap();
    drop(cached);
    tokio::time::timeout(Duration::from_secs(61), ended).await.unwrap();
}

#[tokio::test]
async fn cache_forwards_epoch_and_counts_entries() {
    let cached = CachedVerifier::verified(ChangingKeys(AtomicUsize::new(7)), clock());
    assert_eq!(cached.epoch(), 7);
    assert!(cached.is_empty());
    let clock = clock();
    let cached = CachedVerifier::verified(jwt(&clock), clock.clone());
    // A token is cached once it has been seen before.
    for _ in 0..2 {
        verify(&cached, &token(&claims(&json!({})))).await.unwrap();
    }
    assert_eq!((cached.len(), cached.is_empty()), (1, false));
}
