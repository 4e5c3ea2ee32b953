//! Revocation endpoint (RFC 7009).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};
use vmcp_auth_store::{ClientId, Digest, GrantId, StoreError};

use crate::client::Credentials;
use crate::error::Fault;
use crate::event::{Event, Happened, Revoker};
use crate::intake::{form, peer};
use crate::params::Params;
use crate::server::{Asked, Inner};
use crate::token::read;
use crate::{OwnFault, OwnToken};

/// Handles `POST` of the revocation endpoint. The response for an unknown token is the same as for a revoked one.
pub(crate) async fn revoke(State(server): State<Arc<Inner>>, request: Request) -> Response {
    match server.revoke(request).await {
        Ok(()) => {
            let mut response = Response::new(Body::empty());
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(fault) => fault.respond(),
    }
}

/// Valid token of a client.
pub(crate) enum Known {
    Refresh(GrantId, Digest),
    Access(OwnToken),
}

impl Inner {
    async fn revoke(&self, request: Request) -> Result<(), Fault> {
        self.admit(Asked::Token, peer(&request))?;
        let headers = request.headers().clone();
        let text = form(request).await?;
        let params = read(&text)?;
        let ended = self.end_token(&headers, &params).await;
        ended.inspect_err(|fault| self.refused(&headers, &params, fault))
    }

    async fn end_token(&self, headers: &HeaderMap, params: &Params<'_>) -> Result<(), Fault> {
        let what = Happened::TokenRevoked { by: Revoker::Client };
        let credentials = Credentials::read(headers, params)?;
        let token = params.get("token").ok_or(Fault::request("token is missing"))?;
        match self.known(token, &credentials.id)? {
            Some(Known::Refresh(id, _)) => {
                let known = self.store.grant(&id, &credentials.id).await?;
                credentials.check(known.client.as_ref())?;
                let own = known.grant.filter(|grant| grant.client == credentials.id);
                if let Some(grant) = own
                    && let Some(ended) = self.store.revoke(&id).await?
                {
                    self.forget(ended.session);
                    self.tell(Event::of_grant(&grant, what));
                }
            }
            Some(Known::Access(token)) => {
                credentials.check(self.store.client(&credentials.id).await?.as_ref())?;
                self.end_session(token.session).await?;
                let (client, session) = (Some(credentials.id.as_str()), token.session);
                let user = Some(&*token.subject);
                self.tell(Event { user, ..Event::of(client, what) }.within(session));
            }
            None => credentials.check(self.store.client(&credentials.id).await?.as_ref())?,
        }
        Ok(())
    }

    /// Returns the token if this server issued it; an access token only if it belongs to the client.
    ///
    /// # Errors
    /// The store's revocations are not read yet.
    pub(crate) fn known(&self, token: &str, client: &ClientId) -> Result<Option<Known>, Fault> {
        if let Some(refresh) = self.settings.hmac.open_refresh(token) {
            let grant = GrantId::from_bytes(refresh.grant);
            return Ok(Some(Known::Refresh(grant, refresh.digest())));
        }
        match self.verify_any(token) {
            Err(OwnFault::Unread) => Err(Fault::from(StoreError::Unavailable)),
            Err(_) => Ok(None),
            Ok(found) => {
                let own = found.claims.text("client_id") == Some(client.as_str());
                Ok(own.then_some(Known::Access(found)))
            }
        }
    }
}
