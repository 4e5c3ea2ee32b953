//! Identity of the user: from an ID token, a userinfo endpoint or, without either, the access
//! token.

use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Method as HttpMethod, Request};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use vmcp_core::Body;

use crate::form::bearer;
use crate::mapping::subject;
use crate::provider_http::ProviderHttp;
use crate::{
    EndpointError, EndpointKind, FieldMapping, IdentityError, Method, ProviderError, UserInfo,
};

/// Maximum length of a subject in bytes (OpenID Connect Core 1.0 section 2).
const MAX_SUBJECT: usize = 255;

/// Maximum length of a name or address in characters.
const MAX_TEXT: usize = 256;

/// Identity of a user.
pub(crate) struct User {
    pub(crate) subject: Box<str>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) email: Option<Box<str>>,
    /// `true` if the provider verified the address; `None` if it does not report that.
    pub(crate) email_verified: Option<bool>,
    /// Time of authentication, if an ID token reports it.
    pub(crate) authenticated: Option<SystemTime>,
}

impl User {
    /// Creates a user from the claims of an ID token or a userinfo response.
    pub(crate) fn from_claims(
        answer: &Map<String, Value>,
        fields: &FieldMapping,
    ) -> Result<Self, ProviderError> {
        let subject = fields.subject(answer).filter(|subject| {
            // Plus one for the sign that distinguishes numbers from strings.
            subject.len() <= MAX_SUBJECT + usize::from(subject.starts_with('#'))
                && !subject.contains(|one: char| one.is_control())
        });
        let verified = email_verified(answer);
        Ok(Self {
            subject: subject.ok_or(IdentityError::MissingSubject)?.into(),
            name: fields.name(answer).and_then(|name| display_text(&name)),
            email: fields
                .email(answer)
                .filter(|_| verified != Some(false))
                .and_then(|email| display_text(&email)),
            email_verified: verified,
            authenticated: None,
        })
    }

    /// Creates a user from an ID token, with the time of authentication (`auth_time`).
    pub(crate) fn from_id_token(claims: &Map<String, Value>) -> Result<Self, ProviderError> {
        let time = claims.get("auth_time").and_then(Value::as_u64).map(Duration::from_secs);
        let authenticated = time.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        Ok(Self { authenticated, ..Self::from_claims(claims, &FieldMapping::default())? })
    }

    /// Creates a user with a synthetic subject: `tk-` and the first 16 bytes of the access token's
    /// SHA-256.
    pub(crate) fn is_synthetic(access: &SecretString) -> Self {
        let hash = digest::digest(&digest::SHA256, access.expose_secret().as_bytes());
        let hex = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}"));
        let subject = ["tk-".to_owned()].into_iter().chain(hex).collect::<String>();
        Self {
            subject: subject.into(),
            name: None,
            email: None,
            email_verified: None,
            authenticated: None,
        }
    }

    /// Completes the user of the ID token with a userinfo response.
    ///
    /// `sub` in the response has to match the ID token (OpenID Connect Core 1.0 section 5.3.2). It
    /// may be missing only if the operator mapped other fields to the subject.
    pub(crate) fn with_user_info(
        self,
        answer: &Map<String, Value>,
        fields: &FieldMapping,
    ) -> Result<Self, ProviderError> {
        match answer.get("sub") {
            Some(sub) if subject(sub).as_deref() == Some(&self.subject) => {}
            None if fields.renames_subject() => {}
            _ => return Err(IdentityError::OtherUser.into()),
        }
        let said = Self::from_claims(answer, fields)?;
        let (email, email_verified) = match (self.email_verified, said.email_verified) {
            // The ID token is signed: no other response can verify the address.
            (Some(false), _) | (_, Some(false)) => (None, Some(false)),
            // Each verification belongs to its own address.
            (own, theirs) => match (self.email, said.email) {
                (Some(own_email), Some(email)) if own_email == email => {
                    (Some(email), theirs.or(own))
                }
                (_, Some(email)) => (Some(email), theirs),
                (own_email, None) => (own_email, own),
            },
        };
        Ok(Self {
            subject: said.subject,
            name: said.name.or(self.name),
            email,
            email_verified,
            authenticated: self.authenticated,
        })
    }
}

/// Returns whether the address is verified, if the response reports it (OpenID Connect Core 1.0
/// section 5.1). Some providers send a string.
fn email_verified(answer: &Map<String, Value>) -> Option<bool> {
    match answer.get("email_verified")? {
        Value::Bool(verified) => Some(*verified),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Returns a text that can be displayed and put into a token; `None` if it is empty or too long.
fn display_text(text: &str) -> Option<Box<str>> {
    let clean: String = text.chars().filter(|one| !one.is_control()).collect();
    let clean = clean.trim();
    (!clean.is_empty() && clean.chars().count() <= MAX_TEXT).then(|| clean.into())
}

/// Requests the user of an access token from a userinfo endpoint.
pub(crate) async fn fetch_user_info(
    http_client: &ProviderHttp,
    info: &UserInfo,
    access: &SecretString,
) -> Result<Map<String, Value>, ProviderError> {
    let UserInfo { endpoint, method, headers, fields: _ } = info;
    let mut request = Request::new(Body::from(Bytes::new()));
    *request.method_mut() = match method {
        Method::Get => HttpMethod::GET,
        Method::Post => HttpMethod::POST,
    };
    request.uri_mut().clone_from(endpoint.uri());
    request.headers_mut().clone_from(headers.map());
    let bearer =
        bearer(access).ok_or(ProviderError::at(EndpointKind::Token, EndpointError::NoToken))?;
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let response = http_client.send(EndpointKind::UserInfo, request).await?;
    response.object_of_any_type(EndpointKind::UserInfo)
}

#[cfg(test)]
mod tests;
