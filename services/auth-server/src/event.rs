//! What happens at the issuer, for whoever keeps a record of it.

use http::StatusCode;
use vmcp_auth_store::{ClientId, Grant, Login, Profile, SessionHead, SessionId, UserId};

use crate::error::Fault;
use crate::page::Trouble;
use crate::server::Inner;

/// Is told what happens, while it happens: it must not wait. A closure `Fn(&Event<'_>)` is one.
pub trait Observer: Send + Sync {
    /// Something happened. Called within the task that answers the request, if there is one; an upstream link
    /// that breaks has none.
    fn observe(&self, event: &Event<'_>);
}

/// Something that happened. Nothing in it is secret, and nothing of it are words of an upstream provider.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The client's identifier, if it is known who asks.
    pub client: Option<&'a str>,
    /// The person, as the `sub` claim has them, if they are known.
    pub user: Option<&'a str>,
    /// What the person is called.
    pub name: Option<&'a str>,
    /// Their email address.
    pub email: Option<&'a str>,
    /// The session that it belongs to: one login and all that comes of it.
    pub session: Option<SessionId>,
    /// What.
    pub what: Happened<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// A client asked for a login, and the person is asked for their consent or sent to the first provider.
    LoginStarted {
        /// What the client asks for.
        scopes: &'a [String],
        /// Whom tokens will be for.
        resource: &'a str,
        /// The person consented to the same before, and is not asked.
        remembered: bool,
    },
    /// The person allowed what the client asks for.
    ConsentGiven,
    /// The person did not.
    ConsentDenied,
    /// The person came back from the last provider, and the client gets a code.
    LoginCompleted {
        /// What the client may do.
        scopes: &'a [String],
        /// Whom tokens will be for.
        resource: Option<&'a str>,
    },
    /// A login ended, or was not begun.
    LoginFailed {
        /// The provider that refused or could not be asked; `None` if this server refused.
        provider: Option<&'a str>,
        /// Why.
        refusal: Refusal,
    },
    /// A provider's tokens are kept from now on.
    UpstreamLinked {
        /// The provider.
        provider: &'a str,
        /// What its tokens are good for.
        scopes: &'a [String],
    },
    /// The person took a provider's tokens away.
    UpstreamUnlinked {
        /// The provider.
        provider: &'a str,
    },
    /// A provider does not renew its tokens any more; they are dropped.
    UpstreamLost {
        /// The provider.
        provider: &'a str,
        /// Why.
        lost: Lost,
    },
    /// A client redeemed a code.
    TokenIssued {
        /// What the token is good for.
        scopes: &'a [String],
        /// Whom it is for.
        audience: &'a [String],
    },
    /// A client refreshed.
    TokenRefreshed {
        /// What the grant is good for; the token may be for less.
        scopes: &'a [String],
        /// Whom it is for.
        audience: &'a [String],
        /// An answer that may have been lost was given again.
        repeated: bool,
    },
    /// The token, revocation or introspection endpoint refused.
    TokenRefused {
        /// Why.
        refusal: Refusal,
    },
    /// Something that is good once was presented again: all that it gave is revoked.
    TokenReused {
        /// What.
        token: Reused,
    },
    /// A grant and its session were ended.
    TokenRevoked {
        /// By whom.
        by: Revoker,
    },
    /// A client registered.
    ClientRegistered {
        /// What it calls itself.
        name: Option<&'a str>,
        /// Where it wants answers to be sent.
        redirect_uris: &'a [String],
    },
    /// A registration was refused.
    ClientRefused {
        /// Why.
        refusal: Refusal,
    },
}

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer, or the one it would have if it did not go through the browser: 401 and 403 are
    /// denials, other 4xx faults of the request, 5xx of this server or what it needs.
    pub status: StatusCode,
    /// The error code that the client is told; `None` if only the person is.
    pub error: Option<&'static str>,
    /// In words.
    pub reason: &'static str,
}

/// Why a provider does not renew its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The grant is over.
    Dead,
    /// Its new tokens are somebody else's.
    SubjectChanged,
    /// New tokens could not be kept, and the old ones may be void.
    NotKept,
}

/// What was presented again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reused {
    /// An authorization code.
    Code,
    /// A refresh token.
    RefreshToken,
}

/// Who ended a grant and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoker {
    /// The client, at the revocation endpoint.
    Client,
    /// The person, on the page of connections.
    Person,
    /// The first upstream provider, which refused the person.
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
    /// Of nobody in particular, or of a client.
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
    /// It in a word.
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
    /// It in a word.
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
    /// It in a word.
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

    /// A login goes no further, and the person is told why: the trouble, told.
    pub(crate) fn stopped(&self, login: Option<&Login>, trouble: Trouble) -> Trouble {
        let what = Happened::LoginFailed { provider: None, refusal: trouble.into() };
        self.tell(login.map_or(Event::of(None, what), |login| Event::of_login(login, what)));
        trouble
    }

    /// A login goes no further, and the client is told why.
    pub(crate) fn failed(&self, login: &Login, fault: &Fault) {
        let leg = fault.leg.and_then(|at| self.upstreams.get(at));
        let provider = leg.map(|leg| leg.name.as_str());
        let what = Happened::LoginFailed { provider, refusal: fault.into() };
        self.tell(Event::of_login(login, what));
    }

    /// A link to a provider is over. Whose it was is looked up for the record alone.
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
