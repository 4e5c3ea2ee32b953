//! Events of the issuer, for audit records.

use http::StatusCode;
use vmcp_auth_store::{ClientId, Grant, Login, Profile, SessionHead, SessionId, UserId};

use crate::error::Fault;
use crate::page::Trouble;
use crate::server::Inner;

/// Receiver of events. It must not block; a closure `Fn(&Event<'_>)` is one.
pub trait Observer: Send + Sync {
    /// Handles an event. The call runs in the task of the request that caused the event, if any; the loss of an upstream
    /// link has no request.
    fn observe(&self, event: &Event<'_>);
}

/// Event of the issuer. It contains neither secrets nor text of an upstream provider.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Client identifier, if known.
    pub client: Option<&'a str>,
    /// User, as in the `sub` claim, if known.
    pub user: Option<&'a str>,
    /// Display name of the user.
    pub name: Option<&'a str>,
    /// Email address of the user.
    pub email: Option<&'a str>,
    /// Session: one login with all its tokens.
    pub session: Option<SessionId>,
    /// Kind of the event.
    pub what: Happened<'a>,
}

/// Kind of an event, with its details.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// A client started a login: the user is asked for consent or redirected to the first provider.
    LoginStarted {
        /// Requested scopes.
        scopes: &'a [String],
        /// Audience of the tokens.
        resource: &'a str,
        /// `true` if a stored consent made the consent page unnecessary.
        remembered: bool,
    },
    /// The user gave consent to the client.
    ConsentGiven,
    /// The user denied consent to the client.
    ConsentDenied,
    /// The user returned from the last provider, and the client received a code.
    LoginCompleted {
        /// Granted scopes.
        scopes: &'a [String],
        /// Audience of the tokens.
        resource: Option<&'a str>,
    },
    /// A login ended in an error, or was rejected at its start.
    LoginFailed {
        /// Provider that rejected the login or was unavailable; `None` if this server rejected it.
        provider: Option<&'a str>,
        /// Reason of the failure.
        refusal: Refusal,
    },
    /// Tokens of a provider were stored.
    UpstreamLinked {
        /// Name of the provider.
        provider: &'a str,
        /// Scopes of the provider's tokens.
        scopes: &'a [String],
    },
    /// The user deleted the tokens of a provider.
    UpstreamUnlinked {
        /// Name of the provider.
        provider: &'a str,
    },
    /// A provider no longer refreshes its tokens; they are deleted.
    UpstreamLost {
        /// Name of the provider.
        provider: &'a str,
        /// Reason of the loss.
        lost: Lost,
    },
    /// A client redeemed a code.
    TokenIssued {
        /// Scopes of the token.
        scopes: &'a [String],
        /// Audience of the token.
        audience: &'a [String],
    },
    /// A client refreshed its tokens.
    TokenRefreshed {
        /// Scopes of the grant; the token may have fewer.
        scopes: &'a [String],
        /// Audience of the token.
        audience: &'a [String],
        /// `true` if a response that may have been lost was repeated.
        repeated: bool,
    },
    /// The token, revocation or introspection endpoint rejected a request.
    TokenRefused {
        /// Reason of the rejection.
        refusal: Refusal,
    },
    /// A single-use token was presented again: everything issued for it is revoked.
    TokenReused {
        /// Kind of the token.
        token: Reused,
    },
    /// A grant and its session were revoked.
    TokenRevoked {
        /// Party that revoked the grant.
        by: Revoker,
    },
    /// A client registered.
    ClientRegistered {
        /// Name that the client gave.
        name: Option<&'a str>,
        /// Redirect URIs of the client.
        redirect_uris: &'a [String],
    },
    /// A registration was rejected.
    ClientRefused {
        /// Reason of the rejection.
        refusal: Refusal,
    },
}

/// Reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status of the response, or the one it would have without the redirect: 401 and 403 are denials, other 4xx are faults
    /// of the request, 5xx are faults of this server or its dependencies.
    pub status: StatusCode,
    /// Error code sent to the client; `None` if only the user sees the error.
    pub error: Option<&'static str>,
    /// Description of the error.
    pub reason: &'static str,
}

