//! Token response: signs the tokens of a grant.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use vmcp_auth_store::{Grant, Timestamp};
use vmcp_core::Clock;

use crate::error::{ErrorCode, OAuthError};
use crate::random_tokens::random;
use crate::response::json;
use crate::scope::Scopes;
use crate::settings::Settings;
use crate::token_claims::TokenClaims;

/// Issuer of token responses.
#[derive(Clone)]
pub(crate) struct TokenIssuer {
    settings: Arc<Settings>,
    clock: Clock,
}

/// Response of the token endpoint (RFC 6749 section 5.1).
#[derive(Serialize)]
struct TokenResponse<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: u64,
    scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_token: Option<&'a str>,
}

impl TokenIssuer {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        Self { settings, clock }
    }

    /// Signs the tokens, and returns the response of the token endpoint.
    pub(super) fn respond(
        &self,
        grant: &Grant,
        scopes: &Scopes,
        refresh: Option<&SecretString>,
        nonce: Option<&str>,
    ) -> Result<Response, OAuthError> {
        let now = Timestamp::from(self.clock.now());
        let ends = Timestamp::min(now + self.settings.lifespans.access(), grant.ends);
        let claims = TokenClaims {
            issuer: self.settings.issuer.as_str(),
            grant,
            scopes,
            now,
            ends,
            id: random()?,
        };
        let keys = &self.settings.keys;
        let failed = |error| {
            tracing::error!(%error, "failed to issue token");
            OAuthError::server_error()
        };
        let access = claims.sign_access_token(keys).map_err(failed)?;
        let id = claims.sign_id_token(keys, &access, nonce).map_err(failed)?;
        Ok(json(
            StatusCode::OK,
            &TokenResponse {
                access_token: &access,
                token_type: "Bearer",
                expires_in: ends.since(now).as_secs(),
                scope: scopes.to_string(),
                refresh_token: refresh.map(ExposeSecret::expose_secret),
                id_token: id.as_deref(),
            },
        ))
    }
}

/// Returns the error for a resource other than the one of the grant.
pub(super) fn invalid_target() -> OAuthError {
    OAuthError::new(ErrorCode::InvalidTarget, "resource is invalid: use the resource of the grant")
}
