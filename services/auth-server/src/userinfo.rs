//! Userinfo endpoint (OpenID Connect Core 1.0 section 5.3).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use vmcp_auth_store::StoreError;

use crate::access_token::{AccessTokenError, TokenVerifiers};
use crate::error::{ErrorCode, OAuthError};
use crate::extract::peer_address;
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::response::json;
use crate::scope::OPENID_SCOPE;
use crate::scope::Scopes;

/// Error for a token that this server does not accept.
const INVALID_TOKEN: OAuthError = OAuthError::new(
    ErrorCode::InvalidToken,
    "the access token is invalid, expired or revoked; log in again",
);

#[derive(Serialize)]
struct UserInfo<'a> {
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_verified: Option<bool>,
}

/// State of the userinfo endpoint.
pub(crate) struct UserinfoEndpoint {
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) verifiers: Arc<TokenVerifiers>,
}

/// Handles `GET` and `POST` of the userinfo endpoint. The response has the user's claims within the scopes of the token.
pub(crate) async fn userinfo(
    State(endpoint): State<Arc<UserinfoEndpoint>>,
    request: Request,
) -> Response {
    if let Err(oauth_error) = endpoint.limiters.admit(EndpointClass::Token, peer_address(&request))
    {
        return oauth_error.to_response();
    }
    match endpoint.respond(request.headers()) {
        Ok(response) => response,
        Err(Some(oauth_error)) if oauth_error.status() == StatusCode::SERVICE_UNAVAILABLE => {
            oauth_error.to_response()
        }
        Err(None) => challenge(json(StatusCode::UNAUTHORIZED, &serde_json::Map::new()), "Bearer"),
        Err(Some(oauth_error)) => {
            let (error, words) = (oauth_error.code.name(), oauth_error.description);
            let scope = if oauth_error.code == ErrorCode::InsufficientScope {
                ", scope=\"openid\""
            } else {
                ""
            };
            let challenged =
                format!("Bearer error=\"{error}\", error_description=\"{words}\"{scope}");
            challenge(oauth_error.to_response(), &challenged)
        }
    }
}

impl UserinfoEndpoint {
    fn respond(&self, headers: &HeaderMap) -> Result<Response, Option<OAuthError>> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let header = given.next().filter(|_| given.next().is_none());
        let header = header.and_then(|header| header.to_str().ok()).ok_or(None)?;
        let (scheme, token) = header.split_once(' ').ok_or(None)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(None);
        }
        let token = self.verifiers.verify_any(token.trim()).map_err(|oauth_error| {
            tracing::debug!(error = %oauth_error, "access token rejected at userinfo endpoint");
            Some(match oauth_error {
                AccessTokenError::RevocationsNotLoaded => OAuthError::from(StoreError::Unavailable),
                AccessTokenError::Token(_)
                | AccessTokenError::NoSession
                | AccessTokenError::Revoked => INVALID_TOKEN,
            })
        })?;
        let scopes = token.claims.text("scope").map(Scopes::parse).and_then(Result::ok);
        let scopes = scopes.ok_or(Some(INVALID_TOKEN))?;
        if !scopes.contains(OPENID_SCOPE) {
            return Err(Some(OAuthError::new(
                ErrorCode::InsufficientScope,
                "the scope openid is required; request it at login",
            )));
        }
        let verified = token.claims.get("email_verified").and_then(|claim| claim.value().as_bool());
        let told = |scope, claim| token.claims.text(claim).filter(|_| scopes.contains(scope));
        Ok(json(
            StatusCode::OK,
            &UserInfo {
                sub: &token.subject,
                name: told("profile", "name"),
                email: told("email", "email"),
                email_verified: verified.filter(|_| scopes.contains("email")),
            },
        ))
    }
}

/// Adds the challenge of RFC 6750 section 3.
fn challenge(mut response: Response, challenge: &str) -> Response {
    let value = HeaderValue::try_from(challenge).expect("error descriptions are printable ASCII");
    response.headers_mut().insert(WWW_AUTHENTICATE, value);
    response
}
