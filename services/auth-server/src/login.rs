//! Shared steps of a login: lookup, redirect to a provider, and errors.

use std::time::Duration;

use axum::response::Response;
use http::{StatusCode, Uri};
use secrecy::{ExposeSecret, SecretSlice};
use vmcp_auth_store::{
    AuthorizationRequest, Ciphertext, Digest, EncryptionContext, EncryptionError, Login,
    LoginPurpose, ReauthOptions, SessionId, Stage, StoreError,
};
use vmcp_upstream::{AuthorizationDenied, ReauthParams};

use crate::auth_server::{AppState, UpstreamProvider};
use crate::error::{ErrorCode, OAuthError};
use crate::page::ErrorPage;
use crate::random_tokens::{RandomUnavailable, nonce};
use crate::redirect_uri::RedirectUri;

/// Time limit for each step of a login.
pub(crate) const LOGIN_STEP_TIMEOUT: Duration = Duration::from_secs(600);

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

/// Error for the client when the user cancelled at a provider or was rejected there.
const DENIED_BY_PROVIDER: OAuthError = OAuthError::new(
    ErrorCode::AccessDenied,
    "the user cancelled the login at the identity provider, or the provider denied it",
);

/// Returns the store's key of a login that waits for consent.
pub(crate) fn consent_login_key(id: &str) -> Digest {
    Digest::of(["consent\0", id].concat())
}

/// Returns the store's key of a login that waits for a provider.
pub(crate) fn upstream_login_key(state: &str) -> Digest {
    Digest::of(["state\0", state].concat())
}

/// Error for the client when a provider does not match its configuration.
const CONFIG_MISMATCH: OAuthError = OAuthError::new(
    ErrorCode::ServerError,
    "the identity provider and this server have mismatched configurations; contact the operator",
);

impl AppState {
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
                provider_error(&error).caused_by(upstream.at)
            })?;
        let sealed = self.seal("leg", login.session, upstream, kept.expose_secret())?;
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

    /// Encrypts data of a session and a provider. The ciphertext is bound to the provider's current issuer.
    pub(crate) fn seal(
        &self,
        kind: &'static str,
        session: SessionId,
        upstream: &UpstreamProvider,
        text: &[u8],
    ) -> Result<Ciphertext, EncryptionError> {
        let (session, names) =
            (session.to_text(), [upstream.name.as_str(), upstream.issuer.as_str()]);
        self.encryption_keys()
            .seal(EncryptionContext::new(kind, &[&session, names[0], names[1]]), text)
    }

    /// Decrypts data of a session and a provider.
    pub(crate) fn open(
        &self,
        kind: &'static str,
        session: SessionId,
        upstream: &UpstreamProvider,
        sealed: &Ciphertext,
    ) -> Result<SecretSlice<u8>, EncryptionError> {
        let (session, names) =
            (session.to_text(), [upstream.name.as_str(), upstream.issuer.as_str()]);
        self.encryption_keys()
            .open(EncryptionContext::new(kind, &[&session, names[0], names[1]]), sealed)
    }

    pub(crate) fn encryption_keys(&self) -> &vmcp_auth_store::EncryptionKeyRing {
        self.settings.hmac.encryption_keys()
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
            ("iss", self.issuer()),
        ])
    }

    /// Returns the error redirect of a login under way. `None` if no client started it.
    pub(crate) fn login_error_redirect(&self, login: &Login, error: &OAuthError) -> Option<String> {
        let LoginPurpose::Authorize(AuthorizationRequest { redirect_uri, state, .. }) = &login.aim
        else {
            return None;
        };
        let redirect = RedirectUri::parse(redirect_uri).ok()?;
        Some(self.error_redirect(&redirect, state.as_deref(), error))
    }

    pub(crate) fn error_page(&self, page: ErrorPage) -> Response {
        self.pages.error(page)
    }
}

/// Returns the reauthentication options for a provider: only the first one identifies the user.
fn reauth_params(login: &Login, upstream: &UpstreamProvider) -> ReauthParams {
    match &login.aim {
        LoginPurpose::Authorize(request) if upstream.at == 0 => {
            let ReauthOptions { login, select_account, max_age } = request.fresh;
            ReauthParams { login, select_account, max_age }
        }
        LoginPurpose::Authorize(_) | LoginPurpose::Relink | LoginPurpose::LinkOther => {
            ReauthParams::default()
        }
    }
}

/// Converts an upstream provider's error for the client, without any text of the provider.
pub(crate) fn provider_error(error: &vmcp_upstream::ProviderError) -> OAuthError {
    match error.error() {
        "access_denied"
            if *error
                == vmcp_upstream::ProviderError::Denied(AuthorizationDenied::AccessDenied) =>
        {
            DENIED_BY_PROVIDER
        }
        "access_denied" => OAuthError::new(
            ErrorCode::AccessDenied,
            "the login at the identity provider failed; log in again",
        ),
        "temporarily_unavailable" => OAuthError::temporarily_unavailable(
            "the identity provider is unavailable; retry later",
            Duration::from_secs(30),
        ),
        _ => CONFIG_MISMATCH,
    }
}

impl From<EncryptionError> for OAuthError {
    fn from(error: EncryptionError) -> Self {
        tracing::error!(%error, "failed to encrypt or decrypt stored data");
        Self::server_error()
    }
}

// === impl ErrorPage ===

