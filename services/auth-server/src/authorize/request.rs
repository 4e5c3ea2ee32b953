//! Validation of an authorization request, whose errors are reported to the client.

use vmcp_auth_store::{Client, CodeChallenge, ReauthOptions};

use super::parameter::{challenge, is_printable, max_age, prompts, scopes};
use crate::error::{ErrorCode, OAuthError};
use crate::params::Params;
use crate::scope::Scopes;
use crate::settings::Settings;

/// Maximum length of `state`, in bytes.
pub(super) const MAX_STATE: usize = 2048;

/// Maximum length of `nonce`, in bytes.
const MAX_NONCE: usize = 512;

/// Validated authorization request.
pub(super) struct ValidatedRequest {
    pub(super) scopes: Scopes,
    pub(super) resource: String,
    pub(super) challenge: CodeChallenge,
    pub(super) nonce: Option<String>,
    /// `true` if the grant includes a refresh token.
    pub(super) refresh: bool,
    pub(super) fresh: ReauthOptions,
    /// `true` if the consent page is shown even where a consent is stored.
    pub(super) force_consent: bool,
}

impl ValidatedRequest {
    /// Validates the parameters whose errors are reported to the client.
    pub(super) fn validate(
        params: &Params<'_>,
        client: &Client,
        settings: &Settings,
    ) -> Result<Self, OAuthError> {
        check_supported(params)?;
        let nonce = params.get("nonce");
        if nonce.is_some_and(|nonce| !is_printable(nonce, MAX_NONCE)) {
            return Err(OAuthError::invalid_request(
                "nonce is invalid: use at most 512 characters of printable ASCII",
            ));
        }
        let prompts = prompts(params)?;
        let refresh = client.refresh && settings.scopes.is_offline();
        let scopes = scopes(params, client)?;
        Ok(Self {
            // A client without the refresh token grant type gets no refresh token.
            scopes: if refresh { scopes } else { scopes.without_offline_access() },
            refresh,
            resource: find_audience(params, settings)?,
            challenge: challenge(params)?,
            nonce: nonce.map(str::to_owned),
            fresh: ReauthOptions {
                login: prompts.contains(&"login"),
                select_account: prompts.contains(&"select_account"),
                max_age: max_age(params)?,
            },
            force_consent: prompts.contains(&"consent"),
        })
    }
}

/// Returns the audience of the tokens (RFC 8707 section 2.1).
fn find_audience(params: &Params<'_>, settings: &Settings) -> Result<String, OAuthError> {
    let found = settings.audiences.find(params.get("resource"));
    let words = "resource is unknown: use a resource of this authorization server";
    found
        .map(|known| known.as_str().to_owned())
        .ok_or(OAuthError::new(ErrorCode::InvalidTarget, words))
}

/// Rejects repeated parameters, and values that this server does not support.
fn check_supported(params: &Params<'_>) -> Result<(), OAuthError> {
    if params.is_repeated("resource") {
        return Err(OAuthError::new(
            ErrorCode::InvalidTarget,
            "resource is repeated: send it once",
        ));
    }
    if params.has_repeated() {
        return Err(OAuthError::invalid_request(
            "a parameter is repeated: send each parameter once",
        ));
    }
    if params.get("state").is_some_and(|state| !is_printable(state, MAX_STATE)) {
        return Err(OAuthError::invalid_request(
            "state is invalid: use at most 2048 characters of printable ASCII",
        ));
    }
    for (name, code) in [
        ("request", ErrorCode::RequestNotSupported),
        ("request_uri", ErrorCode::RequestUriNotSupported),
        ("registration", ErrorCode::RegistrationNotSupported),
    ] {
        if params.has(name) {
            return Err(OAuthError::new(
                code,
                "request, request_uri and registration are not supported: send plain parameters",
            ));
        }
    }
    match params.get("response_type") {
        Some("code") => {}
        Some(_) => {
            let words = "response_type is not supported: use code";
            return Err(OAuthError::new(ErrorCode::UnsupportedResponseType, words));
        }
        None => {
            return Err(OAuthError::invalid_request("response_type is missing: use code"));
        }
    }
    if params.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(OAuthError::invalid_request("response_mode is not supported: use query"));
    }
    Ok(())
}
