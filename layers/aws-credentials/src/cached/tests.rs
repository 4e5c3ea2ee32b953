use std::sync::atomic::AtomicUsize;

use tokio::time::{advance, sleep};

use super::*;
use crate::{RoleArn, SessionDuration, SessionName};

struct Fake {
    calls: Arc<AtomicUsize>,
    fails: Arc<std::sync::atomic::AtomicBool>,
    life: Duration,
    clock: Clock,
}

impl AssumeRole for Fake {
    async fn assume(
        &self,
        _: &Arc<Assumption>,
        _: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        sleep(Duration::from_millis(10)).await;
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(AssumeError::Unavailable { reason: "STS failed" });
        }
        let id = format!("ASIA{call}");
        let until = self.clock.now() + self.life;
        Ok(Arc::new(Credentials::new(&id, &"secret".into(), &"token".into(), until).unwrap()))
    }
}

struct Setup {
    cached: Cached<Fake>,
    clock: Clock,
    calls: Arc<AtomicUsize>,
    fails: Arc<std::sync::atomic::AtomicBool>,
}

fn setup(life: u64) -> Setup {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
    let (calls, fails) = <(Arc<AtomicUsize>, Arc<_>)>::default();
    let fake = Fake {
        calls: Arc::clone(&calls),
        fails: Arc::clone(&fails),
        life: Duration::from_secs(life),
        clock: clock.clone(),
    };
    Setup { cached: Cached::new(fake, 64, clock.clone()), clock, calls, fails }
}

impl Setup {
    async fn ask(&self, assumption: &Arc<Assumption>) -> Result<String, AssumeError> {
        let credentials = self.cached.assume(assumption, &"any".into()).await?;
        Ok(credentials.access_key_id().to_owned())
    }

    async fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        settle().await;
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Lets what runs beside end.
async fn settle() {
    for _ in 0..3 {
        advance(Duration::from_millis(20)).await;
        tokio::task::yield_now().await;
    }
}

fn assumption(role: &str, session: &str, seconds: u32, holder: &[&str]) -> Arc<Assumption> {
    let role = RoleArn::try_from(&*format!("arn:aws:iam::123456789012:role/{role}")).unwrap();
    let session = SessionName::of(session).unwrap();
    let duration = SessionDuration::try_from(seconds).unwrap();
    Arc::new(Assumption::new(role, session, duration, holder))
}

fn ada() -> Arc<Assumption> {
    assumption("reader", "ada", 3600, &["https://issuer", "ada"])
}

#[tokio::test(start_paused = true)]
async fn credentials_are_got_once_for_the_same_role_session_and_holder() {
    let it = setup(3600);
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0");
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0");
    assert_eq!(it.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_crosses_holders_roles_sessions_or_durations() {
    let it = setup(3600);
    let all = [
        ada(),
        assumption("writer", "ada", 3600, &["https://issuer", "ada"]),
        assumption("reader", "ada2", 3600, &["https://issuer", "ada"]),
        assumption("reader", "ada", 900, &["https://issuer", "ada"]),
        assumption("reader", "ada", 3600, &["https://other", "ada"]),
        assumption("reader", "ada", 3600, &["https://issuer", "bob"]),
        assumption("reader", "ada", 3600, &["https://issuera", "da"]),
        assumption("reader", "ada", 3600, &["https://issuer", "ada", ""]),
    ];
    for (place, one) in all.iter().enumerate() {
        assert_eq!(it.ask(one).await.unwrap(), format!("ASIA{place}"));
    }
    for (place, one) in all.iter().enumerate() {
        assert_eq!(it.ask(one).await.unwrap(), format!("ASIA{place}"), "interleaved");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_first_requests_cause_one_call() {
    let it = Arc::new(setup(3600));
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let it = Arc::clone(&it);
            tokio::spawn(async move { it.ask(&ada()).await })
        })
        .collect();
    for one in waiting {
        assert_eq!(one.await.unwrap().unwrap(), "ASIA0");
    }
    assert_eq!(it.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn they_are_used_until_five_minutes_before_their_end() {
    let it = setup(3600);
    it.ask(&ada()).await.unwrap();
    it.clock.advance(Duration::from_secs(3600 - 301));
    it.fails.store(true, Ordering::SeqCst);
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0");
    it.clock.advance(Duration::from_secs(2));
    it.fails.store(false, Ordering::SeqCst);
    settle().await;
    assert_ne!(it.ask(&ada()).await.unwrap(), "ASIA0");
}

#[tokio::test(start_paused = true)]
async fn short_lived_ones_are_used_for_half_of_their_life() {
    let it = setup(60);
    it.ask(&ada()).await.unwrap();
    it.fails.store(true, Ordering::SeqCst);
    it.pass(29).await;
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0");
    it.pass(2).await;
    assert!(it.ask(&ada()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn new_ones_are_fetched_beside_the_requests_before_the_old_ones_go() {
    let it = setup(3600);
    it.ask(&ada()).await.unwrap();
    it.pass(3200).await;
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0", "nobody waits");
    settle().await;
    assert_eq!(it.calls(), 2);
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA1");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again_after_a_pause_and_harms_nobody() {
    let it = setup(3600);
    it.ask(&ada()).await.unwrap();
    it.fails.store(true, Ordering::SeqCst);
    it.pass(3200).await;
    for _ in 0..100 {
        assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0");
        settle().await;
    }
    assert_eq!(it.calls(), 2, "one try");
    it.pass(31).await;
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0");
    settle().await;
    assert_eq!(it.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_kept() {
    let it = setup(3600);
    it.fails.store(true, Ordering::SeqCst);
    assert!(it.ask(&ada()).await.is_err());
    it.fails.store(false, Ordering::SeqCst);
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA1");
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_forgotten_unless_they_are_fresh_or_others() {
    let it = setup(3600);
    let first = it.cached.assume(&ada(), &"any".into()).await.unwrap();
    it.cached.forget(&ada(), &first);
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA0", "a backend cannot cause a storm");
    it.pass(31).await;
    it.cached.forget(&ada(), &first);
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA1");
    it.pass(31).await;
    it.cached.forget(&ada(), &first);
    assert_eq!(it.ask(&ada()).await.unwrap(), "ASIA1", "the new ones are not meant");
}

#[tokio::test(start_paused = true)]
async fn no_more_is_kept_than_there_is_room_for() {
    let it = setup(3600);
    for number in 0..500 {
        it.ask(&assumption("reader", &format!("user-{number}"), 3600, &[])).await.unwrap();
    }
    assert!(it.cached.len() <= 64, "{}", it.cached.len());
}
