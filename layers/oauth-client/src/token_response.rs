//! Members of token and error responses (RFC 6749 section 5), for clients of any token endpoint.

use std::time::Duration;

use serde_json::Value;

/// Maximum length of a token in bytes, since servers limit the size of headers.
pub const MAX_TOKEN_SIZE: usize = 16 * 1024;

/// Maximum length of an error code that may be logged.
const MAX_CODE_LEN: usize = 40;

/// Returns `true` if a header can carry the text as a bearer token (RFC 6750 section 2.1): at most
/// [`MAX_TOKEN_SIZE`] bytes of visible ASCII.
#[must_use]
pub fn is_bearer_token(text: &str) -> bool {
    (1..=MAX_TOKEN_SIZE).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns `true` if `token_type` is Bearer, in any case. A token of another type, such as `mac` or `N_A`, is not valid
/// as a bearer token.
#[must_use]
pub fn is_bearer_type(token_type: &str) -> bool {
    token_type.eq_ignore_ascii_case("bearer")
}

/// Parses `expires_in`: a number of seconds, or a string that contains one, as some servers send it. A negative number
/// becomes zero; `None` for anything else.
#[must_use]
pub fn parse_expires_in(value: &Value) -> Option<Duration> {
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

/// Returns an error code that is safe to log and to pass on. The codes of the RFCs consist of lower-case words; other
/// codes could contain anything, such as a token, and give `None`.
#[must_use]
pub fn loggable_error_code(code: &str) -> Option<&str> {
    let is_plain_code = (1..=MAX_CODE_LEN).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_plain_code.then_some(code)
}
