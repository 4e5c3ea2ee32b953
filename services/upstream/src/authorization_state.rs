//! One login under way: what is kept between sending a browser to a provider and its return.

use std::fmt;
use std::time::SystemTime;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};

use crate::{AuthorizationDenied, AuthorizationResponseError, Scopes};

/// What [`Provider::begin`](crate::Provider::begin) needs to know again in
/// [`Provider::finish`](crate::Provider::finish). It is serialised as [`Plaintext`](crate::Plaintext), to be
/// sealed, and used for one answer at most.
#[derive(Clone)]
pub struct AuthorizationState {
    /// The code verifier (RFC 7636 section 4.1).
    pub(crate) verifier: SecretString,
    /// The nonce that the id token has to repeat (OpenID Connect Core 1.0 section 3.1.2.1).
    pub(crate) nonce: Option<SecretString>,
    /// The provider that it was begun at: [`Provider::issuer_id`](crate::Provider::issuer_id).
    pub(crate) issuer_id: Box<str>,
    /// Whose answer is expected, where that is known (RFC 9207).
    pub(crate) issuer: Option<Box<str>>,
    /// Whether that issuer says of itself in each of its answers who it is.
    pub(crate) issuer_in_answer: bool,
    /// The client that the provider was asked as.
    pub(crate) client_id: Box<str>,
    /// What was asked for.
    pub(crate) scopes: Scopes,
    /// When.
    pub(crate) begun: SystemTime,
}

/// What a provider's answer says in the callback's query (RFC 6749 section 4.1.2, RFC 9207 section 2).
#[derive(Clone)]
pub struct AuthorizationResponse {
    /// The authorization code, or why there is none: the parameter `error`, read by [`AuthorizationDenied::from_code`]. It is
    /// the provider's only if `iss` is, so it counts for nothing before [`AuthorizationState::expects`] was asked.
    pub outcome: Result<SecretString, AuthorizationDenied>,
    /// Who answers.
    pub iss: Option<String>,
}

impl AuthorizationState {
    /// The client that the provider was asked as.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// When the browser was sent off.
    #[must_use]
    pub fn begun(&self) -> SystemTime {
        self.begun
    }

    /// Whether an answer with `iss` can be this leg's (RFC 9207 section 2.4), a code or an error.
    /// [`Provider::finish`](crate::Provider::finish) asks by itself, of both.
    ///
    /// An issuer that says who it is in each answer has to; one that doesn't say so, but does, has to be the
    /// expected one all the same. Where no issuer is known, nothing can be compared.
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

    /// The verifier's S256 challenge (RFC 7636 section 4.2).
    pub(crate) fn challenge(&self) -> String {
        let verifier = self.verifier.expose_secret().as_bytes();
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier))
    }
}

/// 32 random bytes, as 43 characters that need no escaping. `None` without randomness.
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
    /// Nothing: all of it comes from outside.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationResponse").finish_non_exhaustive()
    }
}
