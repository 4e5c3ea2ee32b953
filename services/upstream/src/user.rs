//! Who the user is: by an id token, a userinfo endpoint, or, where a provider says nothing, by the access
//! token alone.

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

/// The longest subject, in bytes (OpenID Connect Core 1.0 section 2).
const MAX_SUBJECT: usize = 255;

/// The longest name or address, in characters.
const MAX_TEXT: usize = 256;

/// Who somebody is.
pub(crate) struct User {
    pub(crate) subject: Box<str>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) email: Option<Box<str>>,
    /// Whether the provider verified the address, where it says so.
    pub(crate) email_verified: Option<bool>,
    /// When they proved it, as far as an id token says.
    pub(crate) authenticated: Option<SystemTime>,
}

impl User {
    /// Who an id token's claims or a userinfo answer speak of.
    pub(crate) fn from_claims(
        answer: &Map<String, Value>,
        fields: &FieldMapping,
    ) -> Result<Self, ProviderError> {
        let subject = fields.subject(answer).filter(|subject| {
            // One more for the sign that tells kinds of subjects apart.
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

    /// Who an id token's claims speak of, and since when it is certain (`auth_time`).
    pub(crate) fn from_id_token(claims: &Map<String, Value>) -> Result<Self, ProviderError> {
        let time = claims.get("auth_time").and_then(Value::as_u64).map(Duration::from_secs);
        let authenticated = time.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        Ok(Self { authenticated, ..Self::from_claims(claims, &FieldMapping::default())? })
    }

    /// A subject that is nobody in particular: `tk-` and the first 16 bytes of the access token's SHA-256.
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

    /// What the id token says of the user, completed by what the userinfo answer says of the same user.
    ///
    /// The answer's `sub` has to be the id token's (OpenID Connect Core 1.0 section 5.3.2). One without `sub`
    /// is taken only where the operator chose other fields for the subject.
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
            // What the id token says is signed: no other answer makes the address a verified one.
            (Some(false), _) | (_, Some(false)) => (None, Some(false)),
            // Each speaks of its own address.
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

/// Whether the address is a verified one, where the answer says so (OpenID Connect Core 1.0 section 5.1); some
/// providers write a string.
fn email_verified(answer: &Map<String, Value>) -> Option<bool> {
    match answer.get("email_verified")? {
        Value::Bool(verified) => Some(*verified),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// A text that can be shown and put into a token. What is overlong is no name.
fn display_text(text: &str) -> Option<Box<str>> {
    let clean: String = text.chars().filter(|one| !one.is_control()).collect();
    let clean = clean.trim();
    (!clean.is_empty() && clean.chars().count() <= MAX_TEXT).then(|| clean.into())
}

/// Asks a userinfo endpoint whose access token this is.
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
