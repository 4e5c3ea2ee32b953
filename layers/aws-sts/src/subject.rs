//! Selection and claims of the token that is presented to STS.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use vmcp_core::{Claims, CredentialErrorKind, Identity, UpstreamError, UpstreamKind};

use crate::credentials::digest;
use crate::{AssumeError, SessionName};

/// Maximum length of `WebIdentityToken` in the STS API.
const MAX_TOKEN_LEN: usize = 20_000;

/// Token that is presented to STS. The role and the session name are derived from the claims of the same token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// The token that the caller presented to the gateway.
    #[default]
    Caller,
    /// The caller's access token of this upstream provider.
    Upstream(Box<str>),
}

/// Token for `WebIdentityToken` in the STS request.
pub(crate) struct WebIdentityToken<'a> {
    pub(crate) value: Cow<'a, SecretString>,
    issuer: &'a str,
    subject: &'a str,
    /// Empty for a caller's own token.
    provider: &'a str,
}

// === impl Subject ===

impl Subject {
    /// Returns the selected token of `identity`.
    pub(crate) async fn resolve<'a>(
        &'a self,
        identity: &'a Identity,
    ) -> Result<WebIdentityToken<'a>, CredentialErrorKind> {
        let (Some(issuer), Some(subject)) = (identity.issuer(), identity.subject()) else {
            return Err(CredentialErrorKind::NoCaller);
        };
        let (token, provider) = match self {
            Self::Caller => {
                (Cow::Borrowed(identity.token().ok_or(CredentialErrorKind::NoCaller)?), "")
            }
            Self::Upstream(provider) => {
                let not_linked =
                    || CredentialErrorKind::NoUpstreamToken { provider: provider.clone() };
                let tokens = identity.upstream().ok_or_else(not_linked)?;
                let token = tokens.token(provider, UpstreamKind::Access).await;
                let token = token.map_err(|error| match error {
                    UpstreamError::NotLinked => not_linked(),
                    UpstreamError::Unavailable => CredentialErrorKind::Unavailable {
                        reason: "the upstream provider's token cannot be had",
                    },
                })?;
                (Cow::Owned(token.value), &**provider)
            }
        };
        WebIdentityToken { value: token, issuer, subject, provider }.validate()
    }
}

// === impl WebIdentityToken ===

impl<'a> WebIdentityToken<'a> {
    fn validate(self) -> Result<Self, CredentialErrorKind> {
        if self.value.expose_secret().len() > MAX_TOKEN_LEN {
            let reason = "the token is longer than STS takes".into();
            return Err(CredentialErrorKind::Rejected { reason });
        }
        Ok(self)
    }

    /// Refreshes the upstream provider's token after STS rejected it with `error`. Returns `error` for a caller's own
    /// token, for errors that a new token does not fix, and if the provider is unavailable.
    pub(crate) async fn refresh(
        &self,
        identity: &'a Identity,
        error: AssumeError,
    ) -> Result<Self, CredentialErrorKind> {
        let tokens = identity.upstream().filter(|_| !self.provider.is_empty());
        let Some(tokens) = tokens.filter(|_| concerns_token(&error)) else {
            return Err(error.into());
        };
        match tokens.refresh(self.provider, UpstreamKind::Access, &self.value).await {
            Ok(token) => {
                let Self { issuer, subject, provider, .. } = *self;
                WebIdentityToken { value: Cow::Owned(token.value), issuer, subject, provider }
                    .validate()
            }
            Err(UpstreamError::NotLinked) => {
                Err(CredentialErrorKind::NoUpstreamToken { provider: self.provider.into() })
            }
            Err(UpstreamError::Unavailable) => Err(error.into()),
        }
    }

    /// Returns a digest that identifies this token of this caller.
    pub(crate) fn key(&self) -> [u8; 32] {
        let parts = [self.provider, self.issuer, self.subject, self.value.expose_secret()];
        digest(parts.iter().map(|part| part.as_bytes()))
    }

    /// Returns the claims in the token itself, none if it is not a JWT. Introspection may have told more about the
    /// caller, but STS sees the token alone, and so does the trust policy of the role. The signature was verified
    /// when the token was accepted or obtained, and STS verifies it again.
    pub(crate) fn claims(&self) -> Claims {
        decode_claims(self.value.expose_secret()).unwrap_or_default()
    }

    /// Returns the session name: the text or integer in `claim`, or the caller's subject if the token has no claims.
    pub(crate) fn session(&self, claims: &Claims, claim: &str) -> Option<SessionName> {
        match claims.object().get(claim) {
            Some(Value::String(name)) => SessionName::from_text(name),
            Some(Value::Number(number)) if !number.is_f64() => {
                SessionName::from_text(&number.to_string())
            }
            None if claims.is_empty() => SessionName::from_text(self.subject),
            _ => None,
        }
    }

    /// Returns the parts that identify the token's holder and survive a token refresh: provider, issuer, subject, and
    /// all claims except [`PER_TOKEN_CLAIMS`], since the trust policy of a role may evaluate `aud`, `azp`, `amr`, session
    /// tags and others. An upstream token without `iss` and `sub` does not identify its holder, so the token itself is
    /// a part.
    pub(crate) fn holder_parts<'b>(&'b self, claims: &Claims) -> [Cow<'b, str>; 5] {
        let [provider, issuer, subject] =
            [self.provider, self.issuer, self.subject].map(Cow::Borrowed);
        let is_own = self.provider.is_empty();
        let names_holder = claims.text("iss").is_some() && claims.text("sub").is_some();
        let stable = if is_own || names_holder { stable_claims(claims) } else { None };
        let (stable_claims, token) = match stable {
            Some(lasting) => (Cow::Owned(lasting), ""),
            None => (Cow::Borrowed(""), self.value.expose_secret()),
        };
        [provider, issuer, subject, stable_claims, Cow::Borrowed(token)]
    }
}

/// Claims that differ between tokens of the same holder and are not available to AWS policies.
const PER_TOKEN_CLAIMS: [&str; 6] = ["at_hash", "exp", "iat", "jti", "nbf", "nonce"];

/// Serializes all claims except [`PER_TOKEN_CLAIMS`], sorted by name.
fn stable_claims(claims: &Claims) -> Option<String> {
    let lasting = claims.object().iter();
    let lasting = lasting.filter(|(name, _)| !PER_TOKEN_CLAIMS.contains(&name.as_str()));
    serde_json::to_string(&lasting.collect::<BTreeMap<_, _>>()).ok()
}

/// Returns `true` if the cause of the rejection is the token (`AssumeRoleWithWebIdentity`, errors).
fn concerns_token(error: &AssumeError) -> bool {
    const CODES: [&str; 2] = ["ExpiredTokenException", "InvalidIdentityToken"];
    matches!(error, AssumeError::Rejected { code } if CODES.contains(&&**code))
}

fn decode_claims(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (Some(_), Some(decode_claims), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(decode_claims).ok()?).ok()?;
    Claims::parse(text).ok()
}
