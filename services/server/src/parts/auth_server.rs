//! `authServer`: components of the embedded authorization server. Building them sends no request and stores nothing.

mod convert;
mod observed_provider;
mod report;
mod storage;
mod upstreams;
mod weak_secret;

use std::fmt;
use std::sync::Arc;

use vmcp_auth_server::{
    AuthServer, HmacKeyRing, Observer, Scopes, Settings, StartError, StoredRegistrations, Upstream,
};
use vmcp_auth_store::{Limits, MemoryStore, Store};
use vmcp_config::{
    AuthServer as Section, ConfigError, IncomingAuth as IncomingSection, IncomingMethod,
    SecretFile, Warning,
};
use vmcp_core::Clock;
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};
use vmcp_upstream::{Provider, SettingsError};

pub(crate) use self::observed_provider::ObservedProvider;
pub use self::report::{AuthServerReport, ProviderStatus, StorageStatus};
pub(crate) use self::storage::Storage;
pub use self::storage::StorageError;
use super::secret_files::SecretFiles;

/// Embedded authorization server, ready to start.
pub struct AuthServerParts {
    settings: Settings,
    upstreams: Vec<vmcp_upstream::Settings>,
    fetchers: Fetchers,
    /// Storage of the authorization state.
    pub(crate) storage: Storage,
    /// Digest of the storage address.
    pub(crate) storage_address_digest: u64,
    /// Digest of the storage address and its credentials: passwords and certificates.
    pub(crate) storage_digest: u64,
    /// Digest of all inputs, secrets included.
    pub(crate) digest: u64,
}

/// HTTP clients of the authorization server.
#[derive(Clone, Debug)]
struct Fetchers {
    /// Fetcher for URLs that the operator configured.
    configured: Fetcher,
    /// Fetcher for URLs that only a provider's metadata names.
    supplied: Fetcher,
    /// Fetcher for metadata documents of clients.
    documents: Fetcher,
}

/// Result of converting the section.
#[derive(Debug, Default)]
pub(super) struct Conversion {
    pub(super) auth_server: Option<AuthServerParts>,
    pub(super) errors: Vec<ConfigError>,
    pub(super) warnings: Vec<Warning>,
}

/// Converter of the section, which collects errors.
#[derive(Default)]
struct Converter {
    files: SecretFiles,
    errors: Vec<ConfigError>,
    warnings: Vec<Warning>,
}

/// Converts the section of the server `name`.
pub(super) fn convert(
    name: &str,
    section: Section<SecretFile>,
    incoming: &IncomingSection,
    egress: &Egress,
) -> Conversion {
    let mut converter = Converter::default();
    let auth_server = match &incoming.method {
        IncomingMethod::Oidc(oidc) => converter.convert(name, section, oidc, egress),
        IncomingMethod::Anonymous | IncomingMethod::Local => {
            let allowed = "oidc, with the issuer of authServer";
            converter.reject("incomingAuth.type", "a type that takes no tokens", allowed);
            None
        }
    };
    let Converter { files, mut errors, warnings } = converter;
    errors.extend(files.errors);
    Conversion { auth_server: auth_server.filter(|_| errors.is_empty()), errors, warnings }
}

// === impl Issuing ===

impl AuthServerParts {
    /// Returns the issuer identifier.
    pub(crate) fn issuer(&self) -> &str {
        self.settings.issuer.as_str()
    }

    /// Creates the server with its state in `store`, and its providers. It reports events to `observer`. Generated keys
    /// and secrets of `before` are kept.
    ///
    /// # Errors
    /// Returns an error if the settings are inconsistent.
    pub(crate) fn build(
        &self,
        store: Arc<dyn Store>,
        before: Option<&AuthServer>,
        observer: Arc<dyn Observer>,
    ) -> Result<(AuthServer, Vec<Arc<ObservedProvider>>), StartError> {
        let mut settings = self.settings.clone();
        if let Some(before) = before.map(AuthServer::settings) {
            if settings.keys.is_ephemeral() && before.keys.is_ephemeral() {
                settings.keys = before.keys.clone();
            }
            if settings.hmac.is_ephemeral() && before.hmac.is_ephemeral() {
                settings.hmac = before.hmac.clone();
            }
        }
        let providers = self.providers(&store, &settings.hmac);
        let server = AuthServer::new(settings, store, upstreams(&providers), Clock::system())?;
        let mut server = server.with_client_metadata(self.fetchers.documents.clone());
        if let Some(before) = before {
            server = server.with_shared_revocations(before);
        }
        Ok((server.with_observer(observer), providers))
    }

