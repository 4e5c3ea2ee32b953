//! Candidate for the leadership among replicas.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, error::Elapsed, sleep, timeout};

use crate::environment::Environment;
use crate::message::message;

/// Delay of the next attempt after a renewal that failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Longest delay between two attempts to acquire while the API server fails.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Time for the request that gives a Lease up.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Times of a leader election.
///
/// # Defaults
///
/// A Lease is free 15 s after its last renewal; the leader renews every 2 s and gives up after 10 s.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// Time after which a Lease that its holder did not renew is free. Whole seconds.
    pub duration: Duration,
    /// Time within which the holder has to renew the Lease. Shorter than its duration, so that two replicas never lead at once.
    pub renew_timeout: Duration,
    /// Time between two renewals, and between two attempts to acquire.
    pub interval: Duration,
}

/// Candidate for the leadership.
#[derive(Debug)]
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    /// Name of this replica.
    identity: String,
    environment: Environment,
    timing: Timing,
    is_creator: bool,
    /// The Lease as this replica wrote it last, which it renews without reading it again.
    held: Option<Lease>,
    /// The Lease as it was seen last, and when it was first seen so. The clocks of other replicas do not matter.
    observed: Option<(LeaseSpec, Instant)>,
    /// Reason for which the last attempt had no result.
    problem: watch::Sender<Option<String>>,
}

/// The Lease has another holder, or was not renewed in time.
#[derive(Debug, thiserror::Error)]
#[error("lost the leadership: the Lease {name} was not renewed within {} s", timeout.as_secs())]
pub struct LostLeadership {
    name: String,
    timeout: Duration,
}

/// Result of an attempt to hold the Lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Attempt {
    /// This replica holds it.
    Held,
    /// Another replica holds it.
    HeldByOther,
    /// Another writer changed the Lease meanwhile.
    Conflict,
    /// The Lease does not exist, and this replica does not create it.
    Missing,
}

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_timeout: Duration::from_secs(10),
            interval: Duration::from_secs(2),
        }
    }
}

// === impl Candidate ===

