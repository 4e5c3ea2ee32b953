//! Logins in progress.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Ciphertext, ClientId, CodeChallenge, Digest, Profile, ProviderName, SessionId, Timestamp,
    UserId,
};

/// Login in progress. Its key is the digest of the consent identifier, later of the state that an
/// upstream provider returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Purpose of the login.
    pub aim: LoginPurpose,
    /// Session that the login creates.
    pub session: SessionId,
    /// Digest of the cookie of the browser that started the login.
    pub browser: Digest,
    /// Current stage.
    pub stage: Stage,
    /// User; known after the first provider's response, and constant from then on.
    pub user: Option<UserId>,
    /// Profile that the first provider reported.
    pub profile: Profile,
    /// Time of authentication at that provider, if it reports one.
    #[serde(default)]
    pub authenticated: Option<Timestamp>,
    /// Time at which the login started.
    pub created: Timestamp,
    /// Digest of the client's network address. Logins are counted by it and not by client: client
    /// identifiers are public, so anyone can start a login with one.
    #[serde(default)]
    pub origin: Option<Digest>,
}

/// Purpose of a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginPurpose {
    /// Authorization request of a client.
    Authorize(AuthorizationRequest),
    /// A user links a provider to an existing session again.
    Relink,
    /// The same with any account: the user confirmed that it differs from the previous one.
    LinkOther,
}

/// Validated authorization request (RFC 6749 section 4.1.1). `Debug` omits `state` and `nonce`,
/// which are private to client and browser.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationRequest {
    /// Requesting client.
    pub client: ClientId,
    /// Redirect URI as requested: a loopback address with its port.
    pub redirect_uri: String,
    /// State that the response has to repeat.
    pub state: Option<String>,
    /// PKCE code challenge.
    pub challenge: CodeChallenge,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Resource that tokens are for (RFC 8707).
    pub resource: Option<String>,
    /// Nonce that the ID token has to repeat (OpenID Connect Core section 3.1.2.1).
    pub nonce: Option<String>,
    /// `true` if the client gets a refresh token.
    #[serde(default)]
    pub refresh: bool,
    /// Reauthentication that the client requires.
    #[serde(default)]
    pub fresh: ReauthOptions,
}

/// Reauthentication options (OpenID Connect Core section 3.1.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReauthOptions {
    /// The user has to authenticate again (`prompt=login`).
    pub login: bool,
    /// The user has to choose an account (`prompt=select_account`).
    pub select_account: bool,
    /// Maximum age of the authentication in seconds (`max_age`).
    pub max_age: Option<u32>,
}

/// Stage of a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Waiting for the user's consent.
    AwaitConsent {
        /// Digest of the form's CSRF token.
        csrf: Digest,
    },
    /// Waiting for an upstream provider.
    AwaitUpstream {
        /// Upstream provider.
        provider: ProviderName,
        /// Encrypted verifier, nonce and other state of the upstream login.
        leg: Ciphertext,
    },
}

// === impl Login ===

impl Login {
    /// Returns the client of the request; `None` for a login that the user started.
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
