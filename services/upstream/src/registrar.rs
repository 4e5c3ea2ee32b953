//! Registers this server at a provider (RFC 7591), once for all replicas and restarts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use serde_json::{Map, Value, json};
use vmcp_core::{Body, Clock, Flights};

use crate::client::{is_printable, issuers_of};
use crate::discovery::{Discovery, Metadata};
use crate::form::bearer;
use crate::web::{Web, Webs};
use crate::{
    AuthMethod, Dynamic, Endpoint, Fault, Outage, Place, Registration, RegistrationKey,
    RegistrationPlace, Registrations, Scopes, Settings, SettingsError,
};

/// How long before its secret expires a registration is replaced: logins that begin now have to end.
const MARGIN: Duration = Duration::from_secs(3600);

/// How long a failed registration is not repeated: whoever begins a login must not make a provider busy.
const RETRY: Duration = Duration::from_secs(10);

/// How long a registration is used at most, whatever the provider says: a number that no date can hold is a mistake.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Knows the client that this server is at a provider, or becomes one. A clone is the same.
#[derive(Clone)]
pub(crate) struct Registrar(Arc<Inner>);

struct Inner {
    dynamic: Dynamic,
    desk: Desk,
    key: RegistrationKey,
    client_name: Box<str>,
    redirect_uri: Endpoint,
    scopes: Scopes,
    kept: Arc<dyn Registrations>,
    clock: Clock,
    known: Mutex<Known>,
    flights: Flights<(), Result<Registration, Fault>>,
}

/// Where the registration is asked for.
enum Desk {
    At(Endpoint, Web),
    Discovered(Discovery),
}

/// What this process knows of its registrations.
#[derive(Default)]
struct Known {
    current: Option<Registration>,
    /// The client that the provider knows no more.
    refused: Option<Box<str>>,
    /// Why there is no newer one, and since when.
    failed: Option<(Fault, SystemTime)>,
}

// === impl Registrar ===

impl Registrar {
    pub(crate) fn new(
        settings: &Settings,
        dynamic: Dynamic,
        webs: Webs,
        kept: Arc<dyn Registrations>,
        clock: Clock,
    ) -> Result<Self, SettingsError> {
        let (issuer, desk) = match &dynamic.place {
            RegistrationPlace::Endpoint(endpoint) => {
                (endpoint.uri().to_string(), Desk::At(endpoint.clone(), webs.configured))
            }
            RegistrationPlace::Discovery(url) => {
                let issuers = issuers_of(url)?;
                let name = issuers.first().map(|issuer| issuer.as_str().to_owned());
                let discovery = Discovery::at(url.clone(), issuers, webs, clock.clone());
                (name.unwrap_or_default(), Desk::Discovered(discovery))
            }
        };
        let key = RegistrationKey {
            issuer: issuer.into(),
            issuer_id: settings.kind.issuer_id(),
            provider: settings.name.clone(),
            redirect_uri: settings.redirect_uri.uri().to_string().into(),
            scopes: digest_of(&settings.scopes),
        };
        Ok(Self(Arc::new(Inner {
            dynamic,
            desk,
            key,
            client_name: settings.client_name.clone(),
            redirect_uri: settings.redirect_uri.clone(),
            scopes: settings.scopes.clone(),
            kept,
            clock,
            known: Mutex::default(),
            flights: Flights::new(),
        })))
    }

    /// The provider's discovery, where its registration endpoint is discovered.
    pub(crate) fn discovery(&self) -> Option<&Discovery> {
        match &self.0.desk {
            Desk::Discovered(discovery) => Some(discovery),
            Desk::At(..) => None,
        }
    }

    /// What it says.
    pub(crate) async fn metadata(&self) -> Result<Option<Arc<Metadata>>, Fault> {
        match self.discovery() {
            Some(discovery) => discovery.get().await.map(Some),
            None => Ok(None),
        }
    }

    /// The client to begin a login as: the one that is kept for all replicas or, where none is that is good
    /// for a while, a new one.
    pub(crate) async fn current(&self) -> Result<Registration, Fault> {
        let inner = Arc::clone(&self.0);
        self.0.flights.join((), || async move { inner.obtain().await }).await
    }

    /// The client `id`, if it is the one that is kept: another replica may have registered it.
    pub(crate) async fn named(&self, id: &str) -> Result<Option<Registration>, Fault> {
        let known = self.0.known().current.clone().filter(|known| *known.client_id == *id);
        if known.is_some() {
            return Ok(known);
        }
        Ok(self.0.look_up().await?.filter(|kept| *kept.client_id == *id))
    }

    /// Notes that the provider doesn't know the client `id` any more: the next login registers anew.
    pub(crate) fn refused(&self, id: &str) {
        let mut known = self.0.known();
        known.current = known.current.take().filter(|current| *current.client_id != *id);
        known.refused = Some(id.into());
    }
}

