//! Access tokens (RFC 9068) and id tokens (OpenID Connect Core 1.0 section 2).

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use vmcp_auth_store::{Grant, SessionId, Timestamp};
use vmcp_jwt::Algorithm;

use crate::scope::OPENID_SCOPE;
use crate::scope::Scopes;
use crate::signing_keys::{SignError, SigningKeys};

/// Claim that names the session whose upstream tokens belong to an access token.
pub(crate) const SESSION_CLAIM: &str = "tsid";

#[derive(Serialize)]
struct AccessTokenClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a [String],
    exp: u64,
    iat: u64,
    jti: String,
    client_id: &'a str,
    scope: String,
    scp: Vec<&'a str>,
    tsid: String,
    auth_time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_verified: Option<bool>,
}

#[derive(Serialize)]
struct IdTokenClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    exp: u64,
    iat: u64,
    auth_time: u64,
    at_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_verified: Option<bool>,
}

/// Inputs of a token: issuer, grant, scopes and time.
pub(crate) struct TokenClaims<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) grant: &'a Grant,
    /// Scopes of the grant, or a subset.
    pub(crate) scopes: &'a Scopes,
    pub(crate) now: Timestamp,
    pub(crate) ends: Timestamp,
    /// Random bytes that make the token unique.
    pub(crate) id: [u8; 16],
}

impl TokenClaims<'_> {
    /// Returns a claim of the user if its scope was granted (OpenID Connect Core 1.0 section 5.4).
    fn if_granted<T>(&self, scope: &str, value: Option<T>) -> Option<T> {
        value.filter(|_| self.scopes.contains(scope))
    }

    /// Signs the access token.
    pub(crate) fn sign_access_token(&self, keys: &SigningKeys) -> Result<String, SignError> {
        let Self { issuer, grant, scopes, now, ends, id } = self;
        let claims = AccessTokenClaims {
            iss: issuer,
            sub: grant.user.as_str(),
            aud: &grant.audience,
            exp: ends.unix(),
            iat: now.unix(),
            jti: URL_SAFE_NO_PAD.encode(id),
            client_id: grant.client.as_str(),
            scope: scopes.to_string(),
            scp: scopes.iter().collect(),
            tsid: SessionId::to_text(grant.session),
            auth_time: grant.authenticated.unix(),
            name: self.if_granted("profile", grant.profile.name.as_deref()),
            email: self.if_granted("email", grant.profile.email.as_deref()),
            email_verified: self.if_granted("email", grant.profile.email_verified),
        };
        keys.sign("at+jwt", &claims)
    }

    /// Signs the ID token that goes with `access`, if the `openid` scope was granted.
    pub(crate) fn sign_id_token(
        &self,
        keys: &SigningKeys,
        access: &str,
        nonce: Option<&str>,
    ) -> Result<Option<String>, SignError> {
        let Self { issuer, grant, scopes, now, ends, .. } = self;
        if !scopes.contains(OPENID_SCOPE) {
            return Ok(None);
        }
        let claims = IdTokenClaims {
            iss: issuer,
            sub: grant.user.as_str(),
            aud: grant.client.as_str(),
            exp: ends.unix(),
            iat: now.unix(),
            auth_time: grant.authenticated.unix(),
            at_hash: at_hash(keys.algorithm(), access),
            nonce,
            name: self.if_granted("profile", grant.profile.name.as_deref()),
            email: self.if_granted("email", grant.profile.email.as_deref()),
            email_verified: self.if_granted("email", grant.profile.email_verified),
        };
        keys.sign("JWT", &claims).map(Some)
    }
}

/// Returns the left half of the access token's digest (OpenID Connect Core 1.0 section 3.1.3.6).
fn at_hash(algorithm: Algorithm, access: &str) -> String {
    let hash = match algorithm {
        Algorithm::Es384 => &digest::SHA384,
        // Ed25519 uses SHA-512.
        Algorithm::EdDsa => &digest::SHA512,
        _ => &digest::SHA256,
    };
    let made = digest::digest(hash, access.as_bytes());
    URL_SAFE_NO_PAD.encode(&made.as_ref()[..made.as_ref().len() / 2])
}
