//! The bearer token in the `Authorization` header.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The error of a request without a usable bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    /// The header is missing. Its challenge contains no error (RFC 6750 section 3.1).
    #[error("the Authorization header is missing")]
    Missing,
    /// The header occurs more than once.
    #[error("there is more than one Authorization header")]
    Duplicate,
    /// The header exceeds the maximum length.
    #[error("the Authorization header is too long")]
    TooLong,
    /// The scheme is not Bearer, or the token is malformed.
    #[error("the Authorization header must be: Bearer <token>")]
    InvalidFormat,
    /// The token is empty.
    #[error("the bearer token is empty")]
    Empty,
}

/// Returns the bearer token of a request with these headers (RFC 6750 section 2.1), of at most `max_len` bytes. The
/// scheme is case-insensitive. Tokens in the query or in a form are ignored.
///
/// # Errors
/// The token is missing, duplicate or malformed.
pub fn bearer_token(headers: &HeaderMap, max_len: usize) -> Result<&str, BearerError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(BearerError::Missing)?;
    if values.next().is_some() {
        return Err(BearerError::Duplicate);
    }
    if value.len() > max_len + "Bearer ".len() {
        return Err(BearerError::TooLong);
    }
    let text = value.to_str().map_err(|_| BearerError::InvalidFormat)?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(BearerError::InvalidFormat);
    }
    let token = token.trim_matches(' ');
    if memchr::memchr3(b' ', b'\t', b',', token.as_bytes()).is_some() {
        return Err(BearerError::InvalidFormat);
    }
    if token.is_empty() { Err(BearerError::Empty) } else { Ok(token) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Result<String, BearerError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        bearer_token(&headers, 16 * 1024).map(str::to_owned)
    }

    #[test]
    fn accepts_scheme_in_any_case() {
        for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(read(&[value]).as_deref(), Ok("abc"), "{value}");
        }
    }

    #[test]
    fn accepts_exactly_one_bearer_token() {
        let long = format!("Bearer {}", "x".repeat(20 * 1024));
        for (values, error) in [
            (&[][..], BearerError::Missing),
            (&["Basic abc"], BearerError::InvalidFormat),
            (&["Bearer"], BearerError::Empty),
            (&["Bearer  "], BearerError::Empty),
            (&[""], BearerError::InvalidFormat),
            (&["abc"], BearerError::InvalidFormat),
            (&["Bearer a", "Bearer a"], BearerError::Duplicate),
            (&["Bearer \u{e9}"], BearerError::InvalidFormat),
            (&["Bearer a b"], BearerError::InvalidFormat),
            (&["Bearer a, Bearer b"], BearerError::InvalidFormat),
            (&["Bearer a\tb"], BearerError::InvalidFormat),
            (&[&long], BearerError::TooLong),
        ] {
            assert_eq!(read(values), Err(error), "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_arbitrary_headers(value in "[\\x20-\\x7e\\x80-\\xff]{0,80}") {
            _ = read(&[&value]);
        }
    }

    #[test]
    fn token_has_maximum_length() {
        for (length, is_accepted) in [(8, true), (9, false)] {
            let value = format!("Bearer {}", "x".repeat(length));
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            let expected = if is_accepted { Ok("xxxxxxxx") } else { Err(BearerError::TooLong) };
            assert_eq!(bearer_token(&headers, 8), expected, "{length}");
        }
    }
}
