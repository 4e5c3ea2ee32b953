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

use self::ground::{Ground, PartyRef, Speaks};
use crate::leg::random;
use crate::web::{Web, Webs};
use crate::{
    Answer, Endpoint, Fault, Freshness, Leg, Login, Outage, Params, Place, RefreshFault,
    Registrations, Scopes, Settings, SettingsError, Tokens,
};

mod credentials;
mod ground;
mod identify;
mod redeem;

/// How long a login's last step, a refresh or a revocation may take, with all requests that it needs.
const DEADLINE: Duration = Duration::from_secs(30);

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
    speaks: Speaks,
    /// Where the operator's addresses are asked.
    configured: Web,
    clock: Clock,
    /// Whether the client secret goes into the body, where the provider doesn't say and refused it as Basic.
    in_body: AtomicBool,
}

/// What became of [`Provider::revoke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The provider knows that the tokens are not to be used any more.
    Done,
    /// The provider has no revocation endpoint that is known: the tokens live until they expire.
    NotOffered,
}

// === impl Provider ===

impl Provider {
    /// A provider by `settings`.
    ///
    /// `configured` asks the addresses that the operator named, `supplied` those that the provider's
    /// metadata names, which should not reach private addresses. Neither may follow the redirect of a POST.
    /// `registrations` is asked for [`Client::Dynamic`](crate::Client::Dynamic) only; others give
    /// [`InProcess`](crate::InProcess).
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
        let webs = Webs { configured: Web::new(configured), supplied: Web::new(supplied) };
        let configured = webs.configured.clone();
        let speaks = Speaks::new(&settings, webs, registrations, clock.clone())?;
        let Settings { name, kind, redirect_uri, scopes, params, client_name: _ } = settings;
        let issuer_id = kind.issuer_id();
        let in_body = AtomicBool::new(false);
        Ok(Self(Arc::new(Inner {
            name,
            issuer_id,
            redirect_uri,
            scopes,
            params,
            speaks,
            configured,
            clock,
            in_body,
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
        match &self.0.speaks {
            Speaks::Oidc(oidc) => Some(oidc.issuer.as_str()),
            Speaks::Oauth2(_) => None,
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
        match &self.0.speaks {
            Speaks::Oidc(oidc) => oidc.issuer.as_str() == issuer,
            Speaks::Oauth2(plain) => plain.may_be(issuer),
        }
    }

    /// Whether its users are made up from their access tokens ([`Login::synthesized`]).
    #[must_use]
    pub fn synthesizes(&self) -> bool {
        self.0.synthesizes()
    }

    /// Asks for the provider's metadata and keys, where they have to be discovered: what a start-up check
    /// reports. Nothing is registered.
    ///
    /// # Errors
    /// Why a login could not be begun.
    pub async fn check(&self) -> Result<(), Fault> {
        let check = async { self.0.speaks.ground().await?.check().await };
        self.0.bounded(Place::Discovery, check).await
    }

    /// Where users are sent to; its [`origin`](Endpoint::origin) belongs into the `form-action` of the page
    /// that sends them.
    ///
    /// # Errors
    /// The provider's metadata cannot be had.
    pub async fn authorization_endpoint(&self) -> Result<Endpoint, Fault> {
        let ground = self.0.bounded(Place::Discovery, self.0.speaks.ground()).await?;
        ground.authorization().cloned()
    }

    /// Where to send a browser, and what to keep for its return. `state` comes back with the answer; it has
    /// to be unguessable and is the caller's to bind to the browser.
    ///
    /// # Errors
    /// The provider's metadata cannot be had, or this server cannot register.
    pub async fn begin(&self, state: &str) -> Result<(Uri, Leg), Fault> {
        self.begin_anew(state, Freshness::default()).await
    }

    /// The same, for a user who is to log in as anew as `freshness` says.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_anew(&self, state: &str, freshness: Freshness) -> Result<(Uri, Leg), Fault> {
        self.0.bounded(Place::Discovery, self.0.begin(state, freshness)).await
    }

    /// Redeems the code of `answer`, and says who logged in. A leg is used once, whatever comes of it.
    ///
    /// # Errors
    /// The answer is not this login's, it reports an error ([`Fault::Declined`]), the provider refuses the
    /// code, or it does not say credibly who the user is.
    pub async fn finish(&self, leg: &Leg, answer: Answer) -> Result<Login, Fault> {
        self.0.bounded(Place::Token, self.0.finish(leg, answer)).await
    }

    /// New tokens for old ones. What the provider leaves out (refresh token, id token, scopes) stays.
    ///
    /// The old refresh token may be dead afterwards, so the outcome has to be kept whatever becomes of
    /// whoever waits for it; two refreshes of the same tokens must not run at once.
    ///
    /// # Errors
    /// The grant is over, the provider cannot be asked now, or the new tokens are somebody else's.
    pub async fn refresh(&self, tokens: &Tokens) -> Result<Tokens, RefreshFault> {
        let outcome = timeout(DEADLINE, self.0.refresh(tokens)).await;
        let slow = Fault::at(Place::Token, Outage::Slow);
        outcome.unwrap_or(Err(RefreshFault::Temporary(slow)))
    }

    /// Tells the provider that the tokens are not to be used any more (RFC 7009).
    ///
    /// # Errors
    /// It cannot be told now, or refuses.
    pub async fn revoke(&self, tokens: &Tokens) -> Result<Revocation, Fault> {
        self.0.bounded(Place::Revocation, self.0.revoke(tokens)).await
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
    async fn bounded<T>(
        &self,
        place: Place,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        timeout(DEADLINE, work).await.unwrap_or(Err(Fault::at(place, Outage::Slow)))
    }

    fn synthesizes(&self) -> bool {
        matches!(&self.speaks, Speaks::Oauth2(plain) if plain.user_info.is_none())
    }

    async fn begin(&self, state: &str, freshness: Freshness) -> Result<(Uri, Leg), Fault> {
        let ground = self.speaks.ground().await?;
        let endpoint = ground.authorization()?;
        let client_id = match ground.party() {
            PartyRef::Fixed(fixed) => fixed.id.clone(),
            PartyRef::Registered(registrar) => registrar.current().await?.client_id,
        };
        let nonce = match &ground {
            Ground::Oidc(..) => Some(random().ok_or(Fault::Random)?),
            Ground::Oauth2(..) => None,
        };
        let issuer = ground.issuer();
        let leg = Leg {
            verifier: random().ok_or(Fault::Random)?,
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
        leg: &Leg,
        state: &str,
        freshness: Freshness,
    ) -> Result<Uri, Fault> {
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
        uri.parse().map_err(|_| Fault::Misfit("its authorization request is too long"))
    }
}

#[cfg(test)]
mod tests;