// === impl Inner ===

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_up(&self) -> Result<Option<Registration>, Fault> {
        self.kept.get(&self.key).await.map_err(|error| {
            tracing::warn!(%error, "a registration at an identity provider cannot be read");
            Fault::Registrations
        })
    }

    async fn obtain(&self) -> Result<Registration, Fault> {
        let now = self.clock.now();
        let kept = self.look_up().await;
        let own = self.known().usable(now);
        let kept = match (kept, own) {
            (Ok(kept), _) => kept,
            (Err(_), Some(own)) => return Ok(own),
            (Err(fault), None) => return Err(fault),
        };
        if let Some(kept) = self.known().adopt(kept.as_ref(), now) {
            return Ok(kept);
        }
        let own = self.known().usable(now);
        let own = match own {
            Some(own) => own,
            None => self.register_paced(now).await?,
        };
        // Known before it is kept: a store that fails must not make the provider a client for each login.
        self.known().current = Some(own.clone());
        let instead_of = kept.as_ref().map(|kept| &*kept.client_id);
        let put = self.kept.put(&self.key, &own, instead_of).await.map_err(|error| {
            tracing::warn!(%error, "a registration at an identity provider cannot be kept");
            Fault::Registrations
        })?;
        // Another replica may have registered at the same time: all go on as one client.
        Ok(self.known().adopt(Some(&put), now).unwrap_or(own))
    }

    async fn register_paced(&self, now: SystemTime) -> Result<Registration, Fault> {
        let failed = self.known().failed.clone();
        if let Some((fault, _)) = failed.filter(|(_, at)| now < *at + RETRY) {
            return Err(fault);
        }
        let outcome = self.register().await;
        self.known().failed = outcome.as_ref().err().map(|fault| (fault.clone(), now));
        outcome
    }

    async fn register(&self) -> Result<Registration, Fault> {
        let metadata;
        let (endpoint, web, method) = match &self.desk {
            Desk::At(endpoint, web) => (endpoint, web, AuthMethod::Basic),
            Desk::Discovered(discovery) => {
                metadata = discovery.get().await?;
                let endpoint = metadata.registration.as_ref();
                let endpoint =
                    endpoint.ok_or(Fault::Misfit("its metadata names no registration endpoint"))?;
                (endpoint, discovery.web(endpoint), preferred(&metadata)?)
            }
        };
        let reply = web.ask(Place::Registration, self.request(endpoint, method)?).await?;
        let now = self.clock.now();
        let registration = read(&reply.object(Place::Registration)?, method, now)?;
        tracing::info!(provider = %self.key.provider, "registered at an identity provider");
        Ok(registration)
    }

    /// RFC 7591 section 3.1.
    fn request(&self, endpoint: &Endpoint, method: AuthMethod) -> Result<Request<Body>, Fault> {
        let Dynamic { place: _, initial_access_token, software_id, software_statement } =
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
            let bearer =
                bearer(token).ok_or(Fault::Misfit("its initial access token fits in no header"))?;
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(request)
    }
}

// === impl Known ===

impl Known {
    /// The current registration, if a login that begins at `now` can end with it.
    fn usable(&self, now: SystemTime) -> Option<Registration> {
        self.current.clone().filter(|current| self.can_use(current, now))
    }

    /// Makes what is kept the current registration, if it is as good.
    fn adopt(&mut self, kept: Option<&Registration>, now: SystemTime) -> Option<Registration> {
        let kept = kept.filter(|kept| self.can_use(kept, now))?;
        self.current = Some(kept.clone());
        self.current.clone()
    }

    fn can_use(&self, registration: &Registration, now: SystemTime) -> bool {
        let lasts = registration.expires_at.is_none_or(|at| now + MARGIN < at);
        lasts && self.refused.as_ref() != Some(&registration.client_id)
    }
}

/// RFC 7591 section 3.2.1: what the provider made of the request counts.
fn read(
    answer: &Map<String, Value>,
    asked: AuthMethod,
    now: SystemTime,
) -> Result<Registration, Fault> {
    let malformed = Fault::at(Place::Registration, Outage::Malformed);
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
            .ok_or(Fault::Misfit("it registered another client authentication than asked for"))?,
    };
    if method != AuthMethod::None && secret.is_none() {
        return Err(Fault::Misfit("it registered a client without the secret that it needs"));
    }
    let expires = answer.get("client_secret_expires_at").and_then(Value::as_u64).unwrap_or(0);
    let last = now + LIFETIME;
    let expires_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(expires));
    let expires_at = Some(expires_at.map_or(last, |at| at.min(last)));
    Ok(Registration {
        client_id: client_id.into(),
        secret: secret.filter(|_| method != AuthMethod::None).map(Into::into),
        method,
        expires_at: expires_at.filter(|_| expires != 0),
    })
}

/// How to authenticate where this is listed; without PKCE nothing would protect a public client.
fn preferred(metadata: &Metadata) -> Result<AuthMethod, Fault> {
    let Some(listed) = &metadata.auth_methods else { return Ok(AuthMethod::Basic) };
    let lists = |method: &AuthMethod| listed.iter().any(|name| name == method.name());
    let safe = |method: &AuthMethod| *method != AuthMethod::None || metadata.s256;
    [AuthMethod::Basic, AuthMethod::Post, AuthMethod::None]
        .into_iter()
        .find(|method| lists(method) && safe(method))
        .ok_or(Fault::Misfit("it takes no client secret, and no public client with PKCE"))
}

fn digest_of(scopes: &Scopes) -> Box<str> {
    let mut sorted: Vec<&str> = scopes.iter().collect();
    sorted.sort_unstable();
    let digest = digest::digest(&digest::SHA256, sorted.join("\n").as_bytes());
    URL_SAFE_NO_PAD.encode(digest).into()
}

#[cfg(test)]
mod tests;
