use std::sync::atomic::AtomicUsize;

use tokio::time::{advance, sleep};

use super::*;
use crate::{RoleArn, SessionDuration, SessionName};

struct FakeSts {
    calls: Arc<AtomicUsize>,
    fails: Arc<std::sync::atomic::AtomicBool>,
    lifetime: Duration,
    clock: Clock,
}

impl AssumeRole for FakeSts {
    async fn assume(
        &self,
        _: &Arc<RoleSession>,
        _: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        sleep(Duration::from_millis(10)).await;
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(AssumeError::Unavailable { reason: "STS failed" });
        }
        let id = format!("ASIA{call}");
        let until = self.clock.now() + self.lifetime;
        Ok(Arc::new(Credentials::new(&id, &"secret".into(), &"token".into(), until).unwrap()))
    }
}

struct Setup {
    cached: CredentialCache<FakeSts>,
    clock: Clock,
    calls: Arc<AtomicUsize>,
    fails: Arc<std::sync::atomic::AtomicBool>,
}

fn setup(lifetime: u64) -> Setup {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
    let (calls, fails) = <(Arc<AtomicUsize>, Arc<_>)>::default();
    let fake = FakeSts {
        calls: Arc::clone(&calls),
        fails: Arc::clone(&fails),
        lifetime: Duration::from_secs(lifetime),
        clock: clock.clone(),
    };
    Setup { cached: CredentialCache::new(fake, 64, clock.clone()), clock, calls, fails }
}

impl Setup {
    async fn assume(&self, role_session: &Arc<RoleSession>) -> Result<String, AssumeError> {
        let credentials = self.cached.assume(role_session, &"any".into()).await?;
        Ok(credentials.access_key_id().to_owned())
    }

    async fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        run_background_tasks().await;
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Lets the spawned renewals finish.
async fn run_background_tasks() {
    for _ in 0..3 {
        advance(Duration::from_millis(20)).await;
        tokio::task::yield_now().await;
    }
}

fn role_session(role: &str, session: &str, seconds: u32, holder: &[&str]) -> Arc<RoleSession> {
    let role = RoleArn::try_from(&*format!("arn:aws:iam::123456789012:role/{role}")).unwrap();
    let session = SessionName::from_text(session).unwrap();
    let duration = SessionDuration::try_from(seconds).unwrap();
    Arc::new(RoleSession::new(role, session, duration, holder))
}

fn ada() -> Arc<RoleSession> {
    role_session("reader", "ada", 3600, &["https://issuer", "ada"])
}

#[tokio::test(start_paused = true)]
async fn fetches_credentials_once_per_role_session() {
    let it = setup(3600);
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0");
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0");
    assert_eq!(it.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn separates_holders_roles_sessions_and_durations() {
    let it = setup(3600);
    let all = [
        ada(),
        role_session("writer", "ada", 3600, &["https://issuer", "ada"]),
        role_session("reader", "ada2", 3600, &["https://issuer", "ada"]),
        role_session("reader", "ada", 900, &["https://issuer", "ada"]),
        role_session("reader", "ada", 3600, &["https://other", "ada"]),
        role_session("reader", "ada", 3600, &["https://issuer", "bob"]),
        role_session("reader", "ada", 3600, &["https://issuera", "da"]),
        role_session("reader", "ada", 3600, &["https://issuer", "ada", ""]),
    ];
    for (place, one) in all.iter().enumerate() {
        assert_eq!(it.assume(one).await.unwrap(), format!("ASIA{place}"));
    }
    for (place, one) in all.iter().enumerate() {
        assert_eq!(it.assume(one).await.unwrap(), format!("ASIA{place}"), "interleaved");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_requests_share_one_call() {
    let it = Arc::new(setup(3600));
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let it = Arc::clone(&it);
            tokio::spawn(async move { it.assume(&ada()).await })
        })
        .collect();
    for one in waiting {
        assert_eq!(one.await.unwrap().unwrap(), "ASIA0");
    }
    assert_eq!(it.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn uses_credentials_until_five_minutes_before_expiry() {
    let it = setup(3600);
    it.assume(&ada()).await.unwrap();
    it.clock.advance(Duration::from_secs(3600 - 301));
    it.fails.store(true, Ordering::SeqCst);
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0");
    it.clock.advance(Duration::from_secs(2));
    it.fails.store(false, Ordering::SeqCst);
    run_background_tasks().await;
    assert_ne!(it.assume(&ada()).await.unwrap(), "ASIA0");
}

#[tokio::test(start_paused = true)]
async fn uses_short_lived_credentials_for_half_their_lifetime() {
    let it = setup(60);
    it.assume(&ada()).await.unwrap();
    it.fails.store(true, Ordering::SeqCst);
    it.pass(29).await;
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0");
    it.pass(2).await;
    assert!(it.assume(&ada()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn renews_credentials_in_background() {
    let it = setup(3600);
    it.assume(&ada()).await.unwrap();
    it.pass(3200).await;
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0", "nobody waits");
    run_background_tasks().await;
    assert_eq!(it.calls(), 2);
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA1");
}

#[tokio::test(start_paused = true)]
async fn failed_renewal_is_retried_after_interval() {
    let it = setup(3600);
    it.assume(&ada()).await.unwrap();
    it.fails.store(true, Ordering::SeqCst);
    it.pass(3200).await;
    for _ in 0..100 {
        assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0");
        run_background_tasks().await;
    }
    assert_eq!(it.calls(), 2, "one try");
    it.pass(31).await;
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0");
    run_background_tasks().await;
    assert_eq!(it.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn does_not_cache_failures() {
    let it = setup(3600);
    it.fails.store(true, Ordering::SeqCst);
    assert!(it.assume(&ada()).await.is_err());
    it.fails.store(false, Ordering::SeqCst);
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA1");
}

#[tokio::test(start_paused = true)]
async fn invalidates_only_old_matching_credentials() {
    let it = setup(3600);
    let first = it.cached.assume(&ada(), &"any".into()).await.unwrap();
    it.cached.invalidate(&ada(), &first);
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA0", "a backend cannot cause a storm");
    it.pass(31).await;
    it.cached.invalidate(&ada(), &first);
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA1");
    it.pass(31).await;
    it.cached.invalidate(&ada(), &first);
    assert_eq!(it.assume(&ada()).await.unwrap(), "ASIA1", "the new ones are not meant");
}

#[tokio::test(start_paused = true)]
async fn cache_is_bounded() {
    let it = setup(3600);
    for number in 0..500 {
        it.assume(&role_session("reader", &format!("user-{number}"), 3600, &[])).await.unwrap();
    }
    assert!(it.cached.len() <= 64, "{}", it.cached.len());
}
