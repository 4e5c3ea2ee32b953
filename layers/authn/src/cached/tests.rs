use std::future::ready;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use vmcp_jwt::{KeySet, Verifier};

use super::*;
use crate::testing::{claims, clock, jwt, keys, rules, token};
use crate::{Jwt, Refusal};

/// Answers after a second, and counts how often it was asked.
struct Slow {
    asked: AtomicUsize,
    answer: Mutex<Result<Identity, Refusal>>,
}

impl Slow {
    fn new(answer: Result<Identity, Refusal>) -> Arc<Self> {
        Arc::new(Self { asked: AtomicUsize::new(0), answer: Mutex::new(answer) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Inspect for Slow {
    fn inspect<'a>(&'a self, _: &'a str) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.answer.lock().unwrap().clone()
        })
    }
}

/// Answers by keys that change while it does.
struct Turning(AtomicUsize);

impl Inspect for Turning {
    fn inspect<'a>(&'a self, _: &'a str) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(alice())
        })
    }

    fn epoch(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64
    }
}

/// Takes everybody for alice.
struct Everybody;

impl Inspect for Everybody {
    fn inspect<'a>(&'a self, _: &'a str) -> AuthenticateFuture<'a> {
        Box::pin(ready(Ok(alice())))
    }
}

fn alice() -> Identity {
    Identity::new("https://id.example", "alice")
}

