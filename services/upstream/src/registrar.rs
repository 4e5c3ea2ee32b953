//! Dynamic registration at a provider (RFC 7591), once for all replicas and restarts.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use serde_json::{Map, Value, json};
use vmcp_core::{Body, Clock, SingleFlight};

use crate::client::{is_printable, issuers_of};
use crate::discovery::{Discovery, Metadata};
use crate::form::bearer;
use crate::provider_http::{ProviderHttp, ProviderHttpPair};
use crate::{
    AuthMethod, DynamicClient, Endpoint, EndpointError, EndpointKind, ProviderError, Registration,
    RegistrationKey, RegistrationSource, Registrations, Scopes, Settings, SettingsError,
};

/// Time before the expiry of its secret at which a registration is replaced, so that a login can
/// finish.
const RENEWAL_MARGIN: Duration = Duration::from_hours(1);

/// Interval between retries of a failed registration: browsers that start logins must not overload
/// the provider.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum lifetime of a registration, for expiry times beyond the range of dates.
const MAX_LIFETIME: Duration = Duration::from_hours(87600);

/// Client registration of this server at a provider. Clones share the state.
#[derive(Clone)]
pub(crate) struct Registrar(Arc<Inner>);

struct Inner {
    dynamic: DynamicClient,
    endpoint_source: RegistrationEndpoint,
    key: RegistrationKey,
    client_name: Box<str>,
    redirect_uri: Endpoint,
    scopes: Scopes,
    stored: Arc<dyn Registrations>,
    clock: Clock,
    cached: Mutex<CachedRegistrations>,
    flights: SingleFlight<(), Result<Registration, ProviderError>>,
}

/// Source of the registration endpoint.
enum RegistrationEndpoint {
    Configured(Endpoint, ProviderHttp),
    Discovered(Discovery),
}

/// Registrations that this process knows.
#[derive(Default)]
struct CachedRegistrations {
    current: Option<Registration>,
    /// Client that the provider has forgotten.
    refused: Option<Box<str>>,
    /// Last error and its time.
    failed: Option<(ProviderError, SystemTime)>,
}

// === impl Registrar ===

impl Registrar {
    pub(crate) fn new(
        settings: &Settings,
        dynamic: DynamicClient,
        http_clients: ProviderHttpPair,
        stored: Arc<dyn Registrations>,
        clock: Clock,
    ) -> Result<Self, SettingsError> {
        let (issuer, endpoint_source) = match &dynamic.source {
            RegistrationSource::Endpoint(endpoint) => (
                endpoint.uri().to_string(),
                RegistrationEndpoint::Configured(endpoint.clone(), http_clients.configured),
            ),
            RegistrationSource::Discovery(url) => {
                let issuers = issuers_of(url)?;
                let name = issuers.first().map(|issuer| issuer.as_str().to_owned());
                let discovery = Discovery::at(url.clone(), issuers, http_clients, clock.clone());
                (name.unwrap_or_default(), RegistrationEndpoint::Discovered(discovery))
            }
        };
        let key = RegistrationKey {
            issuer: issuer.into(),
            issuer_id: settings.kind.issuer_id(),
            provider: settings.name.clone(),
            redirect_uri: settings.redirect_uri.uri().to_string().into(),
            scopes: scopes_digest(&settings.scopes),
        };
        Ok(Self(Arc::new(Inner {
            dynamic,
            endpoint_source,
            key,
            client_name: settings.client_name.clone(),
            redirect_uri: settings.redirect_uri.clone(),
            scopes: settings.scopes.clone(),
            stored,
            clock,
            cached: Mutex::default(),
            flights: SingleFlight::new(),
        })))
    }

    /// Returns the discovery of the provider, if the registration endpoint is discovered.
    pub(crate) fn discovery(&self) -> Option<&Discovery> {
        match &self.0.endpoint_source {
            RegistrationEndpoint::Discovered(discovery) => Some(discovery),
            RegistrationEndpoint::Configured(..) => None,
        }
    }

