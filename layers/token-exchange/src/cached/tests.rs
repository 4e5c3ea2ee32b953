use std::io;
use std::sync::Mutex;

use http::StatusCode;
use proptest::prelude::*;
use tokio::task::yield_now;
use tokio::time::sleep;
use vmcp_core::Identity;

use super::*;
use crate::Outage;

/// What an authorization server does with the n-th request of a test, counted from 1.
type Script = fn(usize, SystemTime) -> Outcome;

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Vec<String>>>);

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn token(name: &str, expires_at: Option<SystemTime>) -> Outcome {
    Ok(Exchanged::new(&name.to_owned().into(), expires_at)?)
}

fn hourly(count: usize, now: SystemTime) -> Outcome {
    token(&format!("t{count}"), Some(now + Duration::from_secs(3600)))
}

fn refusing(_: usize, _: SystemTime) -> Outcome {
    Err(ExchangeFault::Refused { code: "invalid_grant".into() })
}

impl Server {
    /// A remembered exchange that takes a second and does as the script says.
    fn cached(&self, clock: &Clock, script: Script) -> Cached<impl Exchange> {
        let (asked, now) = (Arc::clone(&self.0), clock.clone());
        let exchange = move |subject: Subject| {
            let mut asked = asked.lock().unwrap();
            asked.push(subject.expose_token().to_owned());
            let outcome = script(asked.len(), now.now());
            async move {
                sleep(Duration::from_secs(1)).await;
                outcome
            }
        };
        Cached::with_capacity(exchange, clock.clone(), 64)
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn subject(name: &str, token: &str, expires_at: Option<SystemTime>) -> Subject {
    let mut identity = Identity::builder("https://idp", name).token(token.to_owned().into());
    if let Some(at) = expires_at {
        identity = identity.expires_at(at);
    }
    Subject::of(&identity.build()).unwrap()
}

fn ann() -> Subject {
    subject("ann", "inbound", None)
}

async fn value(cached: &Cached<impl Exchange>, subject: Subject) -> String {
    cached.exchange(subject).await.unwrap().value().to_str().unwrap().to_owned()
}

/// Lets what runs in the background come to its end.
async fn settle() {
    for _ in 0..4 {
        yield_now().await;
    }
    sleep(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_first_calls_cost_one_exchange() {
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
    assert_eq!((server.asked(), cached.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_does_not_fail_the_others() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let first = tokio::spawn(cached.exchange(ann()));
    yield_now().await;
    let second = tokio::spawn(cached.exchange(ann()));
    yield_now().await;
    first.abort();
    assert_eq!(second.await.unwrap().unwrap().value(), "Bearer t1");
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_there_at_once() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    value(&cached, ann()).await;
    let mut again = tokio_test::task::spawn(cached.exchange(ann()));
    let there = tokio_test::assert_ready_ok!(again.poll());
    assert_eq!(there.value(), "Bearer t1");
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_somebody_elses_token() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let upstream = |name| {
        let value = "inbound".to_owned().into();
        let token = vmcp_core::UpstreamToken { value, expires_at: None };
        Subject::with_upstream(&Identity::new("https://idp", name), token)
    };
    let foreign = Identity::builder("https://other", "ann").token("inbound".to_owned().into());
    // The same token as often as it can be, so that only the rest tells them apart.
    let subjects = [
        ann(),
        subject("bob", "inbound", None),
        subject("ann", "newer", None),
        Subject::of(&foreign.build()).unwrap(),
        upstream("carl"),
        upstream("dora"),
        // Parts that read the same when they are joined.
        subject("annin", "bound", None),
    ];
    for round in 0..3 {
        for (index, subject) in subjects.iter().enumerate() {
            let expected = format!("Bearer t{}", index + 1);
            assert_eq!(value(&cached, subject.clone()).await, expected, "round {round}");
        }
    }
    assert_eq!(server.asked(), subjects.len());
}

#[tokio::test(start_paused = true)]
async fn a_token_is_given_up_before_it_expires() {
    for (life, kept) in [(Some(3600), 3570), (Some(40), 30), (None, 45)] {
        let (server, clock) = (Server::default(), Clock::manual(start()));
        let script: Script = match life {
            Some(3600) => hourly,
            Some(_) => |count, now| token(&count.to_string(), Some(now + Duration::from_secs(40))),
            None => |count, _| token(&count.to_string(), None),
        };
        let cached = server.cached(&clock, script);
        let got = cached.exchange(ann()).await.unwrap();
        let key = got.kept.unwrap();
        clock.advance(Duration::from_millis(kept * 1000 - 1));
        assert!(cached.0.entries.get(&key, clock.now()).is_some(), "{life:?}");
        clock.advance(Duration::from_millis(1));
        assert!(cached.0.entries.get(&key, clock.now()).is_none(), "{life:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_never_outlives_the_one_it_was_exchanged_for() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let short = || subject("ann", "inbound", Some(start() + Duration::from_secs(120)));
    value(&cached, short()).await;
    clock.advance(Duration::from_secs(89));
    value(&cached, short()).await;
    settle().await;
    assert_eq!(server.asked(), 1, "refreshed ahead in vain");
    clock.advance(Duration::from_secs(1));
    value(&cached, short()).await;
    assert_eq!(server.asked(), 2);
    let ended = subject("bob", "inbound", Some(start()));
    value(&cached, ended.clone()).await;
    value(&cached, ended).await;
    assert_eq!(server.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_has_expired_already_is_used_once() {
    for script in [(|count, now| token(&count.to_string(), Some(now))) as Script, |count, now| {
        token(&count.to_string(), Some(now - Duration::from_secs(9)))
    }] {
        let (server, clock) = (Server::default(), Clock::manual(start()));
        let cached = server.cached(&clock, script);
        let first = cached.exchange(ann()).await.unwrap();
        assert!(!cached.refused(&first), "another one would be no better");
        value(&cached, ann()).await;
        assert_eq!((server.asked(), cached.len()), (2, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_refreshed_ahead_while_the_old_one_is_used() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    value(&cached, ann()).await;
    clock.advance(Duration::from_secs(3570 / 4 * 3 + 2));
    for _ in 0..100 {
        assert_eq!(value(&cached, ann()).await, "Bearer t1");
    }
    settle().await;
    assert_eq!(value(&cached, ann()).await, "Bearer t2");
    assert_eq!(server.asked(), 2);
    assert_eq!(cached.0.refreshing.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_leaves_the_old_token_and_is_tried_again() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, |count, now| match count {
        1 => hourly(1, now),
        2 => Err(Outage::Slow.into()),
        3 => refusing(3, now),
        _ => hourly(count, now),
    });
    value(&cached, ann()).await;
    clock.advance(Duration::from_secs(2700));
    for asked in 2..=4 {
        assert_eq!(value(&cached, ann()).await, "Bearer t1");
        settle().await;
        assert_eq!(server.asked(), asked);
        clock.advance(RETRY);
    }
    assert_eq!(value(&cached, ann()).await, "Bearer t4");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_remembered_for_two_seconds() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, refusing);
    for _ in 0..50 {
        let fault = cached.exchange(ann()).await.unwrap_err();
        assert!(matches!(fault, ExchangeFault::Refused { .. }));
    }
    assert_eq!(server.asked(), 1);
    clock.advance(Duration::from_secs(2));
    cached.exchange(ann()).await.unwrap_err();
    assert_eq!(server.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_not_remembered() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, |count, now| match count {
        1 => Err(Outage::Status(StatusCode::BAD_GATEWAY).into()),
        2 => Err(Outage::Unreachable(Arc::new(io::Error::other("x"))).into()),
        _ => hourly(count, now),
    });
    cached.exchange(ann()).await.unwrap_err();
    cached.exchange(ann()).await.unwrap_err();
    assert_eq!(value(&cached, ann()).await, "Bearer t3");
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_once() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    let first = cached.exchange(ann()).await.unwrap();
    // Many calls hear of it at once.
    for _ in 0..20 {
        assert!(cached.refused(&first));
    }
    let second = cached.exchange(ann()).await.unwrap();
    assert_eq!(second.value(), "Bearer t2");
    assert!(cached.refused(&first), "there is a newer one");
    // A backend that takes none of them does not cost an exchange for each request.
    assert!(!cached.refused(&second));
    assert_eq!(value(&cached, ann()).await, "Bearer t2");
    assert_eq!(server.asked(), 2);
    clock.advance(REPLACED);
    assert!(cached.refused(&second));
    assert_eq!(value(&cached, ann()).await, "Bearer t3");
}

#[tokio::test(start_paused = true)]
async fn it_is_bounded() {
    let (server, clock) = (Server::default(), Clock::manual(start()));
    let cached = server.cached(&clock, hourly);
    for user in 0..500 {
        value(&cached, subject(&user.to_string(), "t", None)).await;
    }
    assert!(cached.len() <= 64, "{}", cached.len());
    assert!(cached.0.flights.is_empty());
}

/// Has a token of its own, and counts how often it gives it out.
struct Own(Arc<AtomicUsize>);

impl Exchange for Own {
    type Future = Pin<Box<dyn Future<Output = Outcome> + Send>>;

    fn exchange(&self, _: Subject) -> Self::Future {
        Box::pin(async { token("of-ann", None) })
    }

    fn own(&self) -> Option<Self::Future> {
        let asked = Arc::clone(&self.0);
        Some(Box::pin(async move {
            asked.fetch_add(1, Ordering::Relaxed);
            token("own", None)
        }))
    }
}

#[tokio::test]
async fn the_gateways_own_token_is_remembered_apart() {
    let asked = Arc::new(AtomicUsize::new(0));
    let cached = Cached::new(Own(Arc::clone(&asked)), Clock::manual(start()));
    for _ in 0..3 {
        assert_eq!(cached.own().unwrap().await.unwrap().value(), "Bearer own");
        assert_eq!(value(&cached, ann()).await, "Bearer of-ann");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let none = Cached::new(|_: Subject| async { token("x", None) }, Clock::system());
    assert!(none.own().is_none());
}

proptest! {
    #[test]
    fn keys_are_equal_only_for_equal_parts(
        a in ("[ab]{0,3}", "[ab]{0,3}", "[ab]{0,3}"),
        b in ("[ab]{0,3}", "[ab]{0,3}", "[ab]{0,3}"),
    ) {
        let key = |(issuer, name, token): &(String, String, String)| {
            let identity = Identity::builder(issuer, name).token(token.clone().into()).build();
            Key::of(&Subject::of(&identity).unwrap())
        };
        prop_assert_eq!(key(&a) == key(&b), a == b);
    }
}
