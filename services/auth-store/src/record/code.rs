//! Authorization codes and their redemption.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Client, ClientId, CodeChallenge, Profile, Revocation, SessionId, Timestamp, UserId};

/// Data of an authorization code. `Debug` omits its `nonce`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationCodeData {
    /// Client that requested the code.
    pub client: ClientId,
    /// Redirect URI, byte for byte as requested.
    pub redirect_uri: String,
    /// PKCE code challenge.
    pub challenge: CodeChallenge,
    /// Scopes that the user consented to.
    pub scopes: Vec<String>,
    /// Resource that tokens are for.
    pub resource: Option<String>,
    /// Nonce that the ID token has to repeat.
    pub nonce: Option<String>,
    /// `true` if the client gets a refresh token.
    #[serde(default)]
    pub refresh: bool,
    /// Session of the login.
    pub session: SessionId,
    /// User who consented.
    pub user: UserId,
    /// Profile of the user.
    pub profile: Profile,
    /// Time at which the user was authenticated.
    pub authenticated: Timestamp,
}

/// Result of redeeming a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRedemption {
    /// Outcome for the code.
    pub outcome: RedeemOutcome,
    /// Client that presents the code, if it is registered.
    pub client: Option<Client>,
}

/// Outcome of redeeming a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedeemOutcome {
    /// The code was valid and is now redeemed; no other caller gets this outcome. The caller has to
    /// compare client, redirect URI and challenge with the data.
    Redeemed(Box<AuthorizationCodeData>),
    /// The same client with the same verifier is already redeeming the code. Nothing has changed.
    InProgress,
    /// The code was redeemed before. Its grant is now revoked (RFC 6749 section 4.1.2).
    Replayed(Revocation),
    /// The code does not exist, or its record has expired.
    Unknown,
}

/// Outcome of storing a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantInsertOutcome {
    /// The grant is stored.
    Inserted,
    /// The code was replayed, invalidated or never redeemed: no grant is stored, and no token may
    /// be issued.
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