/// Reason why a provider does not refresh its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The provider's grant ended.
    Dead,
    /// The new tokens belong to another account.
    SubjectChanged,
    /// Storing the new tokens failed, and the old ones may be void.
    NotKept,
}

/// Kind of a single-use token that was presented again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reused {
    /// An authorization code.
    Code,
    /// A refresh token.
    RefreshToken,
}

/// Party that revoked a grant and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoker {
    /// The client, at the revocation endpoint.
    Client,
    /// The user, on the connections page.
    Person,
    /// The first upstream provider, which rejected the user.
    Provider,
}

// === impl Observer ===

impl<F: Fn(&Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

// === impl Event ===

impl<'a> Event<'a> {
    /// Creates an event of a client, or of an unknown caller.
    pub(crate) fn of(client: Option<&'a str>, what: Happened<'a>) -> Self {
        Self { client, user: None, name: None, email: None, session: None, what }
    }

    pub(crate) fn of_login(login: &'a Login, what: Happened<'a>) -> Self {
        let client = login.client().map(ClientId::as_str);
        let user = login.user.as_ref();
        Self::of(client, what).by(user, &login.profile).within(login.session)
    }

    pub(crate) fn of_grant(grant: &'a Grant, what: Happened<'a>) -> Self {
        let client = Self::of(Some(grant.client.as_str()), what);
        client.by(Some(&grant.user), &grant.profile).within(grant.session)
    }

    pub(crate) fn of_session(head: &'a SessionHead, what: Happened<'a>) -> Self {
        let SessionHead { id, user, client } = head;
        let user = Some(user.as_str());
        Self { user, ..Self::of(Some(client.as_str()), what) }.within(*id)
    }

    pub(crate) fn of_client(self, client: &'a ClientId) -> Self {
        Self { client: Some(client.as_str()), ..self }
    }

    pub(crate) fn within(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }

    fn by(self, user: Option<&'a UserId>, profile: &'a Profile) -> Self {
        let Profile { name, email, email_verified: _ } = profile;
        let user = user.map(UserId::as_str);
        Self { user, name: name.as_deref(), email: email.as_deref(), ..self }
    }
}

// === impl Refusal ===

impl From<&Fault> for Refusal {
    fn from(fault: &Fault) -> Self {
        let (error, reason) = (Some(fault.code.name()), fault.description);
        Self { status: fault.status(), error, reason }
    }
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        Self { status: trouble.status, error: None, reason: trouble.title }
    }
}

// === impl Lost ===

impl Lost {
    /// Returns the reason as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::SubjectChanged => "subject_changed",
            Self::NotKept => "not_kept",
        }
    }
}

// === impl Reused ===

impl Reused {
    /// Returns the kind as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::RefreshToken => "refresh_token",
        }
    }
}

// === impl Revoker ===

impl Revoker {
    /// Returns the party as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Person => "person",
            Self::Provider => "provider",
        }
    }
}

// === impl Inner ===

impl Inner {
    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(&event);
        }
    }

    /// Records a login that ended with an error page, and returns the page.
    pub(crate) fn stopped(&self, login: Option<&Login>, trouble: Trouble) -> Trouble {
        let what = Happened::LoginFailed { provider: None, refusal: trouble.into() };
        self.tell(login.map_or(Event::of(None, what), |login| Event::of_login(login, what)));
        trouble
    }

    /// Records a login that ended with an error for the client.
    pub(crate) fn failed(&self, login: &Login, fault: &Fault) {
        let leg = fault.leg.and_then(|at| self.upstreams.get(at));
        let provider = leg.map(|leg| leg.name.as_str());
        let what = Happened::LoginFailed { provider, refusal: fault.into() };
        self.tell(Event::of_login(login, what));
    }

    /// Records the loss of a provider's link. The user of the session is looked up for the record alone.
    pub(crate) async fn lost(&self, session: SessionId, provider: &str, lost: Lost) {
        if self.observer.is_none() {
            return;
        }
        let what = Happened::UpstreamLost { provider, lost };
        match self.store.session(&session).await {
            Ok(Some(found)) => self.tell(Event::of_session(&found.head, what)),
            Ok(None) | Err(_) => self.tell(Event::of(None, what).within(session)),
        }
    }
}
