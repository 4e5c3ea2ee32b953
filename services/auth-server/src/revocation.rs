//! Revocation endpoint (RFC 7009).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};
use vmcp_auth_store::{ClientId, Digest, GrantId, StoreError};

use crate::auth_server::{AppState, EndpointClass};
use crate::client::Credentials;
use crate::error::OAuthError;
use crate::event::{Event, EventKind, RevokedBy};
use crate::extract::{form, peer_address};
use crate::params::Params;
use crate::token::parse_form;
use crate::{AccessToken, AccessTokenError};

/// Handles `POST` of the revocation endpoint. The response for an unknown token is the same as for a revoked one.
pub(crate) async fn revoke(State(server): State<Arc<AppState>>, request: Request) -> Response {
    match server.revoke(request).await {
        Ok(()) => {
            let mut response = Response::new(Body::empty());
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => error.to_response(),
    }
}

/// Valid token of a client.
pub(crate) enum ClientToken {
    Refresh(GrantId, Digest),
    Access(AccessToken),
}

impl AppState {
    async fn revoke(&self, request: Request) -> Result<(), OAuthError> {
        self.admit(EndpointClass::Token, peer_address(&request))?;
        let headers = request.headers().clone();
        let text = form(request).await?;
        let params = parse_form(&text)?;
        let ended = self.revoke_token(&headers, &params).await;
        ended.inspect_err(|error| self.record_rejection(&headers, &params, error))
    }

    async fn revoke_token(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
    ) -> Result<(), OAuthError> {
        let kind = EventKind::TokenRevoked { by: RevokedBy::Client };
        let credentials = Credentials::read(headers, params)?;
        let token = params.get("token").ok_or(OAuthError::invalid_request(
            "token is missing: send the token in the \
         form",
        ))?;
        match self.identify_token(token, &credentials.id)? {
            Some(ClientToken::Refresh(id, _)) => {
                let identify_token = self.store.grant(&id, &credentials.id).await?;
                credentials.check(identify_token.client.as_ref())?;
                let own = identify_token.grant.filter(|grant| grant.client == credentials.id);
                if let Some(grant) = own
                    && let Some(ended) = self.store.revoke(&id).await?
                {
                    self.forget(ended.session);
                    self.report(Event::of_grant(&grant, kind));
                }
            }
            Some(ClientToken::Access(token)) => {
                credentials.check(self.store.client(&credentials.id).await?.as_ref())?;
                self.end_session(token.session).await?;
                let (client, session) = (Some(credentials.id.as_str()), token.session);
                let user = Some(&*token.subject);
                self.report(Event { user, ..Event::of(client, kind) }.with_session(session));
            }
            None => credentials.check(self.store.client(&credentials.id).await?.as_ref())?,
        }
        Ok(())
    }

    /// Returns the token if this server issued it; an access token only if it belongs to the client.
    ///
    /// # Errors
    /// The store's revocations are not read yet.
    pub(crate) fn identify_token(
        &self,
        token: &str,
        client: &ClientId,
    ) -> Result<Option<ClientToken>, OAuthError> {
        if let Some(refresh) = self.settings.hmac.verify_refresh_token(token) {
            let grant = GrantId::from_bytes(refresh.grant);
            return Ok(Some(ClientToken::Refresh(grant, refresh.digest())));
        }
        match self.verify_any(token) {
            Err(AccessTokenError::RevocationsNotLoaded) => {
                Err(OAuthError::from(StoreError::Unavailable))
            }
            Err(_) => Ok(None),
            Ok(found) => {
                let own = found.claims.text("client_id") == Some(client.as_str());
                Ok(own.then_some(ClientToken::Access(found)))
            }
        }
    }
}
