//! Introspection endpoint (RFC 7662) for clients with a secret, limited to their own tokens. The server itself verifies
//! tokens in process.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json as value};
use vmcp_auth_store::{ClientAuth, Store};

use crate::client_credentials::Credentials;
use crate::error::{ErrorCode, OAuthError};
use crate::event_reporter::EventReporter;
use crate::extract::{peer_address, read_form};
use crate::params::Params;
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::response::json;
use crate::settings::Settings;
use crate::token_identifier::{ClientToken, TokenIdentifier};
use crate::token_request::{parse_form, report_rejection};

/// State of the introspection endpoint.
pub(crate) struct IntrospectionEndpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) events: EventReporter,
    pub(crate) identifier: TokenIdentifier,
}

/// Handles `POST` of the introspection endpoint.
pub(crate) async fn introspect(
    State(endpoint): State<Arc<IntrospectionEndpoint>>,
    request: Request,
) -> Response {
    match endpoint.respond(request).await {
        Ok(Some(claims)) => json(StatusCode::OK, &claims),
        // The response is the same for every reason (RFC 7662 section 2.2).
        Ok(None) => json(StatusCode::OK, &value!({"active": false})),
        Err(error) => error.to_response(),
    }
}

impl IntrospectionEndpoint {
    async fn respond(&self, request: Request) -> Result<Option<Map<String, Value>>, OAuthError> {
        let events = self.events.for_request(&request);
        self.limiters.admit(EndpointClass::Token, peer_address(&request))?;
        let headers = request.headers().clone();
        let text = read_form(request).await?;
        let params = parse_form(&text)?;
        let found = self.lookup_token(&headers, &params).await;
        found.inspect_err(|error| report_rejection(&events, &headers, &params, error))
    }

    async fn lookup_token(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
    ) -> Result<Option<Map<String, Value>>, OAuthError> {
        let credentials = Credentials::from_request(headers, params)?;
        let token = params
            .get("token")
            .ok_or(OAuthError::invalid_request("token is missing: send the token in the form"))?;
        let client = self.store.client(&credentials.id).await?;
        credentials.check(client.as_ref())?;
        if client.is_none_or(|client| client.auth == ClientAuth::None) {
            let words = "introspection requires a client with a secret";
            return Err(OAuthError::new(ErrorCode::UnauthorizedClient, words));
        }
        match self.identifier.identify(token, &credentials.id)? {
            Some(ClientToken::Access(found)) => {
                let mut answer = found.claims.object().clone();
                answer.insert("active".into(), true.into());
                answer.insert("token_type".into(), "Bearer".into());
                answer.insert("token_use".into(), "access_token".into());
                Ok(Some(answer))
            }
            Some(ClientToken::Refresh(id, digest)) => {
                let grant = self.store.grant(&id, &credentials.id).await?.grant;
                let grant = grant.filter(|grant| grant.client == credentials.id);
                let Some((grant, refresh)) =
                    grant.and_then(|grant| Some((grant.clone(), grant.refresh?)))
                else {
                    return Ok(None);
                };
                if refresh.current != digest {
                    return Ok(None);
                }
                let answer = value!({
                    "active": true, "iss": self.settings.issuer.as_str(), "sub": grant.user.as_str(),
                    "aud": grant.audience, "client_id": grant.client.as_str(),
                    "scope": grant.scopes.join(" "), "exp": refresh.idle_end.unix(),
                    // Prevents a resource server from accepting the refresh token as an access token.
                    "token_use": "refresh_token",
                });
                Ok(answer.as_object().cloned())
            }
            None => Ok(None),
        }
    }
}
