//! Reconciliation of the certificates and the configuration, by the replica that leads; the others follow.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use vmcp_lease::Environment;

use super::ServiceName;
use super::certificate::CertificateError;
use super::certificate_set::CertificateSet;
use super::configuration::Configuration;
use super::secret::{CertificateSecret, Found};
use crate::apply::ApplyError;
use crate::metrics::Metrics;

/// Time between two looks at the Secret and the configuration, before jitter.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Delay of the next attempt after a failure.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Reconciler of the certificates and the configuration.
pub(super) struct Reconciler {
    pub(super) service: ServiceName,
    pub(super) secret: CertificateSecret,
    pub(super) configuration: Configuration,
    pub(super) environment: Environment,
    pub(super) metrics: Arc<Metrics>,
    /// `true` while this replica leads.
    pub(super) leading: watch::Receiver<bool>,
    /// Certificate in use.
    pub(super) tls: watch::Sender<Option<Arc<ServerConfig>>>,
    /// Certificates as they were read last: a Secret that was deleted or damaged gets them back.
    pub(super) known: Option<CertificateSet>,
}

/// Failure of a step.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Request(#[from] ApplyError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("another replica changed the Secret")]
    Conflict,
}

// === impl Reconciler ===

impl Reconciler {
    pub(super) fn new(
        client: &Client,
        service: ServiceName,
        namespaces: Vec<String>,
        environment: Environment,
        metrics: Arc<Metrics>,
        leading: watch::Receiver<bool>,
    ) -> Self {
        Self {
            secret: CertificateSecret::new(client.clone(), service.clone()),
            configuration: Configuration::new(client.clone(), service.clone(), namespaces),
            service,
            environment,
            metrics,
            leading,
            tls: watch::Sender::new(None),
            known: None,
        }
    }

    /// Reconciles until the future is dropped.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        loop {
            let delay = match self.step().await {
                Ok(true) => {
                    failures = 0;
                    continue;
                }
                Ok(false) => {
                    failures = 0;
                    self.environment.jitter(POLL_INTERVAL)
                }
                Err(error) => {
                    failures += 1;
                    let delay = self.environment.backoff(FIRST_DELAY, POLL_INTERVAL, failures);
                    tracing::warn!(%error, delay_ms = delay.as_millis(), "webhook not reconciled");
                    delay
                }
            };
            self.pause(delay).await;
        }
    }

    /// Waits until the next step is due: at once when this replica begins to lead.
    async fn pause(&mut self, delay: Duration) {
        if timeout(delay, self.leading.changed()).await.is_ok_and(|changed| changed.is_err()) {
            // The operator ends.
            sleep(delay).await;
        }
    }

    /// Takes the certificates over and mends what is not so. Returns whether another step is due at once.
    async fn step(&mut self) -> Result<bool, StepError> {
        let is_leading = *self.leading.borrow_and_update();
        let (secret, certificates) = match self.secret.read().await? {
            Found::Usable(secret, certificates) => (secret, certificates),
            Found::Absent => {
                let certificates = self.replacement()?;
                return again(self.secret.create(&certificates).await?);
            }
            Found::Unusable(secret, error) if is_leading => {
                tracing::warn!(%error, "webhook certificate unusable");
                let certificates = self.replacement()?;
                return again(self.secret.replace(*secret, &certificates).await?);
            }
            Found::Unusable(_, error) => return Err(error.into()),
            Found::Foreign => return Err(self.secret.foreign().into()),
        };
        self.serve(*certificates.clone())?;
        if !is_leading {
            return Ok(false);
        }
        let trusted = self.configuration.apply(&certificates.bundle()).await?;
        match certificates.due(&trusted, &self.service.dns_name(), &self.environment)? {
            Some(next) => again(self.secret.replace(*secret, &next).await?),
            None => Ok(false),
        }
    }

    /// Returns the certificates for a Secret that has none: those in use, or else new ones.
    fn replacement(&self) -> Result<CertificateSet, CertificateError> {
        let now = self.environment.now();
        let known = self.known.clone().filter(|known| !known.current.is_expired(now));
        known.map_or_else(
            || CertificateSet::generate(&self.service.dns_name(), &self.environment),
            Ok,
        )
    }

    /// Serves with the certificate.
    fn serve(&mut self, certificates: CertificateSet) -> Result<(), CertificateError> {
        let current = &certificates.current;
        let left = current.validity.end.duration_since(self.environment.now());
        self.metrics.set_certificate_left(left.as_secs());
        let is_known = self
            .known
            .as_ref()
            .is_some_and(|known| known.current.certificate == current.certificate);
        if !is_known {
            self.tls.send_replace(Some(current.server_config()?));
            tracing::info!(end = %current.validity.end, "webhook certificate in use");
        }
        self.known = Some(certificates);
        Ok(())
    }
}

/// Returns that another step is due after a write. If another replica was faster, its certificates count.
fn again(is_written: bool) -> Result<bool, StepError> {
    if is_written { Ok(true) } else { Err(StepError::Conflict) }
}

/// Deletes the configuration of a webhook that the operator does not serve, as soon as this replica leads.
pub(super) async fn remove_configuration(
    configuration: Configuration,
    environment: Environment,
    mut leading: watch::Receiver<bool>,
) {
    if leading.wait_for(|is_leading| *is_leading).await.is_err() {
        return;
    }
    let mut failures = 0;
    while let Err(error) = configuration.delete().await {
        failures += 1;
        let delay = environment.backoff(FIRST_DELAY, POLL_INTERVAL, failures);
        tracing::warn!(%error, delay_ms = delay.as_millis(), "webhook configuration not deleted");
        sleep(delay).await;
    }
}
