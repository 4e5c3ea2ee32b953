//! Introspection endpoint (RFC 7662) for clients with a secret, limited to their own tokens. The server itself verifies
//! tokens in process.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json as value};
use vmcp_auth_store::ClientAuth;

use crate::client::Credentials;
use crate::error::{Code, Fault, json};
use crate::intake::{form, peer};
use crate::params::Params;
use crate::revoke::Known;
use crate::server::{Asked, Inner};
use crate::token::read;

/// Handles `POST` of the introspection endpoint.
pub(crate) async fn introspect(State(server): State<Arc<Inner>>, request: Request) -> Response {
    match server.introspect(request).await {
        Ok(Some(answer)) => json(StatusCode::OK, &answer),
        // The response is the same for every reason (RFC 7662 section 2.2).
        Ok(None) => json(StatusCode::OK, &value!({"active": false})),
        Err(fault) => fault.respond(),
    }
}

impl Inner {
    async fn introspect(&self, request: Request) -> Result<Option<Map<String, Value>>, Fault> {
        self.admit(Asked::Token, peer(&request))?;
        let headers = request.headers().clone();
        let text = form(request).await?;
        let params = read(&text)?;
        let looked = self.look_up(&headers, &params).await;
        looked.inspect_err(|fault| self.refused(&headers, &params, fault))
    }

    async fn look_up(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
    ) -> Result<Option<Map<String, Value>>, Fault> {
        let credentials = Credentials::read(headers, params)?;
        let token = params.get("token").ok_or(Fault::request("token is missing"))?;
        let client = self.store.client(&credentials.id).await?;
        credentials.check(client.as_ref())?;
        if client.is_none_or(|client| client.auth == ClientAuth::None) {
            let words = "introspection is for clients with a secret";
            return Err(Fault::new(Code::UnauthorizedClient, words));
        }
        match self.known(token, &credentials.id)? {
            Some(Known::Access(found)) => {
                let mut answer = found.claims.object().clone();
                answer.insert("active".into(), true.into());
                answer.insert("token_type".into(), "Bearer".into());
                answer.insert("token_use".into(), "access_token".into());
                Ok(Some(answer))
            }
            Some(Known::Refresh(id, digest)) => {
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
