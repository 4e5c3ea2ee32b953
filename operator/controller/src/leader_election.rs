//! Leader election on a Lease: one replica of the operator writes.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};

use crate::environment::Environment;

/// Time after which a Lease that its holder did not renew is free.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// Time within which the holder has to renew the Lease. Shorter than its duration, so that two replicas never lead at once.
const RENEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Candidate for the leadership.
pub(crate) struct Candidate {
    leases: Api<Lease>,
    name: String,
    /// Name of this replica.
    identity: String,
    environment: Environment,
    /// The Lease as it was seen last, and when it was first seen so. The clocks of other replicas do not matter.
    observed: Option<(LeaseSpec, Instant)>,
}

/// The Lease has another holder, or was not renewed in time.
#[derive(Debug, thiserror::Error)]
#[error("lost the leadership: the Lease {name} was not renewed within {} s", RENEW_TIMEOUT.as_secs())]
pub struct LostLeadership {
    name: String,
}

// === impl Candidate ===

impl Candidate {
    pub(crate) fn new(
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
            observed: None,
        }
    }

    /// Waits until this replica leads.
    pub(crate) async fn acquire(&mut self) {
        loop {
            match timeout(RENEW_TIMEOUT, self.try_hold()).await {
                Ok(Ok(true)) => {
                    tracing::info!(lease = %self.name, identity = %self.identity, "leading");
                    return;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(lease = %self.name, %error, "lease not acquired"),
                Err(_) => tracing::warn!(lease = %self.name, "lease not acquired: no response"),
            }
            sleep(self.environment.jitter(RETRY_INTERVAL)).await;
        }
    }

    /// Renews the Lease until it is lost.
    pub(crate) async fn renew(&mut self) -> LostLeadership {
        let mut renewed = Instant::now();
        loop {
            sleep(RETRY_INTERVAL).await;
            let left = RENEW_TIMEOUT.saturating_sub(renewed.elapsed());
            let start = Instant::now();
            match timeout(left, self.try_hold()).await {
                Ok(Ok(true)) => renewed = start,
                Ok(Ok(false)) => break,
                Ok(Err(error)) => tracing::warn!(lease = %self.name, %error, "lease not renewed"),
                Err(_) => {}
            }
            if renewed.elapsed() >= RENEW_TIMEOUT {
                break;
            }
        }
        LostLeadership { name: self.name.clone() }
    }

    /// Gives the Lease up, so that another replica need not wait until it expires.
    pub(crate) async fn release(&mut self) {
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
        if !matches!(timeout(RETRY_INTERVAL, release).await, Ok(Ok(()))) {
            tracing::warn!(lease = %self.name, "lease not released");
        }
    }

    /// Creates, takes or renews the Lease. Returns `false` if another replica holds it.
    async fn try_hold(&mut self) -> kube::Result<bool> {
        let now = MicroTime(self.environment.now());
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            return self.create(now).await;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let is_own = holder == self.identity;
        if !is_own && !holder.is_empty() && !self.is_expired(&spec) {
            return Ok(false);
        }
        let mut next = self.spec(now);
        next.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + i32::from(!is_own));
        if is_own {
            next.acquire_time = spec.acquire_time;
        }
        lease.spec = Some(next);
        // The resource version of the read lets one of several candidates succeed.
        match self.leases.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, now: MicroTime) -> kube::Result<bool> {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(self.spec(now)) };
        match self.leases.create(&PostParams::default(), &lease).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn spec(&self, now: MicroTime) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        }
    }

    /// Returns whether the Lease of another replica was not renewed for its duration, as this replica saw it.
    fn is_expired(&mut self, spec: &LeaseSpec) -> bool {
        match &self.observed {
            Some((seen, since)) if seen == spec => {
                let seconds = spec.lease_duration_seconds.unwrap_or(0);
                since.elapsed() >= Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
            }
            _ => {
                self.observed = Some((spec.clone(), Instant::now()));
                false
            }
        }
    }
}