impl ErrorPage {
    pub(crate) const LOGIN_EXPIRED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This login has expired",
        text: "The login is already complete, or a step took longer than ten minutes.",
        help: "Go back to the application and log in again.",
    };

    pub(crate) const OTHER_BROWSER: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "This login started in another browser",
        text: "A login must end in the browser that started it, with cookies enabled. If someone sent you a link to \
         this page, do not continue.",
        help: "Go back to the application and log in again.",
    };

    pub(crate) const MALFORMED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This request is malformed",
        text: "The application sent a request that this server cannot read.",
        help: "Try again. If the error persists, contact the developer of the application.",
    };

    pub(crate) const UNKNOWN_CLIENT: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Unknown application",
        text: "The application is not registered, or its registration expired because it was not used.",
        help: "Remove this server from the application and add it again, so that the application registers again.",
    };

    pub(crate) const UNREGISTERED_REDIRECT_URI: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Unregistered redirect address",
        text: "The application requested an address that it has not registered. This server did not redirect you \
         there.",
        help: "Remove this server from the application and add it again. If the error persists, contact the developer \
         of the application.",
    };

    pub(crate) const REQUEST_REJECTED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This server rejected the request",
        text: "A site sent you here with an invalid request. This server did not redirect you back, because you have \
         not given consent to that site.",
        help: "Go back only if you came from that site and trust it.",
    };

    pub(crate) const CONSENT_DENIED: Self = Self {
        status: StatusCode::OK,
        title: "You denied access",
        text: "The application received no access. You can close this page.",
        help: "Go back only if you trust the site.",
    };

    pub(crate) const UNAVAILABLE: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "Temporarily unavailable",
        text: "This server cannot reach a service that it needs.",
        help: "Try again in a minute.",
    };

    pub(crate) const RATE_LIMITED: Self = Self {
        status: StatusCode::TOO_MANY_REQUESTS,
        title: "Too many requests",
        text: "Your address sent too many requests.",
        help: "Wait a minute and try again.",
    };

    pub(crate) const SERVER_ERROR: Self = Self {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        title: "Server error",
        text: "This server changed nothing on your behalf.",
        help: "Try again. If the error persists, contact the operator of this server.",
    };

    pub(crate) const NOT_LOGGED_IN: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "You are not logged in",
        text: "This page shows your linked accounts after you log in from an application in the same browser.",
        help: "Log in from an application first, with cookies enabled.",
    };

    pub(crate) const INVALID_CLIENT_METADATA: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Invalid application metadata",
        text: "A document on the web describes this application. This server failed to fetch it, or its content is \
         not valid.",
        help: "Try again in a minute. If the error persists, contact the developer of the application.",
    };

    pub(crate) const BROWSER_FORGOTTEN: Self = Self {
        status: StatusCode::OK,
        title: "This browser is forgotten",
        text: "Your connections are unchanged, but this browser no longer shows them.",
        help: "Log in from an application to see them again.",
    };

    pub(crate) const MALFORMED_CALLBACK: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Malformed response of the identity provider",
        text: "The response does not name the login that it belongs to.",
        help: "Go back to the application and log in again. If the error persists, contact the operator of this \
         server.",
    };

    pub(crate) const PROVIDER_LOGIN_FAILED: Self = Self {
        status: StatusCode::BAD_GATEWAY,
        title: "The login at the identity provider failed",
        text: "Its response does not belong to this login, or arrived too late. Nothing was changed.",
        help: "Go back to your connections and try again.",
    };

    pub(crate) const DENIED_BY_PROVIDER: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "Login cancelled or denied",
        text: "You cancelled the login at the identity provider, or the provider denied it. Nothing was changed.",
        help: "Go back to your connections to try again. If the provider denies the login, ask its operator for \
         access.",
    };

    pub(crate) const CONFIG_MISMATCH: Self = Self {
        status: StatusCode::BAD_GATEWAY,
        title: "Mismatched configuration of the identity provider",
        text: "The identity provider or this server is not configured for the other. Nothing was changed.",
        help: "Contact the operator of this server.",
    };

    pub(crate) const OTHER_ACCOUNT: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "This is another account",
        text: "You logged in at the identity provider with another account than the one of this connection. Nothing \
         was changed.",
        help: "Log out at the identity provider and link again with the same account.",
    };
}

impl ErrorPage {
    /// Converts an error to the page for a login that no client started.
    pub(crate) fn of_login(error: &OAuthError) -> Self {
        // The page does not depend on the provider that caused the error.
        let mut error = error.clone();
        error.upstream = None;
        match error.code {
            _ if error == DENIED_BY_PROVIDER => Self::DENIED_BY_PROVIDER,
            ErrorCode::AccessDenied => Self::PROVIDER_LOGIN_FAILED,
            _ if error == CONFIG_MISMATCH => Self::CONFIG_MISMATCH,
            _ => Self::from(&error),
        }
    }
}

impl From<&OAuthError> for ErrorPage {
    fn from(error: &OAuthError) -> Self {
        match error.status() {
            StatusCode::TOO_MANY_REQUESTS => Self::RATE_LIMITED,
            StatusCode::SERVICE_UNAVAILABLE => Self::UNAVAILABLE,
            StatusCode::INTERNAL_SERVER_ERROR => Self::SERVER_ERROR,
            _ => Self::MALFORMED,
        }
    }
}
