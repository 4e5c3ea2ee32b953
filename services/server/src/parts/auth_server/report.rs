//! Status of the authorization server for `/status` and `inspect`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Arc, AuthServerParts, ObservedProvider, Store};

/// Time limit for the store's response.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// Status of the authorization server, its store and its providers.
#[derive(Clone, Debug)]
pub struct AuthServerReport {
    /// Issuer of the tokens.
    pub issuer: String,
    /// Status of the store.
    pub storage: StorageStatus,
    /// Status of each provider, in the order of the logins.
    pub upstreams: Vec<ProviderStatus>,
}

/// Kind and status of the store.
#[derive(Clone, Debug)]
pub struct StorageStatus {
    /// `memory` or `redis`.
    pub kind: &'static str,
    /// One of `ready`, `unavailable` and `unknown`.
    pub status: &'static str,
    /// Error, if the status is `unavailable`.
    pub message: Option<String>,
}

/// Status of an upstream provider.
#[derive(Clone, Debug)]
pub struct ProviderStatus {
    /// Name of the provider.
    pub name: String,
    /// `oidc` or `oauth2`.
    pub kind: &'static str,
    /// Issuer, or the authorization endpoint without one.
    pub at: String,
    /// One of `ready`, `unavailable` and `unknown`.
    pub status: &'static str,
    /// Error, if the status is `unavailable`.
    pub message: Option<String>,
}

impl AuthServerParts {
    /// Checks the store and the providers as a server does at start.
    pub async fn check(&self) -> AuthServerReport {
        let opened = timeout(STORE_TIMEOUT, self.storage.open()).await;
        let found = match &opened {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", STORE_TIMEOUT.as_secs())),
        };
        let store: Arc<dyn Store> =
            opened.ok().and_then(Result::ok).unwrap_or_else(super::temporary_store);
        let providers = self.providers(&store, &self.settings.hmac);
        futures_util::future::join_all(providers.iter().map(|provider| provider.check())).await;
        AuthServerReport {
            issuer: self.issuer().to_owned(),
            storage: StorageStatus::new(self.storage.kind(), Some(found)),
            upstreams: providers
                .iter()
                .map(|provider| ObservedProvider::report(provider))
                .collect(),
        }
    }
}

// === impl Report ===

impl AuthServerReport {
    /// Returns the report as a member of `/status` and `inspect -o json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { issuer, storage: StorageStatus { kind, status, message }, upstreams } = self;
        let upstream = |found: &ProviderStatus| {
            let ProviderStatus { name, kind, at, status, message } = found;
            json!({"name": name, "type": kind, "url": at, "status": status, "message": message})
        };
        json!({
            "issuer": issuer,
            "storage": {"type": kind, "status": status, "message": message},
            "upstreams": upstreams.iter().map(upstream).collect::<Vec<_>>(),
        })
    }
}

// === impl Stored ===

impl StorageStatus {
    /// Creates the status from the last result; `found` is `None` before the first check.
    pub(crate) fn new(kind: &'static str, found: Option<Result<(), String>>) -> Self {
        match found {
            None => Self { kind, status: "unknown", message: None },
            Some(Ok(())) => Self { kind, status: "ready", message: None },
            Some(Err(message)) => Self { kind, status: "unavailable", message: Some(message) },
        }
    }
}
