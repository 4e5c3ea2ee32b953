//! Identity provider: authorization requests, code redemption, refresh, revocation.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use form_urlencoded::Serializer;
use http::Uri;
use secrecy::ExposeSecret;
use tokio::time::timeout;
use vmcp_core::{Clock, HttpClient};

use self::resolved::{ClientRef, Protocol, ResolvedProvider};
use crate::authorization_state::random;
use crate::provider_http::{ProviderHttp, ProviderHttpPair};
use crate::{
    AuthorizationResponse, AuthorizationState, Endpoint, EndpointError, EndpointKind, Login,
    Params, ProviderError, ReauthParams, RefreshError, Registrations, Scopes, Settings,
    SettingsError, Tokens,
};

mod credentials;
mod identify;
mod resolved;
mod tokens;

/// Timeout of one call, with all its requests.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Identity provider that users log in at. Clones share the state.
///
/// The constructor sends no request; metadata is discovered on demand.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    name: Box<str>,
    issuer_id: Box<str>,
    redirect_uri: Endpoint,
    scopes: Scopes,
    params: Params,
    protocol: Protocol,
    /// HTTP client for URLs from the configuration.
    configured: ProviderHttp,
    clock: Clock,
    /// `true` if the client secret belongs in the body: set once a provider without metadata
    /// rejected Basic. `Relaxed`: a stale value costs one rejected request.
    sends_secret_in_body: AtomicBool,
}

/// Outcome of [`Provider::revoke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationOutcome {
    /// The provider has revoked the tokens.
    Revoked,
    /// The provider has no known revocation endpoint: the tokens stay valid until they expire.
    Unsupported,
}

// === impl Provider ===

impl Provider {
    /// Creates a provider from `settings`.
    ///
    /// `configured` sends requests to URLs of the configuration, `supplied` to URLs of the
    /// provider's metadata, and should not reach private addresses. Neither may follow the redirect
    /// of a POST. `registrations` is used for [`Client::Dynamic`](crate::Client::Dynamic) only;
    /// pass [`MemoryRegistrations`](crate::MemoryRegistrations) otherwise.
    ///
    /// # Errors
    /// [`SettingsError::NoOpenid`].
    pub fn new(
        settings: Settings,
        configured: impl Into<HttpClient>,
        supplied: impl Into<HttpClient>,
        registrations: Arc<dyn Registrations>,
        clock: Clock,
    ) -> Result<Self, SettingsError> {
        let http_clients = ProviderHttpPair {
            configured: ProviderHttp::new(configured),
            supplied: ProviderHttp::new(supplied),
        };
        let configured = http_clients.configured.clone();
        let protocol = Protocol::new(&settings, http_clients, registrations, clock.clone())?;
        let Settings { name, kind, redirect_uri, scopes, params, client_name: _ } = settings;
        let issuer_id = kind.issuer_id();
        let sends_secret_in_body = AtomicBool::new(false);
        Ok(Self(Arc::new(Inner {
            name,
            issuer_id,
            redirect_uri,
            scopes,
            params,
            protocol,
            configured,
            clock,
            sends_secret_in_body,
        })))
    }

    /// Returns the name of the provider.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the requested scopes.
    #[must_use]
    pub fn scopes(&self) -> &Scopes {
        &self.0.scopes
    }

    /// Returns the redirect URI of this server.
    #[must_use]
    pub fn redirect_uri(&self) -> &Endpoint {
        &self.0.redirect_uri
    }

