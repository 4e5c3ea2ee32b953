//! Token endpoint (RFC 6749 section 3.2).

mod issuer;
mod redemption;
mod refresh;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;

pub(crate) use self::issuer::TokenIssuer;
pub(crate) use self::redemption::CodeRedemption;
pub(crate) use self::refresh::GrantRefresh;
use crate::error::{ErrorCode, OAuthError};
use crate::event_reporter::EventReporter;
use crate::extract::{peer_address, read_form};
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::token_request::{parse_form, report_rejection};

/// State of the token endpoint.
pub(crate) struct TokenEndpoint {
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) events: EventReporter,
    pub(crate) redemption: CodeRedemption,
    pub(crate) refresh: GrantRefresh,
}

/// Handles `POST` of the token endpoint.
pub(crate) async fn token(
    State(endpoint): State<Arc<TokenEndpoint>>,
    request: Request,
) -> Response {
    endpoint.respond(request).await.unwrap_or_else(|error| {
        tracing::info!(
            error = error.code.name(),
            reason = error.description,
            "token request rejected"
        );
        error.to_response()
    })
}

impl TokenEndpoint {
    async fn respond(&self, request: Request) -> Result<Response, OAuthError> {
        let address = peer_address(&request);
        let events = self.events.for_request(&request);
        self.limiters.admit(EndpointClass::Token, address)?;
        let headers = request.headers().clone();
        let text = read_form(request).await?;
        let params = parse_form(&text)?;
        let answer = match params.get("grant_type") {
            Some("authorization_code") => self.redemption.redeem(&headers, &params, &events).await,
            Some("refresh_token") => {
                self.refresh.refresh(&headers, &params, address, &events).await
            }
            Some(_) => {
                let words = "grant_type is not supported: use authorization_code or refresh_token";
                Err(OAuthError::new(ErrorCode::UnsupportedGrantType, words))
            }
            None => Err(OAuthError::invalid_request(
                "grant_type is missing: use authorization_code or refresh_token",
            )),
        };
        answer.inspect_err(|error| report_rejection(&events, &headers, &params, error))
    }
}
