//! Events of the issuer, for audit records.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use vmcp_auth_store::{ClientId, Grant, Login, Profile, SessionHead, SessionId, UserId};

use crate::error::OAuthError;
use crate::error_page::ErrorPage;

/// Receiver of events. It must not block; a closure `Fn(&Event<'_>)` is one.
pub trait Observer: Send + Sync {
    /// Handles an event.
    fn observe(&self, event: &Event<'_>);
}

/// Value for the [`Observer`] in a request's extensions. An outer layer inserts it, and each [`Event`] that the request causes
/// contains it. A clone is the same value.
#[derive(Clone)]
pub struct EventContext(Arc<dyn Any + Send + Sync>);

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
    /// Value from the extensions of the request that caused the event. `None` without a request, such as for the loss of an
    /// upstream link, or without an outer layer that inserts one.
    pub context: Option<&'a EventContext>,
    /// Kind of the event.
    pub kind: EventKind<'a>,
}

/// Kind of an event, with its details.
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a> {
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
        rejection: Rejection,
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
    UpstreamLinkLost {
        /// Name of the provider.
        provider: &'a str,
        /// Reason of the loss.
        reason: LinkLossReason,
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
    TokenRejected {
        /// Reason of the rejection.
        rejection: Rejection,
    },
    /// A single-use token was presented again: everything issued for it is revoked.
    TokenReplayed {
        /// Kind of the token.
        token: ReplayedToken,
    },
    /// A grant and its session were revoked.
    TokenRevoked {
        /// Party that revoked the grant.
        by: RevokedBy,
    },
    /// A client registered.
    ClientRegistered {
        /// Name that the client gave.
        name: Option<&'a str>,
        /// Redirect URIs of the client.
        redirect_uris: &'a [String],
    },
    /// A registration was rejected.
    RegistrationRejected {
        /// Reason of the rejection.
        rejection: Rejection,
    },
}

/// Reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
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
pub enum LinkLossReason {
    /// The provider's grant ended.
    GrantEnded,
    /// The new tokens belong to another account.
    SubjectChanged,
    /// Storing the new tokens failed, and the old ones may be void.
    StoreFailed,
}

/// Kind of a single-use token that was presented again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayedToken {
    /// An authorization code.
    Code,
    /// A refresh token.
    RefreshToken,
}

/// Party that revoked a grant and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokedBy {
    /// The client, at the revocation endpoint.
    Client,
    /// The user, on the connections page.
    User,
    /// The first upstream provider, which rejected the user.
    Provider,
}

// === impl Observer ===

impl<F: Fn(&Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

// === impl EventContext ===

impl EventContext {
    /// Wraps a value.
    pub fn new<T: Any + Send + Sync>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the value if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for EventContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventContext").finish_non_exhaustive()
    }
}

// === impl Event ===

impl<'a> Event<'a> {
    /// Creates an event of a client, or of an unknown caller.
    pub(crate) fn new(client: Option<&'a str>, kind: EventKind<'a>) -> Self {
        Self { client, user: None, name: None, email: None, session: None, context: None, kind }
    }

    pub(crate) fn of_login(login: &'a Login, kind: EventKind<'a>) -> Self {
        let client = login.client().map(ClientId::as_str);
        let user = login.user.as_ref();
        Self::new(client, kind).with_user(user, &login.profile).with_session(login.session)
    }

    pub(crate) fn of_grant(grant: &'a Grant, kind: EventKind<'a>) -> Self {
        let client = Self::new(Some(grant.client.as_str()), kind);
        client.with_user(Some(&grant.user), &grant.profile).with_session(grant.session)
    }

    pub(crate) fn of_session(head: &'a SessionHead, kind: EventKind<'a>) -> Self {
        let SessionHead { id, user, client } = head;
        let user = Some(user.as_str());
        Self { user, ..Self::new(Some(client.as_str()), kind) }.with_session(*id)
    }

    pub(crate) fn with_client(self, client: &'a ClientId) -> Self {
        Self { client: Some(client.as_str()), ..self }
    }

    pub(crate) fn with_session(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }

    fn with_user(self, user: Option<&'a UserId>, profile: &'a Profile) -> Self {
        let Profile { name, email, email_verified: _ } = profile;
        let user = user.map(UserId::as_str);
        Self { user, name: name.as_deref(), email: email.as_deref(), ..self }
    }
}

// === impl Rejection ===

impl From<&OAuthError> for Rejection {
    fn from(oauth_error: &OAuthError) -> Self {
        let (error, reason) = (Some(oauth_error.code.name()), oauth_error.description);
        Self { status: oauth_error.status(), error, reason }
    }
}

impl From<ErrorPage> for Rejection {
    fn from(page: ErrorPage) -> Self {
        Self { status: page.status, error: None, reason: page.title }
    }
}

// === impl LinkLossReason ===

impl LinkLossReason {
    /// Returns the reason as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GrantEnded => "dead",
            Self::SubjectChanged => "subject_changed",
            Self::StoreFailed => "not_kept",
        }
    }
}

// === impl ReplayedToken ===

impl ReplayedToken {
    /// Returns the kind as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::RefreshToken => "refresh_token",
        }
    }
}

// === impl RevokedBy ===

impl RevokedBy {
    /// Returns the party as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::User => "person",
            Self::Provider => "provider",
        }
    }
}
