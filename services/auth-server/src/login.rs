//! Shared steps of a login: lookup, redirect to a provider, and errors.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use secrecy::ExposeSecret;
use vmcp_auth_store::{
    AuthorizationRequest, Digest, Login, LoginPurpose, ReauthOptions, Stage, Store, StoreError,
};
use vmcp_upstream::ReauthParams;

use crate::error::OAuthError;
use crate::error_page::ErrorPage;
use crate::provider_error::provider_error;
use crate::random_tokens::{RandomUnavailable, nonce};
use crate::redirect_uri::RedirectUri;
use crate::settings::Settings;
use crate::upstream_cipher::UpstreamCipher;
use crate::upstream_provider::UpstreamProvider;

/// Time limit for each step of a login.
pub(crate) const LOGIN_STEP_TIMEOUT: Duration = Duration::from_mins(10);

/// Redirects of a login: to the providers, and to the client with an error.
#[derive(Clone)]
pub(crate) struct LoginRedirector {
    settings: Arc<Settings>,
    store: Arc<dyn Store>,
    cipher: UpstreamCipher,
}

/// Error that ends a login.
#[derive(Debug)]
pub(crate) enum LoginError {
    /// The user sees an error page, since the client is unknown or not validated.
    ShowPage(ErrorPage),
    /// The client receives an error; without a client, the user sees it.
    RedirectToClient(OAuthError),
}

impl From<OAuthError> for LoginError {
    fn from(error: OAuthError) -> Self {
        Self::RedirectToClient(error)
    }
}

impl From<ErrorPage> for LoginError {
    fn from(page: ErrorPage) -> Self {
        Self::ShowPage(page)
    }
}

impl From<StoreError> for LoginError {
    fn from(error: StoreError) -> Self {
        OAuthError::from(error).into()
    }
}

impl From<RandomUnavailable> for LoginError {
    fn from(error: RandomUnavailable) -> Self {
        OAuthError::from(error).into()
    }
}

/// Returns the store's key of a login that waits for consent.
pub(crate) fn consent_login_key(id: &str) -> Digest {
    Digest::of(["consent\0", id].concat())
}

/// Returns the store's key of a login that waits for a provider.
pub(crate) fn upstream_login_key(state: &str) -> Digest {
    Digest::of(["state\0", state].concat())
}

impl LoginRedirector {
    pub(crate) fn new(
        settings: Arc<Settings>,
        store: Arc<dyn Store>,
        cipher: UpstreamCipher,
    ) -> Self {
        Self { settings, store, cipher }
    }

    /// Redirects the login to a provider and stores it: in place of the login under `from`, or as a new one. Returns `None`
    /// if the login under `from` is gone.
    pub(crate) async fn redirect_to_upstream(
        &self,
        login: Login,
        upstream: &UpstreamProvider,
        from: Option<&Digest>,
    ) -> Result<Option<Uri>, OAuthError> {
        let state = nonce()?;
        let (to, kept) = upstream
            .provider
            .begin(&state, reauth_params(&login, upstream))
            .await
            .map_err(|error| {
                tracing::warn!(provider = %upstream.name, %error, "failed to start upstream login");
                provider_error(&error).caused_by(upstream.index)
            })?;
        let sealed = self.cipher.seal("leg", login.session, upstream, kept.expose_secret())?;
        let login = Login {
            stage: Stage::AwaitUpstream { provider: upstream.name.clone(), leg: sealed },
            ..login
        };
        let key = upstream_login_key(&state);
        let stored = if let Some(from) = from {
            self.store.advance_login(from, &key, &login, LOGIN_STEP_TIMEOUT).await?
        } else {
            self.store.put_login(&key, &login, LOGIN_STEP_TIMEOUT).await?;
            true
        };
        Ok(stored.then_some(to))
    }

    /// Returns the redirect that reports an error to the client (RFC 6749 section 4.1.2.1), with `iss` (RFC 9207).
    pub(crate) fn error_redirect(
        &self,
        redirect: &RedirectUri,
        state: Option<&str>,
        error: &OAuthError,
    ) -> String {
        redirect.with_query(&[
            ("error", error.code.name()),
            ("error_description", error.description),
            ("state", state.unwrap_or_default()),
            ("iss", self.settings.issuer.as_str()),
        ])
    }

    /// Returns the error redirect of a login under way. `None` if no client started it.
    pub(crate) fn login_error_redirect(&self, login: &Login, error: &OAuthError) -> Option<String> {
        let LoginPurpose::Authorize(AuthorizationRequest { redirect_uri, state, .. }) = &login.aim
        else {
            return None;
        };
        let redirect = RedirectUri::parse(redirect_uri);
        let redirect = redirect.map_err(|error| {
            tracing::error!(%error, "stored redirect URI of login is invalid");
        });
        let redirect = redirect.ok()?;
        Some(self.error_redirect(&redirect, state.as_deref(), error))
    }
}

/// Returns the reauthentication options for a provider: only the first one identifies the user.
fn reauth_params(login: &Login, upstream: &UpstreamProvider) -> ReauthParams {
    match &login.aim {
        LoginPurpose::Authorize(request) if upstream.index == 0 => {
            let ReauthOptions { login, select_account, max_age } = request.fresh;
            ReauthParams { login, select_account, max_age }
        }
        LoginPurpose::Authorize(_) | LoginPurpose::Relink | LoginPurpose::LinkOther => {
            ReauthParams::default()
        }
    }
}
