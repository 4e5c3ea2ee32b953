//! Responses to rejected requests.

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use vmcp_core::Challenge;

use crate::{AuthError, BearerChallenge, ProtectedResource, error_response};

/// Parameters of challenges (RFC 6750 section 3, RFC 9728 section 5.1).
#[derive(Clone, Debug, Default)]
pub(crate) struct ChallengeParams {
    pub(crate) realm: Option<Box<str>>,
    pub(crate) resource: Option<ProtectedResource>,
    /// The required scopes.
    pub(crate) required: Vec<Box<str>>,
}

impl ChallengeParams {
    /// Returns the response to a rejected request.
    pub(crate) fn response<R: From<Bytes>>(&self, auth_error: &AuthError) -> Response<R> {
        let scopes;
        let (status, error, description) = match auth_error {
            AuthError::NoCredentials => {
                let missing = "the Authorization header is missing";
                (StatusCode::UNAUTHORIZED, "invalid_request", missing)
            }
            AuthError::InvalidRequest(reason) => {
                (StatusCode::UNAUTHORIZED, "invalid_request", &**reason)
            }
            AuthError::InvalidToken(reason) => {
                (StatusCode::UNAUTHORIZED, "invalid_token", &**reason)
            }
            AuthError::InsufficientScope(needed) => {
                scopes = format!("the token requires the scopes {}", needed.join(" "));
                (StatusCode::FORBIDDEN, "insufficient_scope", scopes.as_str())
            }
            AuthError::TooManyAttempts { .. } => {
                let wait = "too many invalid tokens from this address: wait";
                (StatusCode::TOO_MANY_REQUESTS, "too_many_requests", wait)
            }
            AuthError::Unavailable { .. } => {
                let wait = "the identity provider is unavailable: try again";
                (StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", wait)
            }
        };
        let mut response = error_response(status, error, description);
        let headers = response.headers_mut();
        let error = Some((error, description));
        let challenge = match auth_error {
            // A request without credentials gets a challenge without an error (RFC 6750 section 3.1).
            AuthError::NoCredentials => self.header(None, self.advertised()),
            AuthError::InvalidRequest(_) | AuthError::InvalidToken(_) => {
                self.header(error, self.advertised())
            }
            AuthError::InsufficientScope(needed) => self.header(error, needed),
            AuthError::TooManyAttempts { retry_after } | AuthError::Unavailable { retry_after } => {
                headers.insert(RETRY_AFTER, (*retry_after).into());
                None
            }
        };
        if let Some(challenge) = challenge {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// Returns the header for a challenge of an inner service, described by `message`.
    pub(crate) fn header_for(&self, challenge: &Challenge, message: &str) -> Option<HeaderValue> {
        match challenge {
            Challenge::InvalidToken => {
                self.header(Some(("invalid_token", message)), self.advertised())
            }
            Challenge::InsufficientScope(needed) => {
                // This layer would reject a token with the scopes of the operation alone.
                let mut all = self.required.clone();
                let more: Vec<_> = needed.iter().filter(|it| !all.contains(*it)).cloned().collect();
                all.extend(more);
                self.header(Some(("insufficient_scope", message)), &all)
            }
        }
    }

    fn advertised(&self) -> &[Box<str>] {
        self.resource.as_ref().map_or(&[], ProtectedResource::scopes)
    }

    /// Returns the header, with the error and its description if given.
    fn header(&self, error: Option<(&str, &str)>, scopes: &[Box<str>]) -> Option<HeaderValue> {
        let challenge = BearerChallenge {
            realm: self.realm.as_deref(),
            resource: self.resource.as_ref(),
            scopes,
            error: error.map(|(error, _)| error),
            description: error.map(|(_, description)| description),
        };
        challenge.header()
    }
}

#[cfg(test)]
mod tests;
