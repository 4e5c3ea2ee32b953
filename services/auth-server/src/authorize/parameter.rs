//! Parsers for single parameters of an authorization request.

use vmcp_auth_store::{Client, CodeChallenge};

use crate::error::{ErrorCode, OAuthError};
use crate::params::Params;
use crate::scope::Scopes;

/// Returns the scopes of the request, or all scopes of the client if the request names none.
pub(super) fn scopes(params: &Params<'_>, client: &Client) -> Result<Scopes, OAuthError> {
    let own = Scopes::from_stored(&client.scopes);
    let Some(text) = params.get("scope") else { return Ok(own) };
    let error = |words| OAuthError::new(ErrorCode::InvalidScope, words);
    let asked = Scopes::parse(text).map_err(|_| {
        error("scope is malformed: use space-separated scopes of at most 256 characters")
    })?;
    if asked.is_subset(&own) {
        Ok(asked)
    } else {
        Err(error("scope is invalid: request only scopes that the client registered"))
    }
}

/// Returns the values of `prompt`.
pub(super) fn prompts<'a>(params: &'a Params<'_>) -> Result<Vec<&'a str>, OAuthError> {
    let prompts: Vec<_> =
        params.get("prompt").into_iter().flat_map(|text| text.split(' ')).collect();
    match prompts.as_slice() {
        ["none"] => Err(OAuthError::new(
            ErrorCode::LoginRequired,
            "prompt=none is not possible: the user must log in interactively",
        )),
        several if several.contains(&"none") => Err(OAuthError::invalid_request(
            "prompt is invalid: none cannot be combined with other values",
        )),
        _ => Ok(prompts),
    }
}

/// Returns `max_age`: the maximum age of the user's authentication, in seconds.
pub(super) fn max_age(params: &Params<'_>) -> Result<Option<u32>, OAuthError> {
    let digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let read = |text: &str| Some(text).filter(digits)?.parse().ok();
    let error = OAuthError::invalid_request("max_age is invalid: use a number of seconds");
    params.get("max_age").map(|text| read(text).ok_or(error)).transpose()
}

/// Returns the PKCE challenge (RFC 7636 section 4.3), which is required and must use S256.
pub(super) fn challenge(params: &Params<'_>) -> Result<CodeChallenge, OAuthError> {
    let challenge = params.get("code_challenge");
    let challenge = challenge
        .ok_or(OAuthError::invalid_request("code_challenge is missing: use PKCE with S256"))?;
    if params.get("code_challenge_method") != Some("S256") {
        return Err(OAuthError::invalid_request(
            "code_challenge_method is not supported: use S256",
        ));
    }
    challenge.parse().map_err(|_| {
        OAuthError::invalid_request(
            "code_challenge is invalid: use the base64url form of a SHA-256 digest",
        )
    })
}

pub(super) fn is_printable(text: &str, longest: usize) -> bool {
    text.len() <= longest && text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
}
