//! The token in the `Authorization` header, and nowhere else.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Why a request presents no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerFault {
    /// Nothing is presented: the challenge for it names no error (RFC 6750 section 3.1).
    #[error("the Authorization header is missing")]
    Missing,
    /// It is not said which of several counts.
    #[error("there is more than one Authorization header")]
    Repeated,
    /// It is longer than the caller takes.
    #[error("the Authorization header is too long")]
    TooLong,
    /// Another scheme, more than one word behind it, or no text.
    #[error("the Authorization header must be: Bearer <token>")]
    Form,
    /// Nothing comes after the scheme.
    #[error("the bearer token is empty")]
    Empty,
}

/// The bearer token of a request with these headers (RFC 6750 section 2.1), of at most `longest`
/// bytes. The scheme is read in any case. Tokens in the query or in a form are not read.
///
/// # Errors
/// There is none, or more than one, or one of another form.
pub fn bearer_token(headers: &HeaderMap, longest: usize) -> Result<&str, BearerFault> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(BearerFault::Missing)?;
    if values.next().is_some() {
        return Err(BearerFault::Repeated);
    }
    if value.len() > longest + "Bearer ".len() {
        return Err(BearerFault::TooLong);
    }
    let text = value.to_str().map_err(|_| BearerFault::Form)?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(BearerFault::Form);
    }
    let token = token.trim_matches(' ');
    if memchr::memchr3(b' ', b'\t', b',', token.as_bytes()).is_some() {
        return Err(BearerFault::Form);
    }
    if token.is_empty() { Err(BearerFault::Empty) } else { Ok(token) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Result<String, BearerFault> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        bearer_token(&headers, 16 * 1024).map(str::to_owned)
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(read(&[value]).as_deref(), Ok("abc"), "{value}");
        }
    }

    #[test]
    fn what_is_no_single_bearer_token_is_refused() {
        let long = format!("Bearer {}", "x".repeat(20 * 1024));
        for (values, fault) in [
            (&[][..], BearerFault::Missing),
            (&["Basic abc"], BearerFault::Form),
            (&["Bearer"], BearerFault::Empty),
            (&["Bearer  "], BearerFault::Empty),
            (&[""], BearerFault::Form),
            (&["abc"], BearerFault::Form),
            (&["Bearer a", "Bearer a"], BearerFault::Repeated),
            (&["Bearer \u{e9}"], BearerFault::Form),
            (&["Bearer a b"], BearerFault::Form),
            (&["Bearer a, Bearer b"], BearerFault::Form),
            (&["Bearer a\tb"], BearerFault::Form),
            (&[&long], BearerFault::TooLong),
        ] {
            assert_eq!(read(values), Err(fault), "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_breaks_the_reader(value in "[\\x20-\\x7e\\x80-\\xff]{0,80}") {
            _ = read(&[&value]);
        }
    }
}