    /// Returns the metadata of the provider, if it is discovered.
    pub(crate) async fn metadata(&self) -> Result<Option<Arc<Metadata>>, ProviderError> {
        match self.discovery() {
            Some(discovery) => discovery.get().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the client for a new login: the stored one, shared by all replicas, or a new one if
    /// that is missing or about to expire.
    pub(crate) async fn current(&self) -> Result<Registration, ProviderError> {
        let inner = Arc::clone(&self.0);
        self.0.flights.join((), || async move { inner.get_or_register().await }).await
    }

    /// Returns the client `id`, if it is the stored one: another replica may have registered it.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Registration>, ProviderError> {
        let known = self.0.cached().current.clone().filter(|known| *known.client_id == *id);
        if known.is_some() {
            return Ok(known);
        }
        Ok(self.0.load().await?.filter(|stored| *stored.client_id == *id))
    }

    /// Records that the provider has forgotten the client `id`: the next login registers again.
    pub(crate) fn refused(&self, id: &str) {
        let mut known = self.0.cached();
        known.current = known.current.take().filter(|current| *current.client_id != *id);
        known.refused = Some(id.into());
    }
}

// === impl Inner ===

impl Inner {
    fn cached(&self) -> MutexGuard<'_, CachedRegistrations> {
        vmcp_core::lock(&self.cached)
    }

    async fn load(&self) -> Result<Option<Registration>, ProviderError> {
        self.stored.get(&self.key).await.map_err(|error| {
            tracing::warn!(%error, "failed to read a registration at an identity provider");
            ProviderError::RegistrationStore
        })
    }

    async fn get_or_register(&self) -> Result<Registration, ProviderError> {
        let now = self.clock.now();
        let stored = self.load().await;
        let own = self.cached().usable(now);
        let stored = match (stored, own) {
            (Ok(stored), _) => stored,
            (Err(_), Some(own)) => return Ok(own),
            (Err(error), None) => return Err(error),
        };
        if let Some(stored) = self.cached().use_stored(stored.as_ref(), now) {
            return Ok(stored);
        }
        let own = self.cached().usable(now);
        let own = match own {
            Some(own) => own,
            None => self.register_rate_limited(now).await?,
        };
        // Cached before it is stored: a failing store must not cause a registration per login.
        self.cached().current = Some(own.clone());
        let instead_of = stored.as_ref().map(|stored| &*stored.client_id);
        let put = self.stored.put(&self.key, &own, instead_of).await.map_err(|error| {
            tracing::warn!(%error, "failed to store a registration at an identity provider");
            ProviderError::RegistrationStore
        })?;
        // Another replica may have registered at the same time: all continue with the stored
        // client.
        Ok(self.cached().use_stored(Some(&put), now).unwrap_or(own))
    }

    async fn register_rate_limited(&self, now: SystemTime) -> Result<Registration, ProviderError> {
        let failed = self.cached().failed.clone();
        if let Some((error, _)) = failed.filter(|(_, at)| now < *at + RETRY_INTERVAL) {
            return Err(error);
        }
        let outcome = self.register().await;
        self.cached().failed = outcome.as_ref().err().map(|error| (error.clone(), now));
        outcome
    }

    async fn register(&self) -> Result<Registration, ProviderError> {
        let metadata;
        let (endpoint, http_client, method) = match &self.endpoint_source {
            RegistrationEndpoint::Configured(endpoint, http_client) => {
                (endpoint, http_client, AuthMethod::Basic)
            }
            RegistrationEndpoint::Discovered(discovery) => {
                metadata = discovery.get().await?;
                let endpoint = metadata.registration.as_ref();
                let endpoint = endpoint.ok_or(ProviderError::ConfigMismatch(
                    "its metadata names no registration endpoint",
                ))?;
                (endpoint, discovery.http_client(endpoint), select_auth_method(&metadata)?)
            }
        };
        let response =
            http_client.send(EndpointKind::Registration, self.request(endpoint, method)?).await?;
        let now = self.clock.now();
        let registration = parse(&response.object(EndpointKind::Registration)?, method, now)?;
        tracing::info!(provider = %self.key.provider, "registered at an identity provider");
        Ok(registration)
    }

