//! State of a login between the authorization request and its response.

use std::fmt;
use std::time::SystemTime;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};

use crate::{AuthorizationDenied, AuthorizationResponseError, Scopes};

/// State that [`Provider::finish`](crate::Provider::finish) needs from
/// [`Provider::begin`](crate::Provider::begin). Serialize it as [`Plaintext`](crate::Plaintext),
/// encrypt it, and use it for at most one response.
#[derive(Clone)]
pub struct AuthorizationState {
    /// Code verifier (RFC 7636 section 4.1).
    pub(crate) verifier: SecretString,
    /// Nonce that the ID token has to repeat (OpenID Connect Core 1.0 section 3.1.2.1).
    pub(crate) nonce: Option<SecretString>,
    /// Identity of the provider: [`Provider::issuer_id`](crate::Provider::issuer_id).
    pub(crate) issuer_id: Box<str>,
    /// Expected issuer of the response, if it is known (RFC 9207).
    pub(crate) issuer: Option<Box<str>>,
    /// `true` if that issuer sends `iss` in each response.
    pub(crate) issuer_in_answer: bool,
    /// Client identifier of the request.
    pub(crate) client_id: Box<str>,
    /// Requested scopes.
    pub(crate) scopes: Scopes,
    /// Time of the request.
    pub(crate) begun: SystemTime,
}

/// Authorization response in the query of the callback (RFC 6749 section 4.1.2, RFC 9207 section
/// 2).
#[derive(Clone)]
pub struct AuthorizationResponse {
    /// Authorization code, or the parameter `error`, classified by
    /// [`AuthorizationDenied::from_code`]. Check `iss` with [`AuthorizationState::expects`] first:
    /// the response may be of another provider.
    pub outcome: Result<SecretString, AuthorizationDenied>,
    /// Issuer of the response.
    pub iss: Option<String>,
}

impl AuthorizationState {
    /// Returns the client identifier of the request.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Returns the time of the request.
    #[must_use]
    pub fn begun(&self) -> SystemTime {
        self.begun
    }

    /// Checks that a response with `iss` may belong to this login (RFC 9207 section 2.4), for a
    /// code or an error. [`Provider::finish`](crate::Provider::finish) performs this check itself.
    ///
    /// An issuer that announces `iss` has to send it; without the announcement it may be missing,
    /// but not different. Without a known issuer, any response passes.
    ///
    /// # Errors
    /// [`AuthorizationResponseError::MissingIssuer`] or [`AuthorizationResponseError::WrongIssuer`].
    pub fn expects(&self, iss: Option<&str>) -> Result<(), AuthorizationResponseError> {
        match (&self.issuer, iss) {
            (Some(own), Some(iss)) if **own != *iss => Err(AuthorizationResponseError::WrongIssuer),
            (_, None) if self.issuer_in_answer => Err(AuthorizationResponseError::MissingIssuer),
            _ => Ok(()),
        }
    }

    /// Returns the S256 code challenge (RFC 7636 section 4.2).
    pub(crate) fn challenge(&self) -> String {
        let verifier = self.verifier.expose_secret().as_bytes();
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier))
    }
}

/// Returns 32 random bytes as 43 characters that need no escaping; `None` if random numbers are
/// unavailable.
pub(crate) fn random() -> Option<SecretString> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes).into())
}

impl fmt::Debug for AuthorizationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leg")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthorizationResponse {
    /// Omits all fields: they come from outside.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationResponse").finish_non_exhaustive()
    }
}
