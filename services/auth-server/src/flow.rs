//! Shared steps of a login: lookup, redirect to a provider, and errors.

use std::time::Duration;

use axum::response::Response;
use http::{StatusCode, Uri};
use secrecy::{ExposeSecret, SecretSlice};
use vmcp_auth_store::{
    AuthorizationRequest, Ciphertext, Digest, EncryptionContext, EncryptionError, Login,
    LoginPurpose, ReauthOptions, SessionId, Stage,
};
use vmcp_upstream::{AuthorizationDenied, ReauthParams};

use crate::error::{Code, Fault};
use crate::opaque::nonce;
use crate::page::Trouble;
use crate::redirect::RedirectUri;
use crate::server::{Inner, Leg};

/// Time limit for each step of a login.
pub(crate) const STEP: Duration = Duration::from_secs(600);

/// Error that ends a login.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The user sees an error page, since the client is unknown or not validated.
    Person(Trouble),
    /// The client receives an error; without a client, the user sees it.
    Client(Fault),
}

/// Error for the client when the user cancelled at a provider or was rejected there.
const DECLINED: Fault =
    Fault::new(Code::AccessDenied, "the login was cancelled or refused at the identity provider");

/// Returns the store's key of a login that waits for consent.
pub(crate) fn consent_key(id: &str) -> Digest {
    Digest::of(["consent\0", id].concat())
}

/// Returns the store's key of a login that waits for a provider.
pub(crate) fn state_key(state: &str) -> Digest {
    Digest::of(["state\0", state].concat())
}

/// Error for the client when a provider does not match its configuration.
const MISFIT: Fault =
    Fault::new(Code::ServerError, "the identity provider and this server do not fit together");

impl Inner {
    /// Redirects the login to a provider and stores it: in place of the login under `from`, or as a new one. Returns `None`
    /// if the login under `from` is gone.
    pub(crate) async fn go_on(
        &self,
        login: Login,
        leg: &Leg,
        from: Option<&Digest>,
    ) -> Result<Option<Uri>, Fault> {
        let state = nonce()?;
        let (to, kept) = leg.provider.begin(&state, freshness(&login, leg)).await.map_err(|fault| {
            tracing::warn!(provider = %leg.name, %fault, "a login cannot be begun at an upstream provider");
            upstream_fault(&fault).at(leg.at)
        })?;
        let sealed = self.seal("leg", login.session, leg, kept.expose_secret())?;
        let login = Login {
            stage: Stage::AwaitUpstream { provider: leg.name.clone(), leg: sealed },
            ..login
        };
        let key = state_key(&state);
        let stored = if let Some(from) = from {
            self.store.advance_login(from, &key, &login, STEP).await?
        } else {
            self.store.put_login(&key, &login, STEP).await?;
            true
        };
        Ok(stored.then_some(to))
    }

    /// Encrypts data of a session and a provider. The ciphertext is bound to the provider's current issuer.
    pub(crate) fn seal(
        &self,
        kind: &'static str,
        session: SessionId,
        leg: &Leg,
        text: &[u8],
    ) -> Result<Ciphertext, EncryptionError> {
        let (session, names) = (session.to_text(), [leg.name.as_str(), leg.issuer.as_str()]);
        self.vault().seal(EncryptionContext::new(kind, &[&session, names[0], names[1]]), text)
    }

    /// Decrypts data of a session and a provider.
    pub(crate) fn open(
        &self,
        kind: &'static str,
        session: SessionId,
        leg: &Leg,
        sealed: &Ciphertext,
    ) -> Result<SecretSlice<u8>, EncryptionError> {
        let (session, names) = (session.to_text(), [leg.name.as_str(), leg.issuer.as_str()]);
        self.vault().open(EncryptionContext::new(kind, &[&session, names[0], names[1]]), sealed)
    }

    pub(crate) fn vault(&self) -> &vmcp_auth_store::EncryptionKeyRing {
        self.settings.hmac.vault()
    }

    /// Returns the redirect that reports an error to the client (RFC 6749 section 4.1.2.1), with `iss` (RFC 9207).
    pub(crate) fn error_uri(
        &self,
        redirect: &RedirectUri,
        state: Option<&str>,
        fault: &Fault,
    ) -> String {
        redirect.with(&[
            ("error", fault.code.name()),
            ("error_description", fault.description),
            ("state", state.unwrap_or_default()),
            ("iss", self.issuer()),
        ])
    }

    /// Returns the error redirect of a login under way. `None` if no client started it.
    pub(crate) fn login_error_uri(&self, login: &Login, fault: &Fault) -> Option<String> {
        let LoginPurpose::Authorize(AuthorizationRequest { redirect_uri, state, .. }) = &login.aim
        else {
            return None;
        };
        let redirect = RedirectUri::parse(redirect_uri).ok()?;
        Some(self.error_uri(&redirect, state.as_deref(), fault))
    }

    pub(crate) fn trouble(&self, trouble: Trouble) -> Response {
        self.pages.trouble(trouble)
    }
}

/// Returns the reauthentication options for a provider: only the first one identifies the user.
fn freshness(login: &Login, leg: &Leg) -> ReauthParams {
    match &login.aim {
        LoginPurpose::Authorize(request) if leg.at == 0 => {
            let ReauthOptions { login, select_account, max_age } = request.fresh;
            ReauthParams { login, select_account, max_age }
        }
        LoginPurpose::Authorize(_) | LoginPurpose::Relink | LoginPurpose::LinkOther => {
            ReauthParams::default()
        }
    }
}

