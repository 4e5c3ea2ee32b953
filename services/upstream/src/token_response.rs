//! What a token endpoint's answer means (RFC 6749 section 5, OpenID Connect Core 1.0 section 3.1.3.3).

use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::client::is_token;
use crate::provider_http::{ProviderResponse, oauth_error};
use crate::{EndpointError, EndpointKind, ProviderError, Scopes, TokenMapping};

/// The longest token that is kept, in bytes.
const MAX_TOKEN: usize = 16 * 1024;

/// The most scopes that are kept.
const MAX_SCOPES: usize = 100;

/// What a token endpoint gave.
pub(crate) struct TokenResponse {
    pub(crate) access: SecretString,
    pub(crate) refresh: Option<SecretString>,
    pub(crate) id: Option<SecretString>,
    pub(crate) expires_at: Option<SystemTime>,
    /// What was granted, where it says.
    pub(crate) scopes: Option<Scopes>,
}

/// The members of an answer, wherever they stood.
struct TokenMembers<'a> {
    access: Option<&'a Value>,
    refresh: Option<&'a Value>,
    expires_in: Option<&'a Value>,
    scope: Option<&'a Value>,
}

/// The tokens of an answer to a request that was sent at `asked_at`.
pub(crate) fn parse(
    response: &ProviderResponse,
    mapping: Option<&TokenMapping>,
    asked_at: SystemTime,
) -> Result<TokenResponse, ProviderError> {
    let at = |cause| ProviderError::at(EndpointKind::Token, cause);
    let answer = match mapping {
        Some(_) => response.object_of_any_type(EndpointKind::Token)?,
        None => response.object(EndpointKind::Token)?,
    };
    let members = match mapping {
        Some(mapping) => mapped(&answer, mapping),
        None => standard(&answer),
    };
    let TokenMembers { access, refresh, expires_in, scope } = members;
    let Some(access) = access.and_then(Value::as_str) else {
        // Some providers refuse with status 200.
        return Err(oauth_error(EndpointKind::Token, &answer).unwrap_or(at(EndpointError::NoToken)));
    };
    let access = token(access).ok_or(at(EndpointError::NoToken))?;
    // A token of another type, `mac` or `N_A` for example, proves nothing in a bearer's header.
    let kind = answer.get("token_type").and_then(Value::as_str);
    let bearer = kind.map(|kind| kind.eq_ignore_ascii_case("bearer"));
    if !bearer.unwrap_or(false) && mapping.is_none() {
        return Err(at(EndpointError::WrongTokenType));
    }
    let optional = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => token(text).map(Some).ok_or(at(EndpointError::Malformed)),
        Some(_) => Err(at(EndpointError::Malformed)),
    };
    Ok(TokenResponse {
        access,
        refresh: optional(refresh)?,
        id: optional(answer.get("id_token"))?,
        expires_at: expires_in.and_then(lifetime).and_then(|life| asked_at.checked_add(life)),
        scopes: scope.and_then(scopes),
    })
}

fn standard(answer: &Map<String, Value>) -> TokenMembers<'_> {
    TokenMembers {
        access: answer.get("access_token"),
        refresh: answer.get("refresh_token"),
        expires_in: answer.get("expires_in"),
        scope: answer.get("scope"),
    }
}

fn mapped<'a>(answer: &'a Map<String, Value>, mapping: &TokenMapping) -> TokenMembers<'a> {
    let TokenMapping { access_token, expires_in, refresh_token, scope } = mapping;
    TokenMembers {
        access: access_token.find(answer),
        refresh: refresh_token.find(answer),
        expires_in: expires_in.find(answer),
        scope: scope.find(answer),
    }
}

fn token(text: &str) -> Option<SecretString> {
    (text.len() <= MAX_TOKEN && is_token(text)).then(|| text.into())
}

/// A number of seconds, or one in a string, as some servers write it. What is no positive number says
/// nothing, and what no date can hold never ends.
fn lifetime(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse::<f64>().ok()?,
        _ => return None,
    };
    let life = Duration::try_from_secs_f64(seconds.floor()).ok()?;
    (!life.is_zero()).then_some(life)
}

fn scopes(value: &Value) -> Option<Scopes> {
    let names: Vec<&str> = match value {
        Value::String(text) => text.split_ascii_whitespace().collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    // What is no scope's name is nothing that was asked for.
    let legal = names.into_iter().filter(|name| Scopes::new([name]).is_ok());
    Scopes::new(legal.take(MAX_SCOPES)).ok()
}

#[cfg(test)]
mod tests;
