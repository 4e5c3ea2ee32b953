//! Token responses (RFC 6749 section 5, OpenID Connect Core 1.0 section 3.1.3.3).

use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use serde_json::{Map, Value};
use vmcp_oauth_client::token_response::{is_bearer_token, is_bearer_type, parse_expires_in};

use crate::provider_http::{ProviderResponse, oauth_error};
use crate::{EndpointError, EndpointKind, ProviderError, Scopes, TokenMapping};

/// Maximum number of scopes.
const MAX_SCOPES: usize = 100;

/// Tokens of a response.
pub(crate) struct TokenResponse {
    pub(crate) access: SecretString,
    pub(crate) refresh: Option<SecretString>,
    pub(crate) id: Option<SecretString>,
    pub(crate) expires_at: Option<SystemTime>,
    /// Granted scopes, if the response has them.
    pub(crate) scopes: Option<Scopes>,
}

/// Members of a response, independent of their location.
struct TokenMembers<'a> {
    access: Option<&'a Value>,
    refresh: Option<&'a Value>,
    expires_in: Option<&'a Value>,
    scope: Option<&'a Value>,
}

/// Parses the response to a request that was sent at `asked_at`.
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
        // Some providers send errors with status 200.
        return Err(oauth_error(EndpointKind::Token, &answer).unwrap_or(at(EndpointError::NoToken)));
    };
    let access = token(access).ok_or(at(EndpointError::NoToken))?;
    let kind = answer.get("token_type").and_then(Value::as_str);
    if !kind.is_some_and(is_bearer_type) && mapping.is_none() {
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
    is_bearer_token(text).then(|| text.into())
}

/// Parses a lifetime. Zero counts as unknown, since such a token would expire on arrival.
fn lifetime(value: &Value) -> Option<Duration> {
    parse_expires_in(value).filter(|life| !life.is_zero())
}

fn scopes(value: &Value) -> Option<Scopes> {
    let names: Vec<&str> = match value {
        Value::String(text) => text.split_ascii_whitespace().collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    // Ignore malformed scope names: they were not requested.
    let legal = names.into_iter().filter(|name| Scopes::new([name]).is_ok());
    Scopes::new(legal.take(MAX_SCOPES)).ok()
}

#[cfg(test)]
mod tests;
