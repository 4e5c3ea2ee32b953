//! Parsing of token responses.

use std::time::{Duration, SystemTime};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use crate::token_endpoint::{BearerToken, EndpointError, ExchangeError, TokenType};

/// Maximum length of an error code that is passed on.
const MAX_CODE_LEN: usize = 40;

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
    // A token of another type, such as `mac` or `N_A`, is not valid as a bearer token.
    if !token_type.is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(EndpointError::WrongType.into());
    }
    let accepted = [TokenType::AccessToken.urn(), TokenType::Jwt.urn()];
    if issued_token_type.is_some_and(|kind| !accepted.contains(&kind.as_str())) {
        return Err(EndpointError::WrongType.into());
    }
    let token = access_token.ok_or(EndpointError::NoToken)?;
    let expires_at = expires_in.as_ref().and_then(parse_seconds).map(|lifetime| {
        requested_at.checked_add(lifetime).unwrap_or(requested_at + Duration::from_secs(86_400))
    });
    Ok(BearerToken::new(&token, expires_at)?)
}

/// Parses a number of seconds, or a string that contains one. A negative number becomes zero; anything else is ignored.
fn parse_seconds(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse::<f64>().ok()?,
        _ => return None,
    };
    if seconds.is_nan() {
        return None;
    }
    // A lifetime beyond the range of `Duration` never ends.
    Some(Duration::try_from_secs_f64(seconds.max(0.0).floor()).unwrap_or(Duration::MAX))
}

/// Returns the error for a code. The codes of the RFCs consist of lower-case words; other codes could contain anything,
/// such as a token, and are not passed on.
fn error_from_code(code: &str) -> ExchangeError {
    if matches!(code, "temporarily_unavailable" | "server_error") {
        return EndpointError::ServerError.into();
    }
    let is_plain_code = (1..=MAX_CODE_LEN).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let code = if is_plain_code { code } else { "invalid error code" };
    ExchangeError::Rejected { code: code.into() }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests;
