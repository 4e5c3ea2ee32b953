//! Authorization codes, and what is known of them after they were taken.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Client, ClientId, CodeChallenge, Profile, Revocation, SessionId, Timestamp, UserId};

/// What a code stands for. Its `nonce` is not in its `Debug` form.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationCodeData {
    /// Whom it was given to.
    pub client: ClientId,
    /// Where it was sent, byte for byte as the client asked.
    pub redirect_uri: String,
    /// What the client has to answer.
    pub challenge: CodeChallenge,
    /// What was consented to.
    pub scopes: Vec<String>,
    /// Whom tokens are for.
    pub resource: Option<String>,
    /// What the id token has to repeat.
    pub nonce: Option<String>,
    /// Whether there will be a refresh token.
    #[serde(default)]
    pub refresh: bool,
    /// The session behind it.
    pub session: SessionId,
    /// Who consented.
    pub user: UserId,
    /// What is known of them.
    pub profile: Profile,
    /// When the person was authenticated.
    pub authenticated: Timestamp,
}

/// The answer to who presents a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRedemption {
    /// What became of the code.
    pub outcome: RedeemOutcome,
    /// The client that presents it, if it is registered.
    pub client: Option<Client>,
}

/// What becomes of a code that is presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedeemOutcome {
    /// It was there, and is taken: nobody else gets this answer. Whether client, redirect URI and
    /// challenge are the seed's is for whoever presents it to see.
    Redeemed(Box<AuthorizationCodeData>),
    /// Who took it presents it again, with the same verifier, while it is being redeemed. Nothing
    /// happened.
    InProgress,
    /// It was taken before. What it gave is revoked (RFC 6749 section 4.1.2).
    Replayed(Revocation),
    /// There is none, or there was none for so long that nothing is known of it.
    Unknown,
}

/// Whether a grant was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantInsertOutcome {
    /// It is there.
    Inserted,
    /// The code was replayed or burnt meanwhile, or was never taken: there is no grant, and no
    /// token may be given out.
    Rejected,
}

// === impl AuthorizationCodeData ===

impl fmt::Debug for AuthorizationCodeData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            redirect_uri,
            challenge: _,
            scopes,
            resource,
            nonce,
            refresh,
            session,
            user,
            profile,
            authenticated,
        } = self;
        f.debug_struct("AuthorizationCodeData")
            .field("client", client)
            .field("redirect_uri", redirect_uri)
            .field("scopes", scopes)
            .field("resource", resource)
            .field("nonce", &nonce.is_some())
            .field("refresh", refresh)
            .field("session", session)
            .field("user", user)
            .field("profile", profile)
            .field("authenticated", authenticated)
            .finish_non_exhaustive()
    }
}