async fn ask<I: Inspect>(cached: &Cached<I>, token: &str) -> Result<Identity, Refusal> {
    match cached.at_once(token) {
        Some(answer) => answer,
        None => cached.inspect(token).await,
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_with_a_new_token_cause_one_question() {
    let slow = Slow::new(Ok(alice()));
    let cached = Arc::new(Cached::introspected(Arc::clone(&slow), clock()));
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let cached = Arc::clone(&cached);
            tokio::spawn(async move { ask(&cached, "opaque").await })
        })
        .collect();
    for one in waiting {
        assert_eq!(one.await.unwrap(), Ok(alice()));
    }
    assert_eq!((slow.asked(), cached.len()), (1, 1));
    assert!(ask(&cached, "another").await.is_ok());
    assert_eq!(slow.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_under_keys_that_changed_meanwhile_is_not_remembered() {
    let cached = Cached::introspected(Turning(AtomicUsize::new(0)), clock());
    assert!(ask(&cached, "opaque").await.is_ok());
    assert!(cached.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_remembered_for_its_time() {
    let (slow, clock) = (Slow::new(Ok(alice())), clock());
    let cached = Cached::introspected(Arc::clone(&slow), clock.clone());
    for (wait, asked) in [(0, 1), (59, 1), (1, 2)] {
        clock.advance(Duration::from_secs(wait));
        assert!(ask(&cached, "opaque").await.is_ok());
        assert_eq!(slow.asked(), asked, "after {wait} s");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_beyond_its_expiry() {
    let clock = clock();
    let soon = Identity::builder("i", "s").expires_at(clock.now() + Duration::from_secs(10));
    let slow = Slow::new(Ok(soon.build()));
    let cached = Cached::introspected(Arc::clone(&slow), clock.clone());
    for (wait, asked) in [(0, 1), (9, 1), (1, 2)] {
        clock.advance(Duration::from_secs(wait));
        assert!(ask(&cached, "opaque").await.is_ok());
        assert_eq!(slow.asked(), asked, "after {wait} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_remembered_shortly_and_an_outage_not() {
    let (slow, clock) = (Slow::new(Err(Refusal::InvalidToken("no".into()))), clock());
    let cached = Cached::introspected(Arc::clone(&slow), clock.clone());
    for (wait, asked) in [(0, 1), (4, 1), (1, 2)] {
        clock.advance(Duration::from_secs(wait));
        assert!(ask(&cached, "opaque").await.is_err());
        assert_eq!(slow.asked(), asked, "after {wait} s");
    }
    *slow.answer.lock().unwrap() = Err(Refusal::unavailable());
    for asked in [3, 4] {
        assert_eq!(ask(&cached, "another").await, Err(Refusal::unavailable()));
        assert_eq!(slow.asked(), asked);
    }
}

#[tokio::test]
async fn a_token_whose_key_was_taken_back_does_not_count_any_more() {
    let current = Arc::new(Mutex::new(keys("1")));
    let source = {
        let current = Arc::clone(&current);
        move || Arc::<KeySet>::clone(&current.lock().unwrap())
    };
    let clock = clock();
    let verifier = Verifier::new(source, rules()).clock(clock.clone());
    let cached = Cached::verified(Jwt::new(verifier), clock);
    let token = token(&claims(&json!({})));
    assert!(ask(&cached, &token).await.is_ok());
    assert!(ask(&cached, &token).await.is_ok());
    assert_eq!(cached.len(), 1);
    *current.lock().unwrap() = keys("2");
    assert!(matches!(ask(&cached, &token).await, Err(Refusal::InvalidToken(_))));
}

#[tokio::test]
async fn a_verified_token_stops_counting_when_it_expires() {
    let clock = clock();
    let cached = Cached::verified(jwt(&clock), clock.clone());
    let token = token(&claims(&json!({"exp": crate::testing::NOW + 100})));
    assert!(ask(&cached, &token).await.is_ok());
    assert!(ask(&cached, &token).await.is_ok());
    clock.advance(Duration::from_secs(131));
    assert!(matches!(ask(&cached, &token).await, Err(Refusal::InvalidToken(_))));
}

#[tokio::test(start_paused = true)]
async fn a_verified_token_is_remembered_when_it_comes_again() {
    let slow = Slow::new(Ok(alice()));
    let cached = Cached::verified(Arc::clone(&slow), clock());
    for (token, asked, remembered) in
        [("a", 1, 0), ("b", 2, 0), ("a", 3, 1), ("a", 3, 1), ("c", 4, 1), ("b", 5, 2), ("b", 5, 2)]
    {
        assert!(ask(&cached, token).await.is_ok());
        assert_eq!((slow.asked(), cached.len()), (asked, remembered), "{token}");
    }
}

#[tokio::test]
async fn how_many_are_remembered_is_bounded() {
    let cached = Cached::new(Everybody, clock(), VERIFIED, None, 64);
    for token in 0..1000 {
        assert!(ask(&cached, &token.to_string()).await.is_ok());
    }
    assert!(cached.len() <= 64, "{}", cached.len());
}

/// Callers by the name that their token is, of whose sessions some have ended; counts how often it inspects.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>);

struct Session(Sessions, String);

impl vmcp_core::Ending for Session {
    fn ended(&self) -> vmcp_core::EndingFuture {
        Box::pin(std::future::pending())
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended(&self.1)
    }
}

impl Sessions {
    fn has_ended(&self, name: &str) -> bool {
        self.0.lock().unwrap().iter().any(|ended| ended == name)
    }

    fn end(&self, name: &str) {
        self.0.lock().unwrap().push(name.to_owned());
    }

    fn inspected(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl Inspect for Sessions {
    fn at_once(&self, token: &str) -> Option<Result<Identity, Refusal>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        if self.has_ended(token) {
            return Some(Err(Refusal::InvalidToken("the session ended".into())));
        }
        let ending = Arc::new(Session(self.clone(), token.to_owned()));
        Some(Ok(Identity::builder("https://id.example", token).ending(ending).build()))
    }

    fn inspect<'a>(&'a self, token: &'a str) -> AuthenticateFuture<'a> {
        Box::pin(ready(self.at_once(token).unwrap()))
    }
}

#[tokio::test]
async fn a_session_that_ends_takes_its_own_token_along_and_nobody_elses() {
    let (sessions, clock) = (Sessions::default(), clock());
    let cached = Cached::verified(Arc::new(sessions.clone()), clock.clone());
    for name in 0..500 {
        // The first time it is not kept.
        for _ in 0..2 {
            assert!(ask(&cached, &name.to_string()).await.is_ok());
        }
    }
    assert_eq!(sessions.inspected(), 1000);
    for name in 0..499 {
        sessions.end(&name.to_string());
        assert!(ask(&cached, "499").await.is_ok());
    }
    assert_eq!(sessions.inspected(), 1000, "what ended elsewhere costs nobody anything");
    for name in 0..499 {
        assert!(ask(&cached, &name.to_string()).await.is_err(), "{name}");
    }
    let inspected = sessions.inspected();
    sessions.end("499");
    assert!(ask(&cached, "499").await.is_err());
    assert_eq!(sessions.inspected(), inspected + 1);
}

/// A clock that goes with the timers of a test.
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
async fn ends_streams_once_introspection_refuses() {
    let slow = Slow::new(Ok(alice()));
    let cached = Arc::new(Cached::introspected(Arc::clone(&slow), ticking()));
    let caller = ask(&*cached, "token").await.unwrap();
    assert_eq!(caller.expires_at(), None);
    let began = Instant::now();
    let ended = tokio::spawn(caller.ended().unwrap());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!ended.is_finished());
    *slow.answer.lock().unwrap() = Err(Refusal::InvalidToken("revoked".into()));
    ended.await.unwrap();
    let after = began.elapsed();
    assert!(after < Duration::from_secs(3725), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn ends_streams_when_nothing_checks_tokens() {
    // The endpoint is silent: a while is bridged.
    let slow = Slow::new(Ok(alice()));
    let cached = Arc::new(Cached::introspected(Arc::clone(&slow), ticking()));
    let caller = ask(&*cached, "token").await.unwrap();
    *slow.answer.lock().unwrap() = Err(Refusal::unavailable());
    let (began, ended) = (Instant::now(), caller.ended().unwrap());
    ended.await;
    let after = began.elapsed();
    assert!((UNCHECKED..UNCHECKED + Duration::from_secs(125)).contains(&after), "{after:?}");
    // The layer is gone, as after a reload.
    *slow.answer.lock().unwrap() = Ok(alice());
    let ended = caller.ended().unwrap();
    drop(cached);
    tokio::time::timeout(Duration::from_secs(61), ended).await.unwrap();
}
