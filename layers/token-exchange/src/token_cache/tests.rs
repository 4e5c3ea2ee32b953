use std::io;
use std::sync::Mutex;

use http::StatusCode;
use proptest::prelude::*;
use tokio::task::yield_now;
use tokio::time::sleep;
use vmcp_core::Identity;

use super::*;
use crate::EndpointError;

/// Script of the authorization server's outcomes by request number, starting with 1.
type Script = fn(usize, SystemTime) -> Outcome;

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Vec<String>>>);

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn token(name: &str, expires_at: Option<SystemTime>) -> Outcome {
    Ok(AccessToken::new(&name.to_owned().into(), expires_at)?)
}

fn hourly(count: usize, now: SystemTime) -> Outcome {
    token(&format!("t{count}"), Some(now + Duration::from_hours(1)))
}

fn refusing(_: usize, _: SystemTime) -> Outcome {
    Err(ExchangeError::Rejected { code: "invalid_grant".into() })
}

impl Server {
    /// Returns a cached exchange that takes a second and follows the script.
    fn cached(&self, clock: &Clock, script: Script) -> CachedExchange<impl Exchange> {
        let (future, now) = (Arc::clone(&self.0), clock.clone());
        let exchange = move |subject: Subject| {
            let mut future = future.lock().unwrap();
            future.push(subject.expose_token().to_owned());
            let outcome = script(future.len(), now.now());
            async move {
                sleep(Duration::from_secs(1)).await;
                outcome
            }
        };
        CachedExchange::with_capacity(exchange, clock.clone(), 64)
    }