impl Candidate {
    /// Creates a candidate with the default times, which creates the Lease if it does not exist. `identity` differs between
    /// replicas.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: String,
        environment: Environment,
    ) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity,
            environment,
            timing: Timing::default(),
            is_creator: true,
            held: None,
            observed: None,
            problem: watch::Sender::new(None),
        }
    }

    /// Returns a receiver of the reason for which the Lease can be neither read nor written. It is `None` while another
    /// replica leads.
    #[must_use]
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        self.problem.subscribe()
    }

    /// Sets the times.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Waits for the Lease while it does not exist: another program creates it.
    #[must_use]
    pub fn without_creation(mut self) -> Self {
        self.is_creator = false;
        self
    }

    /// Waits until this replica leads.
    pub async fn acquire(&mut self) {
        let mut failures: u32 = 0;
        loop {
            let result = timeout(self.timing.renew_timeout, self.try_hold()).await;
            self.report(&result, "lease not acquired");
            match result {
                Ok(Ok(Attempt::Held)) => {
                    tracing::info!(lease = %self.name, identity = %self.identity, "leading");
                    return;
                }
                Ok(Ok(Attempt::HeldByOther | Attempt::Conflict)) => failures = 0,
                Ok(Ok(Attempt::Missing) | Err(_)) | Err(_) => failures = failures.saturating_add(1),
            }
            sleep(self.delay(failures)).await;
        }
    }

    /// Renews the Lease until it is lost.
    pub async fn renew(&mut self) -> LostLeadership {
        let Timing { duration: _, renew_timeout, interval } = self.timing;
        let mut renewed = Instant::now();
        let mut delay = interval;
        loop {
            sleep(delay).await;
            let left = renew_timeout.saturating_sub(renewed.elapsed());
            let start = Instant::now();
            delay = RETRY_DELAY.min(interval);
            let result = timeout(left, self.try_hold()).await;
            self.report(&result, "lease not renewed");
            match result {
                Ok(Ok(Attempt::Held)) => (renewed, delay) = (start, interval),
                Ok(Ok(Attempt::HeldByOther)) => break,
                // Another writer than a candidate, such as the one that owns the Lease, may have changed its metadata.
                Ok(Ok(Attempt::Conflict | Attempt::Missing) | Err(_)) | Err(_) => {}
            }
            if renewed.elapsed() >= renew_timeout {
                break;
            }
        }
        LostLeadership { name: self.name.clone(), timeout: renew_timeout }
    }

    /// Publishes the problem of an attempt, and logs it unless it is that of the attempt before.
    fn report(&self, result: &Result<kube::Result<Attempt>, Elapsed>, event: &'static str) {
        let problem = match result {
            Ok(Ok(Attempt::Held | Attempt::HeldByOther | Attempt::Conflict)) => None,
            Ok(Ok(Attempt::Missing)) => Some(format!("the Lease {} does not exist", self.name)),
            Ok(Err(error)) => Some(message(error)),
            Err(_) => Some("the API server does not respond in time".to_owned()),
        };
        let is_new = self.problem.send_if_modified(|last| {
            let is_new = *last != problem;
            last.clone_from(&problem);
            is_new
        });
        match problem {
            Some(problem) if is_new => tracing::warn!(lease = %self.name, problem, "{event}"),
            Some(problem) => tracing::debug!(lease = %self.name, problem, "{event}"),
            None => {}
        }
    }

    /// Gives the Lease up if this replica holds it, so that another one need not wait until it expires.
    pub async fn release(&mut self) {
        self.held = None;
        let release = async {
            let mut lease = self.leases.get(&self.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if !matches!(timeout(RELEASE_TIMEOUT, release).await, Ok(Ok(()))) {
            tracing::warn!(lease = %self.name, "lease not released");
        }
    }

    /// Returns the time until the next attempt to acquire: not after the Lease expires.
    fn delay(&self, failures: u32) -> Duration {
        if failures > 0 {
            return self.environment.backoff(self.timing.interval, MAX_BACKOFF, failures);
        }
        let delay = self.environment.jitter(self.timing.interval);
        let expiry = self.observed.as_ref().map(|(spec, since)| {
            let left = lease_duration(spec).saturating_sub(since.elapsed());
            // The clock of the timers counts milliseconds.
            left + Duration::from_millis(1)
        });
        expiry.map_or(delay, |left| delay.min(left))
    }

    /// Creates, takes or renews the Lease.
    async fn try_hold(&mut self) -> kube::Result<Attempt> {
        let now = MicroTime(self.environment.now());
        // Taken: after a failure, or without a response, the Lease is read again.
        if let Some(mut lease) = self.held.take() {
            lease.spec.get_or_insert_default().renew_time = Some(now.clone());
            if self.write(&lease).await? == Attempt::Held {
                return Ok(Attempt::Held);
            }
        }
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
            self.observed = None;
            return if self.is_creator { self.create(now).await } else { Ok(Attempt::Missing) };
        };
        self.take(lease, now).await
    }

    /// Takes or renews a Lease that was read.
    async fn take(&mut self, mut lease: Lease, now: MicroTime) -> kube::Result<Attempt> {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let is_own = holder == self.identity;
        if !is_own && !holder.is_empty() && !self.is_expired(&spec) {
            return Ok(Attempt::HeldByOther);
        }
        self.observed = None;
        let mut next = self.spec(now);
        next.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + i32::from(!is_own));
        if is_own {
            next.acquire_time = spec.acquire_time;
        }
        lease.spec = Some(next);
        self.write(&lease).await
    }

    /// Replaces the Lease. Its resource version lets one of several candidates succeed.
    async fn write(&mut self, lease: &Lease) -> kube::Result<Attempt> {
        let result = self.leases.replace(&self.name, &PostParams::default(), lease).await;
        self.written(result)
    }

    async fn create(&mut self, now: MicroTime) -> kube::Result<Attempt> {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(self.spec(now)) };
        let result = self.leases.create(&PostParams::default(), &lease).await;
        self.written(result)
    }

    fn written(&mut self, result: kube::Result<Lease>) -> kube::Result<Attempt> {
        match result {
            Ok(lease) => {
                self.held = Some(lease);
                Ok(Attempt::Held)
            }
            // 404: it was deleted since it was read.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(Attempt::Conflict)
            }
            Err(error) => Err(error),
        }
    }

    fn spec(&self, now: MicroTime) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.timing.duration.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        }
    }

    /// Returns whether the Lease of another replica was not renewed for its duration, as this replica saw it.
    fn is_expired(&mut self, spec: &LeaseSpec) -> bool {
        match &self.observed {
            Some((seen, since)) if seen == spec => since.elapsed() >= lease_duration(spec),
            _ => {
                self.observed = Some((spec.clone(), Instant::now()));
                false
            }
        }
    }
}

fn lease_duration(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
