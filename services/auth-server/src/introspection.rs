//! Introspection endpoint (RFC 7662) for clients with a secret, limited to their own tokens. The server itself verifies
//! tokens in process.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json as value};
use vmcp_auth_store::ClientAuth;

use crate::auth_server::{AppState, EndpointClass};
use crate::client::Credentials;
use crate::error::{ErrorCode, OAuthError, json};
use crate::extract::{form, peer_address};
use crate::params::Params;
use crate::revocation::ClientToken;
use crate::token::parse_form;

/// Handles `POST` of the introspection endpoint.
pub(crate) async fn introspect(State(server): State<Arc<AppState>>, request: Request) -> Response {
    match server.introspect(request).await {
        Ok(Some(answer)) => json(StatusCode::OK, &answer),
        // The response is the same for every reason (RFC 7662 section 2.2).
        Ok(None) => json(StatusCode::OK, &value!({"active": false})),
        Err(error) => error.to_response(),
    }
}

impl AppState {
    async fn introspect(&self, request: Request) -> Result<Option<Map<String, Value>>, OAuthError> {
        self.admit(EndpointClass::Token, peer_address(&request))?;
        let headers = request.headers().clone();
        let text = form(request).await?;
        let params = parse_form(&text)?;
        let found = self.lookup_token(&headers, &params).await;
        found.inspect_err(|error| self.record_rejection(&headers, &params, error))
    }

    async fn lookup_token(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
    ) -> Result<Option<Map<String, Value>>, OAuthError> {
        let credentials = Credentials::read(headers, params)?;
        let token = params.get("token").ok_or(OAuthError::invalid_request(
            "token is missing: send the token in the \
         form",
        ))?;
        let client = self.store.client(&credentials.id).await?;
        credentials.check(client.as_ref())?;
        if client.is_none_or(|client| client.auth == ClientAuth::None) {
            let words = "introspection requires a client with a secret";
            return Err(OAuthError::new(ErrorCode::UnauthorizedClient, words));
        }
        match self.identify_token(token, &credentials.id)? {
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
                    "active": true, "iss": self.issuer(), "sub": grant.user.as_str(),
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