    /// Builds the registration request (RFC 7591 section 3.1).
    fn request(
        &self,
        endpoint: &Endpoint,
        method: AuthMethod,
    ) -> Result<Request<Body>, ProviderError> {
        let DynamicClient { source: _, initial_access_token, software_id, software_statement } =
            &self.dynamic;
        let https = self.redirect_uri.is_https();
        let mut metadata = json!({
            "redirect_uris": [self.redirect_uri.uri().to_string()],
            "client_name": self.client_name,
            "application_type": if https { "web" } else { "native" },
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method.name(),
        });
        let optional = [
            ("scope", self.scopes.joined()),
            ("software_id", software_id.as_deref().map(Into::into)),
            ("software_statement", software_statement.as_deref().map(Into::into)),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                metadata[name] = value.into();
            }
        }
        let mut request = Request::new(Body::from(Bytes::from(metadata.to_string())));
        *request.method_mut() = Method::POST;
        request.uri_mut().clone_from(endpoint.uri());
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = initial_access_token {
            let bearer = bearer(token).ok_or(ProviderError::ConfigMismatch(
                "its initial access token fits in no header",
            ))?;
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(request)
    }
}

// === impl CachedRegistrations ===

impl CachedRegistrations {
    /// Returns the current registration, if a login that starts at `now` can finish with it.
    fn usable(&self, now: SystemTime) -> Option<Registration> {
        self.current.clone().filter(|current| self.can_use(current, now))
    }

    /// Makes the stored registration the current one, if it is usable.
    fn use_stored(
        &mut self,
        stored: Option<&Registration>,
        now: SystemTime,
    ) -> Option<Registration> {
        let stored = stored.filter(|stored| self.can_use(stored, now))?;
        self.current = Some(stored.clone());
        self.current.clone()
    }

    fn can_use(&self, registration: &Registration, now: SystemTime) -> bool {
        let lasts = registration.expires_at.is_none_or(|at| now + RENEWAL_MARGIN < at);
        lasts && self.refused.as_ref() != Some(&registration.client_id)
    }
}

/// Parses a registration response, which takes precedence over the request (RFC 7591 section
/// 3.2.1).
fn parse(
    answer: &Map<String, Value>,
    asked: AuthMethod,
    now: SystemTime,
) -> Result<Registration, ProviderError> {
    let malformed = ProviderError::at(EndpointKind::Registration, EndpointError::Malformed);
    let text = |name: &str| match answer.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if is_printable(text) => Ok(Some(text.as_str())),
        Some(_) => Err(malformed.clone()),
    };
    let client_id = text("client_id")?.ok_or(malformed.clone())?;
    let secret = text("client_secret")?;
    let method = match text("token_endpoint_auth_method")? {
        None => asked,
        Some(name) => [AuthMethod::Basic, AuthMethod::Post, AuthMethod::None]
            .into_iter()
            .find(|method| method.name() == name)
            .ok_or(ProviderError::ConfigMismatch(
                "it registered another client authentication than asked for",
            ))?,
    };
    if method != AuthMethod::None && secret.is_none() {
        return Err(ProviderError::ConfigMismatch(
            "it registered a client without the secret that it needs",
        ));
    }
    let expires = answer.get("client_secret_expires_at").and_then(Value::as_u64).unwrap_or(0);
    let last = now + MAX_LIFETIME;
    let expires_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(expires));
    let expires_at = Some(expires_at.map_or(last, |at| at.min(last)));
    Ok(Registration {
        client_id: client_id.into(),
        secret: secret.filter(|_| method != AuthMethod::None).map(Into::into),
        method,
        expires_at: expires_at.filter(|_| expires != 0),
    })
}

/// Selects an advertised authentication method. A public client requires PKCE.
fn select_auth_method(metadata: &Metadata) -> Result<AuthMethod, ProviderError> {
    let Some(listed) = &metadata.auth_methods else { return Ok(AuthMethod::Basic) };
    let lists = |method: &AuthMethod| listed.iter().any(|name| name == method.name());
    let safe = |method: &AuthMethod| *method != AuthMethod::None || metadata.s256;
    [AuthMethod::Basic, AuthMethod::Post, AuthMethod::None]
        .into_iter()
        .find(|method| lists(method) && safe(method))
        .ok_or(ProviderError::ConfigMismatch(
            "it takes no client secret, and no public client with PKCE",
        ))
}

fn scopes_digest(scopes: &Scopes) -> Box<str> {
    let mut sorted: Vec<&str> = scopes.iter().collect();
    sorted.sort_unstable();
    let digest = digest::digest(&digest::SHA256, sorted.join("\n").as_bytes());
    URL_SAFE_NO_PAD.encode(digest).into()
}

#[cfg(test)]
mod tests;
