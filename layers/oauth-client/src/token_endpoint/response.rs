//! Parsing of token responses.

use std::time::{Duration, SystemTime};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use crate::token_endpoint::{BearerToken, EndpointError, ExchangeError, TokenType};
use crate::token_response::{is_bearer_type, loggable_error_code, parse_expires_in};

/// Token response (RFC 6749 section 5.1, RFC 8693 section 2.2.1). Duplicate members are an error.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<SecretString>,
    token_type: Option<String>,
    issued_token_type: Option<String>,
    expires_in: Option<Value>,
    error: Option<String>,
}

/// Error response (RFC 6749 section 5.2). The description is ignored: its content is arbitrary.
#[derive(Deserialize)]
struct TokenErrorResponse {
    error: Option<String>,
}

/// Returns the token of a response to a request that was sent at `requested_at`.
pub(crate) fn parse_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    requested_at: SystemTime,
) -> Result<BearerToken, ExchangeError> {
    if status.is_redirection() {
        return Err(EndpointError::Redirect.into());
    }
    if status == StatusCode::OK {
        return if is_json(headers) {
            parse_token(body, requested_at)
        } else {
            Err(EndpointError::NotJson.into())
        };
    }
    let error_statuses = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
    if !error_statuses.contains(&status) || !is_json(headers) {
        return Err(EndpointError::Status(status).into());
    }
    // Serde's errors may quote the response, so they are dropped.
    match serde_json::from_slice(body) {
        Ok(TokenErrorResponse { error: Some(code) }) => Err(error_from_code(&code)),
        Ok(TokenErrorResponse { error: None }) | Err(_) => {
            Err(EndpointError::Status(status).into())
        }
    }
}

fn parse_token(body: &[u8], requested_at: SystemTime) -> Result<BearerToken, ExchangeError> {
    let TokenResponse { access_token, token_type, issued_token_type, expires_in, error } =
        serde_json::from_slice(body).map_err(|_| EndpointError::Malformed)?;
    if let Some(code) = error {
        return Err(error_from_code(&code));
    }
    if !token_type.as_deref().is_some_and(is_bearer_type) {
        return Err(EndpointError::WrongType.into());
    }
    let accepted = [TokenType::AccessToken.urn(), TokenType::Jwt.urn()];
    if issued_token_type.is_some_and(|kind| !accepted.contains(&kind.as_str())) {
        return Err(EndpointError::WrongType.into());
    }
    let token = access_token.ok_or(EndpointError::NoToken)?;
    let expires_at = expires_in.as_ref().and_then(parse_expires_in).map(|lifetime| {
        requested_at.checked_add(lifetime).unwrap_or(requested_at + Duration::from_hours(24))
    });
    Ok(BearerToken::new(&token, expires_at)?)
}

/// Returns the error for a code.
fn error_from_code(code: &str) -> ExchangeError {
    if matches!(code, "temporarily_unavailable" | "server_error") {
        return EndpointError::ServerError.into();
    }
    ExchangeError::Rejected {
        code: loggable_error_code(code).unwrap_or("invalid error code").into(),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests;