/// Converts an upstream provider's error for the client, without any text of the provider.
pub(crate) fn upstream_fault(fault: &vmcp_upstream::ProviderError) -> Fault {
    match fault.error() {
        "access_denied"
            if *fault
                == vmcp_upstream::ProviderError::Denied(AuthorizationDenied::AccessDenied) =>
        {
            DECLINED
        }
        "access_denied" => {
            Fault::new(Code::AccessDenied, "the login at the identity provider failed")
        }
        "temporarily_unavailable" => Fault::later(
            "the identity provider cannot be asked at the moment",
            Duration::from_secs(30),
        ),
        _ => MISFIT,
    }
}

impl From<EncryptionError> for Fault {
    fn from(error: EncryptionError) -> Self {
        tracing::error!(%error, "what the store keeps cannot be encrypted or decrypted");
        Self::server()
    }
}

// === impl Trouble ===

impl Trouble {
    pub(crate) const EXPIRED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This login is over",
        text: "It was finished already, or took longer than ten minutes.",
        help: "Go back to the application and log in again.",
    };

    pub(crate) const OTHER_BROWSER: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "This login began in another browser",
        text: "A login has to end in the browser it began in, with cookies allowed. If somebody sent you a link to \
               this page, do not go on.",
        help: "Go back to the application and log in again.",
    };

    pub(crate) const MALFORMED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This request is malformed",
        text: "The application sent something that cannot be read.",
        help: "Try again; if that does not help, tell whoever makes the application.",
    };

    pub(crate) const CLIENT: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This application is not known here",
        text: "It is not registered, or its registration ended because nobody used it.",
        help: "Remove this server from the application and add it again, so that it registers anew.",
    };

    pub(crate) const REDIRECT: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This application wants to send you to an unknown place",
        text: "The address that it asked for is none of those that it registered. You were not sent there.",
        help: "Remove this server from the application and add it again; if that does not help, tell whoever makes \
               the application.",
    };

    pub(crate) const REFUSED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This request cannot be answered",
        text: "A site sent you here with a request that this server does not take. You were not sent back to it by \
               itself, since you never allowed it anything.",
        help: "Go back only if you came from there and know it.",
    };

    pub(crate) const DENIED: Self = Self {
        status: StatusCode::OK,
        title: "You did not allow it",
        text: "The application got nothing. You can close this page.",
        help: "Go back only if you know the site.",
    };

    pub(crate) const AWAY: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "This does not work at the moment",
        text: "This server cannot reach something that it needs.",
        help: "Try again in a minute.",
    };

    pub(crate) const OFTEN: Self = Self {
        status: StatusCode::TOO_MANY_REQUESTS,
        title: "Too many requests",
        text: "Your address has asked too often.",
        help: "Wait a minute and try again.",
    };

    pub(crate) const BROKEN: Self = Self {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        title: "This server failed",
        text: "Nothing was done in your name.",
        help: "Try again; if that does not help, tell whoever runs this server.",
    };

    pub(crate) const NOBODY: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "Nobody is logged in here",
        text: "This page shows what you linked when you log in from an application, in the same browser.",
        help: "Log in from an application first, with cookies allowed.",
    };

    pub(crate) const DOCUMENT: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This application's description cannot be used",
        text: "The application is known by a document on the web, which cannot be fetched, or has something in it that \
               is not allowed here.",
        help: "Try again in a minute; if that does not help, tell whoever makes the application.",
    };

    pub(crate) const FORGOTTEN: Self = Self {
        status: StatusCode::OK,
        title: "This browser is forgotten",
        text: "Your connections stay as they are, but are not shown here any more.",
        help: "Log in from an application to see them again.",
    };

    pub(crate) const ANSWER: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "The identity provider's answer cannot be read",
        text: "It does not say which login it belongs to.",
        help: "Go back to the application and log in again; if that does not help, tell whoever runs this server.",
    };

    pub(crate) const PROVIDER: Self = Self {
        status: StatusCode::BAD_GATEWAY,
        title: "The login at the identity provider failed",
        text: "Its answer is not of this login, or came too late. Nothing was changed.",
        help: "Go back to your connections and try again.",
    };

    pub(crate) const DECLINED: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "You did not log in at the identity provider",
        text: "The login was cancelled there, or the provider refused it. Nothing was changed.",
        help: "Go back to your connections to try again; if the provider refuses you, ask whoever runs it for access.",
    };

    pub(crate) const MISFIT: Self = Self {
        status: StatusCode::BAD_GATEWAY,
        title: "The identity provider and this server do not fit together",
        text: "One of them is not configured for the other. Nothing was changed.",
        help: "Tell whoever runs this server.",
    };

    pub(crate) const OTHER_ACCOUNT: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "This is another account",
        text: "You logged in at the identity provider as somebody else than this connection belongs to. Nothing was \
               changed.",
        help: "Log out there and link again with the same account.",
    };
}

impl Trouble {
    /// Converts an error to the page for a login that no client started.
    pub(crate) fn of_login(fault: &Fault) -> Self {
        // The page does not depend on the provider that caused the error.
        let mut fault = fault.clone();
        fault.leg = None;
        match fault.code {
            _ if fault == DECLINED => Self::DECLINED,
            Code::AccessDenied => Self::PROVIDER,
            _ if fault == MISFIT => Self::MISFIT,
            _ => Self::from(&fault),
        }
    }
}

impl From<&Fault> for Trouble {
    fn from(fault: &Fault) -> Self {
        match fault.status() {
            StatusCode::TOO_MANY_REQUESTS => Self::OFTEN,
            StatusCode::SERVICE_UNAVAILABLE => Self::AWAY,
            StatusCode::INTERNAL_SERVER_ERROR => Self::BROKEN,
            _ => Self::MALFORMED,
        }
    }
}
