//! A provider: sends browsers there, takes its answers, keeps its tokens fresh.

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

/// How long a login's last step, a refresh or a revocation may take, with all requests that it needs.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// An identity provider that users log in at. A clone is the same provider.
///
/// Making one asks nobody: what has to be discovered is discovered when it is needed.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    name: Box<str>,
    issuer_id: Box<str>,
    redirect_uri: Endpoint,
    scopes: Scopes,
    params: Params,
    protocol: Protocol,
    /// Where the operator's addresses are asked.
    configured: ProviderHttp,
    clock: Clock,
    /// Whether the client secret goes into the body, where the provider doesn't say and refused it as Basic.
    sends_secret_in_body: AtomicBool,
}

/// What became of [`Provider::revoke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationOutcome {
    /// The provider knows that the tokens are not to be used any more.
    Revoked,
    /// The provider has no revocation endpoint that is known: the tokens live until they expire.
    Unsupported,
}

// === impl Provider ===

impl Provider {
    /// A provider by `settings`.
    ///
    /// `configured` asks the addresses that the operator named, `supplied` those that the provider's
    /// metadata names, which should not reach private addresses. Neither may follow the redirect of a POST.
    /// `registrations` is asked for [`Client::Dynamic`](crate::Client::Dynamic) only; others give
    /// [`MemoryRegistrations`](crate::MemoryRegistrations).
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

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is asked for.
    #[must_use]
    pub fn scopes(&self) -> &Scopes {
        &self.0.scopes
    }

    /// Where it sends users back to.
    #[must_use]
    pub fn redirect_uri(&self) -> &Endpoint {
        &self.0.redirect_uri
    }

    /// Its issuer, where the configuration names one. An answer whose `iss` is another provider's issuer is
    /// a mix-up, also where its own provider has none to compare with, unless it [may be](Self::may_be) the same.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        match &self.0.protocol {
            Protocol::Oidc(oidc) => Some(oidc.issuer.as_str()),
            Protocol::Oauth2(_) => None,
        }
    }

    /// Identifies the provider, under whichever name: its issuer or, where the configuration names none,
    /// its token endpoint with a fingerprint of both endpoints. Users are known and tokens are kept under
    /// it: the same name with another one is another provider, that neither may be handed to.
    #[must_use]
    pub fn issuer_id(&self) -> &str {
        &self.0.issuer_id
    }

    /// Whether an answer of this provider may name `issuer`, as far as the configuration says: one that is
    /// known by its endpoints alone is at the same place as they are. What [`finish`](Self::finish) knows
    /// of the issuer counts beside that.
    #[must_use]
    pub fn may_be(&self, issuer: &str) -> bool {
        match &self.0.protocol {
            Protocol::Oidc(oidc) => oidc.issuer.as_str() == issuer,
            Protocol::Oauth2(oauth2) => oauth2.may_be(issuer),
        }
    }

    /// Whether its users are made up from their access tokens ([`Login::is_synthetic`]).
    #[must_use]
    pub fn synthesizes(&self) -> bool {
        self.0.synthesizes()
    }

    /// Asks for the provider's metadata and keys, where they have to be discovered: what a start-up check
    /// reports. Nothing is registered.
    ///
    /// # Errors
    /// Why a login could not be begun.
    pub async fn check(&self) -> Result<(), ProviderError> {
        let check = async { self.0.protocol.resolve().await?.check().await };
        self.0.with_timeout(EndpointKind::Discovery, check).await
    }

    /// Where users are sent to; its [`origin`](Endpoint::origin) belongs into the `form-action` of the page
    /// that sends them.
    ///
    /// # Errors
    /// The provider's metadata cannot be had.
    pub async fn authorization_endpoint(&self) -> Result<Endpoint, ProviderError> {
        let resolved =
            self.0.with_timeout(EndpointKind::Discovery, self.0.protocol.resolve()).await?;
        resolved.authorization().cloned()
    }

    /// Where to send a browser, and what to keep for its return. `state` comes back with the answer; it has
    /// to be unguessable and is the caller's to bind to the browser.
    ///
    /// # Errors
    /// The provider's metadata cannot be had, or this server cannot register.
    pub async fn begin(&self, state: &str) -> Result<(Uri, AuthorizationState), ProviderError> {
        self.begin_with(state, ReauthParams::default()).await
    }

    /// The same, for a user who is to log in as anew as `freshness` says.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_with(
        &self,
        state: &str,
        freshness: ReauthParams,
    ) -> Result<(Uri, AuthorizationState), ProviderError> {
        self.0.with_timeout(EndpointKind::Discovery, self.0.begin(state, freshness)).await
    }

    /// Redeems the code of `answer`, and says who logged in. A leg is used once, whatever comes of it.
    ///
    /// # Errors
    /// The answer is not this login's, it reports an error ([`ProviderError::Denied`]), the provider refuses the
    /// code, or it does not say credibly who the user is.
    pub async fn finish(
        &self,
        leg: &AuthorizationState,
        answer: AuthorizationResponse,
    ) -> Result<Login, ProviderError> {
        self.0.with_timeout(EndpointKind::Token, self.0.finish(leg, answer)).await
    }

    /// New tokens for old ones. What the provider leaves out (refresh token, id token, scopes) stays.
    ///
    /// The old refresh token may be dead afterwards, so the outcome has to be kept whatever becomes of
    /// whoever waits for it; two refreshes of the same tokens must not run at once.
    ///
    /// # Errors
    /// The grant is over, the provider cannot be asked now, or the new tokens are somebody else's.
    pub async fn refresh(&self, tokens: &Tokens) -> Result<Tokens, RefreshError> {
        let outcome = timeout(CALL_TIMEOUT, self.0.refresh(tokens)).await;
        let slow = ProviderError::at(EndpointKind::Token, EndpointError::Timeout);
        outcome.unwrap_or(Err(RefreshError::Temporary(slow)))
    }

    /// Tells the provider that the tokens are not to be used any more (RFC 7009).
    ///
    /// # Errors
    /// It cannot be told now, or refuses.
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
    /// All of what one call does, within the deadline.
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

    /// RFC 6749 section 4.1.1, RFC 7636 section 4.3, OpenID Connect Core 1.0 section 3.1.2.1.
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
