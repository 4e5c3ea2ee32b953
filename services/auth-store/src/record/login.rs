//! Logins that are under way.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Ciphertext, ClientId, CodeChallenge, Digest, Profile, ProviderName, SessionId, Timestamp,
    UserId,
};

/// A login under way. It is found by the digest of the consent's id, later of the state that an
/// upstream provider brings back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// What it is for.
    pub aim: LoginPurpose,
    /// The session that it builds.
    pub session: SessionId,
    /// Digest of the cookie of the browser that it was begun in.
    pub browser: Digest,
    /// What is waited for.
    pub stage: Stage,
    /// Who it is: known after the first provider's answer, and the same from then on.
    pub user: Option<UserId>,
    /// What the first provider says of them.
    pub profile: Profile,
    /// When they proved it to that provider, as far as it says.
    #[serde(default)]
    pub authenticated: Option<Timestamp>,
    /// When it began.
    pub created: Timestamp,
    /// Digest of the network address that it began at. Logins are counted by it, not by the client: anyone can
    /// begin a login with the id of a client, which is public.
    #[serde(default)]
    pub origin: Option<Digest>,
}

/// What a login is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginPurpose {
    /// A client asked for authorization.
    Authorize(AuthorizationRequest),
    /// A person links a provider anew to a session that there is.
    Relink,
    /// The same, with whichever account: the person confirmed that it is another one than before.
    LinkOther,
}

/// What a client asked for (RFC 6749 section 4.1.1), checked already. `state` and `nonce` are between the
/// client and the browser, and not in its `Debug` form.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationRequest {
    /// Who asks.
    pub client: ClientId,
    /// Where the answer goes, as asked: a loopback address with its port.
    pub redirect_uri: String,
    /// What the client wants to see again.
    pub state: Option<String>,
    /// What the client will answer when it redeems the code.
    pub challenge: CodeChallenge,
    /// What it asks for.
    pub scopes: Vec<String>,
    /// Whom its tokens are for (RFC 8707).
    pub resource: Option<String>,
    /// What its id token has to repeat (OpenID Connect Core section 3.1.2.1).
    pub nonce: Option<String>,
    /// Whether it gets a refresh token.
    #[serde(default)]
    pub refresh: bool,
    /// How anew the person is to log in.
    #[serde(default)]
    pub fresh: ReauthOptions,
}

/// How anew a person is to log in (OpenID Connect Core section 3.1.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReauthOptions {
    /// They prove anew who they are (`prompt=login`).
    pub login: bool,
    /// They choose an account (`prompt=select_account`).
    pub select_account: bool,
    /// How many seconds ago they may have proved it at most (`max_age`).
    pub max_age: Option<u32>,
}

/// What a login waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// For the person's consent.
    AwaitConsent {
        /// Digest of what the form has to bring along.
        csrf: Digest,
    },
    /// For an upstream provider.
    AwaitUpstream {
        /// Which one.
        provider: ProviderName,
        /// What finishing needs: verifier, nonce and such.
        leg: Ciphertext,
    },
}

// === impl Login ===

impl Login {
    /// The client that asked; `None` where a person asked for themselves.
    #[must_use]
    pub fn client(&self) -> Option<&ClientId> {
        match &self.aim {
            LoginPurpose::Authorize(request) => Some(&request.client),
            LoginPurpose::Relink | LoginPurpose::LinkOther => None,
        }
    }
}

// === impl AuthorizationRequest ===

impl fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            redirect_uri,
            state,
            challenge: _,
            scopes,
            resource,
            nonce,
            refresh,
            fresh,
        } = self;
        f.debug_struct("AuthorizationRequest")
            .field("client", client)
            .field("redirect_uri", redirect_uri)
            .field("state", &state.is_some())
            .field("scopes", scopes)
            .field("resource", resource)
            .field("nonce", &nonce.is_some())
            .field("refresh", refresh)
            .field("fresh", fresh)
            .finish_non_exhaustive()
    }
}