    /// Returns the error of a provider's settings.
    fn provider_error(&self, settings: &vmcp_upstream::Settings) -> Option<SettingsError> {
        self.fetchers.provider(settings, &temporary_store(), &self.settings.hmac).err()
    }

    /// Creates a server with temporary state, and returns all errors.
    fn start_errors(&self) -> Vec<StartError> {
        let store = temporary_store();
        // Errors of single providers are reported already.
        let providers = self.try_providers(&store, &self.settings.hmac);
        let Ok(providers) = providers else { return Vec::new() };
        let providers = upstreams(&providers);
        let start = |settings: &Settings, providers: Vec<_>| {
            AuthServer::new(settings.clone(), Arc::clone(&store), providers, Clock::system())
        };
        let Err(first) = start(&self.settings, providers.clone()) else { return Vec::new() };
        // A server reports only its first error, so each scope and each provider is tested separately.
        let with = |scopes| Settings { baseline_scopes: scopes, ..self.settings.clone() };
        let scopes = self
            .settings
            .baseline_scopes
            .iter()
            .map(|it| Scopes::new([it]).expect("each scope of a valid list is valid"));
        let scopes = scopes.filter_map(|scope| match start(&with(scope), Vec::new()) {
            Err(error @ StartError::UnsupportedBaselineScope(_)) => Some(error),
            Ok(_) | Err(_) => None,
        });
        let none = with(Scopes::default());
        let alone = providers.into_iter().filter_map(|it| start(&none, vec![it]).err());
        let errors: Vec<_> = scopes.chain(alone).collect();
        if errors.is_empty() { vec![first] } else { errors }
    }

    fn providers(
        &self,
        store: &Arc<dyn Store>,
        secrets: &HmacKeyRing,
    ) -> Vec<Arc<ObservedProvider>> {
        let providers = self.try_providers(store, secrets);
        providers.expect("a section with an unusable provider makes no parts")
    }

    fn try_providers(
        &self,
        store: &Arc<dyn Store>,
        secrets: &HmacKeyRing,
    ) -> Result<Vec<Arc<ObservedProvider>>, SettingsError> {
        let provider = |settings: &vmcp_upstream::Settings| {
            let provider = self.fetchers.provider(settings, store, secrets)?;
            Ok(Arc::new(ObservedProvider::new(provider, settings)))
        };
        self.upstreams.iter().map(provider).collect()
    }
}

impl fmt::Debug for AuthServerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuing").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn upstreams(providers: &[Arc<ObservedProvider>]) -> Vec<Arc<dyn Upstream>> {
    providers.iter().map(|provider| Arc::clone(provider) as Arc<dyn Upstream>).collect()
}

/// Creates a memory store. Its state is lost when the store is dropped.
fn temporary_store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Limits::default(), Clock::system()))
}

// === impl Fetchers ===

impl Fetchers {
    fn new(egress: &Egress) -> Self {
        // The operator configures these providers, so they may be on any network. The check of their URLs decides on
        // plain HTTP.
        let configured =
            FetchPolicy { addresses: FetchAddresses::Any, http: true, ..FetchPolicy::supplied() };
        let documents = FetchPolicy { redirects: false, ..FetchPolicy::supplied() };
        let fetcher = |policy| {
            let fetcher = Fetcher::new(egress.clone(), policy);
            fetcher.expect("only the CA bundle of a policy can be invalid, and these have none")
        };
        Self {
            configured: fetcher(configured),
            supplied: fetcher(FetchPolicy::supplied()),
            documents: fetcher(documents),
        }
    }

    fn provider(
        &self,
        settings: &vmcp_upstream::Settings,
        store: &Arc<dyn Store>,
        secrets: &HmacKeyRing,
    ) -> Result<Provider, SettingsError> {
        let clock = Clock::system;
        let registrations = StoredRegistrations::new(Arc::clone(store), secrets, clock());
        Provider::new(
            settings.clone(),
            self.configured.clone(),
            self.supplied.clone(),
            Arc::new(registrations),
            clock(),
        )
    }
}

#[cfg(test)]
mod tests;
