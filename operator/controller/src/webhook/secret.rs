//! Secret with the certificates, which replicas share.

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use super::certificate::CertificateError;
use super::certificate_set::CertificateSet;
use super::{ServiceName, is_own, labels};
use crate::apply::{ApplyError, within};
use crate::key::Key;
use crate::names::FIELD_MANAGER;

/// Type of the Secret.
const TYPE: &str = "kubernetes.io/tls";

const KIND: &str = "Secret";

/// Secret with the certificates.
#[derive(Debug)]
pub(super) struct CertificateSecret {
    api: Api<Secret>,
    key: Key,
    service: ServiceName,
}

/// Secret as it was read.
pub(super) enum Found {
    /// It does not exist.
    Absent,
    /// It belongs to others.
    Foreign,
    /// Its values cannot be used.
    Unusable(Box<Secret>, CertificateError),
    /// Its certificates.
    Usable(Box<Secret>, Box<CertificateSet>),
}

// === impl CertificateSecret ===

impl CertificateSecret {
    pub(super) fn new(client: Client, service: ServiceName) -> Self {
        let api = Api::namespaced(client, &service.namespace);
        let key = Key::new(&service.namespace, &format!("{}-certificate", service.name));
        Self { api, key, service }
    }

    pub(super) async fn read(&self) -> Result<Found, ApplyError> {
        let found = within(KIND, &self.key, self.api.get_opt(&self.key.name)).await?;
        let Some(secret) = found else { return Ok(Found::Absent) };
        if !is_own(&secret.metadata, &self.service) {
            return Ok(Found::Foreign);
        }
        let values = secret.data.clone().unwrap_or_default();
        Ok(match CertificateSet::parse(&values, &self.service.dns_name()) {
            Ok(certificates) => Found::Usable(Box::new(secret), Box::new(certificates)),
            Err(error) => Found::Unusable(Box::new(secret), error),
        })
    }

    /// Creates the Secret. Returns `false` if another replica did so meanwhile.
    pub(super) async fn create(&self, certificates: &CertificateSet) -> Result<bool, ApplyError> {
        let mut secret = Secret {
            data: Some(certificates.values()),
            type_: Some(TYPE.to_owned()),
            ..Secret::default()
        };
        secret.metadata.name = Some(self.key.name.to_string());
        secret.metadata.labels = Some(labels(&self.service));
        let created = within(KIND, &self.key, self.api.create(&parameters(), &secret)).await;
        self.written(created, "webhook certificate created")
    }

    /// Replaces the certificates in a Secret that was read. Returns `false` if another replica changed it meanwhile.
    pub(super) async fn replace(
        &self,
        mut secret: Secret,
        certificates: &CertificateSet,
    ) -> Result<bool, ApplyError> {
        secret.data = Some(certificates.values());
        secret.labels_mut().extend(labels(&self.service));
        let parameters = parameters();
        let replace = self.api.replace(&self.key.name, &parameters, &secret);
        let replaced = within(KIND, &self.key, replace).await;
        self.written(replaced, "webhook certificate changed")
    }

    /// Returns the error of a Secret that belongs to others.
    pub(super) fn foreign(&self) -> ApplyError {
        let owner = format!("has no label {} of this operator", super::LABEL);
        ApplyError::Foreign { kind: KIND.to_owned(), key: self.key.clone(), owner }
    }

    fn written(
        &self,
        result: Result<Secret, ApplyError>,
        event: &'static str,
    ) -> Result<bool, ApplyError> {
        match result {
            Ok(_) => {
                tracing::info!(secret = %self.key, "{event}");
                Ok(true)
            }
            Err(ApplyError::Request { source: kube::Error::Api(status), .. })
                if status.code == 409 =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}