    /// Returns the issuer, if the configuration names one. A response whose `iss` is another
    /// provider's issuer is a mix-up, also at a provider without an issuer of its own, unless that
    /// [may be](Self::may_be) the same.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        match &self.0.protocol {
            Protocol::Oidc(oidc) => Some(oidc.issuer.as_str()),
            Protocol::Oauth2(_) => None,
        }
    }

    /// Returns the identity of the provider, independent of its name: its issuer or, without one,
    /// its token endpoint with a fingerprint of both endpoints. Users and tokens belong to this
    /// identity: the same name with another identity is another provider and must get neither.
    #[must_use]
    pub fn issuer_id(&self) -> &str {
        &self.0.issuer_id
    }

    /// Returns whether a response of this provider may name `issuer`, according to the
    /// configuration. A provider without a configured issuer has it at the origin of its endpoints.
    /// [`finish`](Self::finish) also checks the issuer of the login.
    #[must_use]
    pub fn may_be(&self, issuer: &str) -> bool {
        match &self.0.protocol {
            Protocol::Oidc(oidc) => oidc.issuer.as_str() == issuer,
            Protocol::Oauth2(oauth2) => oauth2.may_be(issuer),
        }
    }

    /// Returns whether subjects are derived from access tokens ([`Login::is_synthetic`]).
    #[must_use]
    pub fn synthesizes(&self) -> bool {
        self.0.synthesizes()
    }

    /// Fetches the provider's metadata and keys if they are discovered, for a check at startup.
    /// Registers nothing.
    ///
    /// # Errors
    /// The error that a login would report.
    pub async fn check(&self) -> Result<(), ProviderError> {
        let check = async { self.0.protocol.resolve().await?.check().await };
        self.0.with_timeout(EndpointKind::Discovery, check).await
    }

    /// Returns the authorization endpoint. Its [`origin`](Endpoint::origin) belongs in the
    /// `form-action` of the page that redirects users.
    ///
    /// # Errors
    /// The provider's metadata is unavailable.
    pub async fn authorization_endpoint(&self) -> Result<Endpoint, ProviderError> {
        let resolved =
            self.0.with_timeout(EndpointKind::Discovery, self.0.protocol.resolve()).await?;
        resolved.authorization().cloned()
    }

    /// Returns the URL of the authorization request, and the state to keep until the response.
    /// `state` is repeated in the response; it must be unguessable, and the caller has to bind it
    /// to the browser.
    ///
    /// # Errors
    /// The provider's metadata is unavailable, or the registration of this server failed.
    pub async fn begin(&self, state: &str) -> Result<(Uri, AuthorizationState), ProviderError> {
        self.begin_with(state, ReauthParams::default()).await
    }

    /// Like [`begin`](Self::begin), with reauthentication parameters.
    ///
    /// # Errors
    /// See [`begin`](Self::begin).
    pub async fn begin_with(
        &self,
        state: &str,
        freshness: ReauthParams,
    ) -> Result<(Uri, AuthorizationState), ProviderError> {
        self.0.with_timeout(EndpointKind::Discovery, self.0.begin(state, freshness)).await
    }

    /// Redeems the code of a response and returns the user with the tokens. The state must be used
    /// only once, whatever the outcome.
    ///
    /// # Errors
    /// The response does not belong to the login, it reports an error ([`ProviderError::Denied`]),
    /// the provider rejects the code, or the user cannot be identified.
    pub async fn finish(
        &self,
        leg: &AuthorizationState,
        answer: AuthorizationResponse,
    ) -> Result<Login, ProviderError> {
        self.0.with_timeout(EndpointKind::Token, self.0.finish(leg, answer)).await
    }

    /// Returns new tokens for `tokens`. Keeps members that the response omits: refresh token, ID
    /// token, scopes.
    ///
    /// The old refresh token may be invalid afterwards. So the outcome must be stored even if the
    /// caller is cancelled, and the same tokens must not be refreshed concurrently.
    ///
    /// # Errors
    /// The grant has ended, the provider is unavailable, or the new tokens belong to another user.
    pub async fn refresh(&self, tokens: &Tokens) -> Result<Tokens, RefreshError> {
        let outcome = timeout(CALL_TIMEOUT, self.0.refresh(tokens)).await;
        let slow = ProviderError::at(EndpointKind::Token, EndpointError::Timeout);
        outcome.unwrap_or(Err(RefreshError::Temporary(slow)))
    }

    /// Revokes the tokens at the provider (RFC 7009).
    ///
    /// # Errors
    /// The provider is unavailable or rejects the request.
    pub async fn revoke(&self, tokens: &Tokens) -> Result<RevocationOutcome, ProviderError> {
        self.0.with_timeout(EndpointKind::RevocationOutcome, self.0.revoke(tokens)).await
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.0.name).finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Inner {
    /// Runs all requests of one call within the timeout.
    async fn with_timeout<T>(
        &self,
        place: EndpointKind,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        timeout(CALL_TIMEOUT, work)
            .await
            .unwrap_or(Err(ProviderError::at(place, EndpointError::Timeout)))
    }

    fn synthesizes(&self) -> bool {
        matches!(&self.protocol, Protocol::Oauth2(oauth2) if oauth2.user_info.is_none())
    }

    async fn begin(
        &self,
        state: &str,
        freshness: ReauthParams,
    ) -> Result<(Uri, AuthorizationState), ProviderError> {
        let resolved = self.protocol.resolve().await?;
        let endpoint = resolved.authorization()?;
        let client_id = match resolved.client() {
            ClientRef::Static(fixed) => fixed.id.clone(),
            ClientRef::Registered(registrar) => registrar.current().await?.client_id,
        };
        let nonce = match &resolved {
            ResolvedProvider::Oidc(..) => Some(random().ok_or(ProviderError::RandomUnavailable)?),
            ResolvedProvider::Oauth2(..) => None,
        };
        let issuer = resolved.issuer();
        let leg = AuthorizationState {
            verifier: random().ok_or(ProviderError::RandomUnavailable)?,
            nonce,
            issuer_id: self.issuer_id.clone(),
            issuer: issuer.map(|(name, _)| name.into()),
            issuer_in_answer: issuer.is_some_and(|(_, says_so)| says_so),
            client_id,
            scopes: self.scopes.clone(),
            begun: self.clock.now(),
        };
        let uri = self.authorization_request(endpoint, &leg, state, freshness)?;
        Ok((uri, leg))
    }

    /// Builds the authorization request (RFC 6749 section 4.1.1, RFC 7636 section 4.3, OpenID
    /// Connect Core 1.0 section 3.1.2.1).
    fn authorization_request(
        &self,
        endpoint: &Endpoint,
        leg: &AuthorizationState,
        state: &str,
        freshness: ReauthParams,
    ) -> Result<Uri, ProviderError> {
        let mut query = Serializer::new(String::new());
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &leg.client_id)
            .append_pair("redirect_uri", &self.redirect_uri.uri().to_string())
            .append_pair("state", state)
            .append_pair("code_challenge", &leg.challenge())
            .append_pair("code_challenge_method", "S256");
        if let Some(scope) = self.scopes.joined() {
            query.append_pair("scope", &scope);
        }
        if let Some(nonce) = &leg.nonce {
            query.append_pair("nonce", nonce.expose_secret());
        }
        if let Some(prompt) = freshness.prompt(self.params.get("prompt")) {
            query.append_pair("prompt", &prompt);
        }
        let max_age = freshness.max_age.map(|seconds| seconds.to_string());
        if let Some(max_age) = max_age.as_deref().or(self.params.get("max_age")) {
            query.append_pair("max_age", max_age);
        }
        let merged = |name: &str| name == "prompt" || name == "max_age";
        query.extend_pairs(self.params.iter().filter(|(name, _)| !merged(name)));
        let uri = endpoint.uri();
        let separator = if uri.query().is_some() { '&' } else { '?' };
        let uri = format!("{uri}{separator}{}", query.finish());
        uri.parse()
            .map_err(|_| ProviderError::ConfigMismatch("its authorization request is too long"))
    }
}

#[cfg(test)]
mod tests;