    fn requests(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn subject(name: &str, token: &str, expires_at: Option<SystemTime>) -> Subject {
    let mut identity = Identity::builder("https://idp", name).token(token.to_owned().into());
    if let Some(at) = expires_at {
        identity = identity.expires_at(at);
    }
    Subject::from_identity(&identity.build()).unwrap()
}

fn ann() -> Subject {
    subject("ann", "inbound", None)
}

async fn value(cached: &CachedExchange<impl Exchange>, subject: Subject) -> String {
    cached.exchange(subject).await.unwrap().value().to_str().unwrap().to_owned()
}

/// Runs the background tasks to completion.
async fn run_background_tasks() {
    for _ in 0..4 {
        yield_now().await;
    }
    sleep(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_calls_share_one_exchange() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let calls: Vec<_> = (0..1000)
        .map(|_| {
            let cached = cached.clone();
            tokio::spawn(async move { value(&cached, ann()).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), "Bearer t1");
    }
    assert_eq!((server.requests(), cached.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn cancelled_caller_does_not_fail_others() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let first = tokio::spawn(cached.exchange(ann()));
    yield_now().await;
    let second = tokio::spawn(cached.exchange(ann()));
    yield_now().await;
    first.abort();
    assert_eq!(second.await.unwrap().unwrap().value(), "Bearer t1");
    assert_eq!(server.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn cached_token_is_ready_immediately() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    value(&cached, ann()).await;
    let mut again = tokio_test::task::spawn(cached.exchange(ann()));
    let there = tokio_test::assert_ready_ok!(again.poll());
    assert_eq!(there.value(), "Bearer t1");
}

#[tokio::test(start_paused = true)]
async fn keeps_tokens_of_subjects_apart() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let upstream = |name| {
        let value = "inbound".to_owned().into();
        let token = vmcp_core::UpstreamToken { value, expires_at: None };
        Subject::with_upstream(&Identity::new("https://idp", name), token)
    };
    let foreign = Identity::builder("https://other", "ann").token("inbound".to_owned().into());
    // All have the same token, so that only the other parts differ.
    let subjects = [
        ann(),
        subject("bob", "inbound", None),
        subject("ann", "newer", None),
        Subject::from_identity(&foreign.build()).unwrap(),
        upstream("carl"),
        upstream("dora"),
        // Parts that are equal when concatenated.
        subject("annin", "bound", None),
    ];
    for round in 0..3 {
        for (index, subject) in subjects.iter().enumerate() {
            let expected = format!("Bearer t{}", index + 1);
            assert_eq!(value(&cached, subject.clone()).await, expected, "round {round}");
        }
    }
    assert_eq!(server.requests(), subjects.len());
}

#[tokio::test(start_paused = true)]
async fn evicts_token_before_expiry() {
    for (lifetime, cache_key) in [(Some(3600), 3570), (Some(40), 30), (None, 45)] {
        let (server, clock) = (Server::default(), Clock::manual(start()));
        let script: Script = match lifetime {
            Some(3600) => hourly,
            Some(_) => |count, now| token(&count.to_string(), Some(now + Duration::from_secs(40))),
            None => |count, _| token(&count.to_string(), None),
        };
        let cached = server.cached(&clock, script);
        let got = cached.exchange(ann()).await.unwrap();
        let key = got.cache_key.unwrap();
        clock.advance(Duration::from_millis(cache_key * 1000 - 1));
        assert!(cached.0.entries.get(&key, clock.now()).is_some(), "{lifetime:?}");
        clock.advance(Duration::from_millis(1));
        assert!(cached.0.entries.get(&key, clock.now()).is_none(), "{lifetime:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn token_never_outlives_subject_token() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let short = || subject("ann", "inbound", Some(start() + Duration::from_mins(2)));
    value(&cached, short()).await;
    clock.advance(Duration::from_secs(89));
    value(&cached, short()).await;
    run_background_tasks().await;
    assert_eq!(server.requests(), 1, "useless background refresh");
    clock.advance(Duration::from_secs(1));
    value(&cached, short()).await;
    assert_eq!(server.requests(), 2);
    let ended = subject("bob", "inbound", Some(start()));
    value(&cached, ended.clone()).await;
    value(&cached, ended).await;
    assert_eq!(server.requests(), 4);
}

#[tokio::test(start_paused = true)]
async fn expired_token_is_not_cached() {
    for script in [(|count, now| token(&count.to_string(), Some(now))) as Script, |count, now| {
        token(&count.to_string(), Some(now - Duration::from_secs(9)))
    }] {
        let (server, clock) = (Server::default(), Clock::manual(start()));
        let cached = server.cached(&clock, script);
        let first = cached.exchange(ann()).await.unwrap();
        assert!(!cached.invalidate(&first), "another one would be no better");
        value(&cached, ann()).await;
        assert_eq!((server.requests(), cached.len()), (2, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn refreshes_token_in_background() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    value(&cached, ann()).await;
    clock.advance(Duration::from_secs(3570 / 4 * 3 - 2));
    value(&cached, ann()).await;
    run_background_tasks().await;
    assert_eq!(server.requests(), 1, "not yet due");
    clock.advance(Duration::from_secs(4));
    for _ in 0..100 {
        assert_eq!(value(&cached, ann()).await, "Bearer t1");
    }
    run_background_tasks().await;
    assert_eq!(value(&cached, ann()).await, "Bearer t2");
    assert_eq!(server.requests(), 2);
    assert_eq!(cached.0.refreshing.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_refresh_keeps_token_and_retries() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, |count, now| match count {
        1 => hourly(1, now),
        2 => Err(EndpointError::TimedOut.into()),
        3 => refusing(3, now),
        _ => hourly(count, now),
    });
    value(&cached, ann()).await;
    clock.advance(Duration::from_mins(45));
    for future in 2..=4 {
        assert_eq!(value(&cached, ann()).await, "Bearer t1");
        run_background_tasks().await;
        assert_eq!(server.requests(), future);
        clock.advance(REFRESH_RETRY_INTERVAL / 2);
        value(&cached, ann()).await;
        run_background_tasks().await;
        assert_eq!(server.requests(), future, "retried too early");
        clock.advance(REFRESH_RETRY_INTERVAL / 2);
    }
    assert_eq!(value(&cached, ann()).await, "Bearer t4");
}

#[tokio::test(start_paused = true)]
async fn caches_rejection_for_two_seconds() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, refusing);
    for _ in 0..50 {
        let fault = cached.exchange(ann()).await.unwrap_err();
        assert!(matches!(fault, ExchangeError::Rejected { .. }));
    }
    assert_eq!(server.requests(), 1);
    clock.advance(Duration::from_secs(2));
    cached.exchange(ann()).await.unwrap_err();
    assert_eq!(server.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn does_not_cache_outages() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, |count, now| match count {
        1 => Err(EndpointError::Status(StatusCode::BAD_GATEWAY).into()),
        2 => Err(EndpointError::Unreachable(Arc::new(io::Error::other("x"))).into()),
        _ => hourly(count, now),
    });
    cached.exchange(ann()).await.unwrap_err();
    cached.exchange(ann()).await.unwrap_err();
    assert_eq!(value(&cached, ann()).await, "Bearer t3");
}

#[tokio::test(start_paused = true)]
async fn invalidated_token_is_replaced_once() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let first = cached.exchange(ann()).await.unwrap();
    // Concurrent calls report the rejection.
    for _ in 0..20 {
        assert!(cached.invalidate(&first));
    }
    let second = cached.exchange(ann()).await.unwrap();
    assert_eq!(second.value(), "Bearer t2");
    assert!(cached.invalidate(&first), "there is a newer one");
    // A backend that rejects every token does not cause an exchange for each request.
    assert!(!cached.invalidate(&second));
    assert_eq!(value(&cached, ann()).await, "Bearer t2");
    assert_eq!(server.requests(), 2);
    clock.advance(REPLACEMENT_INTERVAL);
    assert!(cached.invalidate(&second));
    assert_eq!(value(&cached, ann()).await, "Bearer t3");
}

#[tokio::test(start_paused = true)]
async fn cache_is_bounded() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    assert!(cached.is_empty());
    for user in 0..500 {
        value(&cached, subject(&user.to_string(), "t", None)).await;
    }
    assert!(cached.len() <= 64 && !cached.is_empty(), "{}", cached.len());
    assert!(cached.0.flights.is_empty());
}

/// Exchange with client credentials; counts its tokens.
struct OwnToken(Arc<AtomicUsize>);

impl Exchange for OwnToken {
    type Future = Pin<Box<dyn Future<Output = Outcome> + Send>>;

    fn exchange(&self, _: Subject) -> Self::Future {
        Box::pin(async { token("of-ann", None) })
    }

    fn client_credentials(&self) -> Option<Self::Future> {
        let future = Arc::clone(&self.0);
        Some(Box::pin(async move {
            future.fetch_add(1, Ordering::Relaxed);
            token("own", None)
        }))
    }
}

#[tokio::test]
async fn caches_client_credentials_token_separately() {
    let future = Arc::new(AtomicUsize::new(0));
    let cached = CachedExchange::new(OwnToken(Arc::clone(&future)), Clock::manual(start()));
    for _ in 0..3 {
        assert_eq!(cached.client_credentials().unwrap().await.unwrap().value(), "Bearer own");
        assert_eq!(value(&cached, ann()).await, "Bearer of-ann");
    }
    assert_eq!(future.load(Ordering::Relaxed), 1);
    let none = CachedExchange::new(|_: Subject| async { token("x", None) }, Clock::system());
    assert!(none.client_credentials().is_none());
}

proptest! {
    #[test]
    fn keys_are_equal_only_for_equal_parts(
        a in ("[ab]{0,3}", "[ab]{0,3}", "[ab]{0,3}"),
        b in ("[ab]{0,3}", "[ab]{0,3}", "[ab]{0,3}"),
    ) {
        let key = |(issuer, name, token): &(String, String, String)| {
            let identity = Identity::builder(issuer, name).token(token.clone().into()).build();
            Key::of(&Subject::from_identity(&identity).unwrap())
        };
        prop_assert_eq!(key(&a) == key(&b), a == b);
    }
}
