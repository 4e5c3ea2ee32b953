//! A provider: sends browsers there, takes its answers, keeps its tokens fresh.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};
use tower_service::Service;
use vmcp_core::{Body, BoxError, Clock};

use crate::{
    Answer, Endpoint, Fault, Kind, Leg, Login, Outage, Place, RefreshFault, Registrations, Scopes,
    Settings, SettingsError, Tokens,
};

/// An identity provider that users log in at. A clone is the same provider.
///
/// Making one asks nobody: what has to be discovered is discovered when it is needed.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    settings: Settings,
}

/// What became of [`Provider::revoke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The provider knows that the tokens are not to be used any more.
    Done,
    /// The provider has no revocation endpoint that is known: the tokens live until they expire.
    NotOffered,
}

impl Provider {
    /// A provider by `settings`.
    ///
    /// `configured` asks the addresses that the operator named, `supplied` those that the provider's
    /// metadata names, which should not reach private addresses. Neither may follow the redirect of a POST.
    /// `registrations` is asked for [`Client::Dynamic`](crate::Client::Dynamic) only; others give [`InProcess`](crate::InProcess).
    ///
    /// # Errors
    /// [`SettingsError::NoOpenid`].
    pub fn new<C, R>(
        settings: Settings,
        configured: C,
        supplied: C,
        registrations: Arc<dyn Registrations>,
        clock: Clock,
    ) -> Result<Self, SettingsError>
    where
        C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
        C::Error: Into<BoxError>,
        C::Future: Send,
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        drop((configured, supplied, registrations, clock));
        if matches!(settings.kind, Kind::Oidc(_)) && !settings.scopes.contains("openid") {
            return Err(SettingsError::NoOpenid);
        }
        Ok(Self(Arc::new(Inner { settings })))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.settings.name
    }

    /// What it is asked for.
    #[must_use]
    pub fn scopes(&self) -> &Scopes {
        &self.0.settings.scopes
    }

    /// Where it sends users back to.
    #[must_use]
    pub fn redirect_uri(&self) -> &Endpoint {
        &self.0.settings.redirect_uri
    }

    /// Its issuer, where the configuration names one.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        match &self.0.settings.kind {
            Kind::Oidc(oidc) => Some(oidc.issuer.as_str()),
            Kind::Oauth2(_) => None,
        }
    }

    /// Whether its users are made up from their access tokens ([`Login::synthesized`]).
    #[must_use]
    pub fn synthesizes(&self) -> bool {
        matches!(&self.0.settings.kind, Kind::Oauth2(oauth2) if oauth2.user_info.is_none())
    }

    /// Asks for the provider's metadata and keys, where they have to be discovered: what a start-up check
    /// reports. Nothing is registered.
    ///
    /// # Errors
    /// Why a login could not be begun.
    pub async fn check(&self) -> Result<(), Fault> {
        Err(Fault::at(Place::Discovery, Outage::Unreachable))
    }

    /// Where users are sent to; its [`origin`](Endpoint::origin) belongs into the `form-action` of the page
    /// that sends them.
    ///
    /// # Errors
    /// The provider's metadata cannot be had.
    pub async fn authorization_endpoint(&self) -> Result<Endpoint, Fault> {
        Err(Fault::at(Place::Discovery, Outage::Unreachable))
    }

    /// Where to send a browser, and what to keep for its return. `state` comes back with the answer; it has
    /// to be unguessable and is the caller's to bind to the browser.
    ///
    /// # Errors
    /// The provider's metadata cannot be had, or this server cannot register.
    pub async fn begin(&self, state: &str) -> Result<(Uri, Leg), Fault> {
        let _ = state;
        Err(Fault::at(Place::Discovery, Outage::Unreachable))
    }

    /// Redeems the code of `answer`, and says who logged in. A leg is used once, whatever comes of it.
    ///
    /// # Errors
    /// The answer is not this login's, the provider refuses the code, or it does not say credibly who the
    /// user is.
    pub async fn finish(&self, leg: &Leg, answer: Answer) -> Result<Login, Fault> {
        let _ = (leg, answer);
        Err(Fault::at(Place::Token, Outage::Unreachable))
    }

    /// New tokens for old ones. What the provider leaves out (refresh token, id token, scopes) stays.
    ///
    /// The old refresh token may be dead afterwards, so the outcome has to be kept whatever becomes of
    /// whoever waits for it; two refreshes of the same tokens must not run at once.
    ///
    /// # Errors
    /// The grant is over, the provider cannot be asked now, or the new tokens are somebody else's.
    pub async fn refresh(&self, tokens: &Tokens) -> Result<Tokens, RefreshFault> {
        let _ = tokens;
        Err(RefreshFault::Temporary(Fault::at(Place::Token, Outage::Unreachable)))
    }

    /// Tells the provider that the tokens are not to be used any more (RFC 7009).
    ///
    /// # Errors
    /// It cannot be told now, or refuses.
    pub async fn revoke(&self, tokens: &Tokens) -> Result<Revocation, Fault> {
        let _ = tokens;
        Ok(Revocation::NotOffered)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
