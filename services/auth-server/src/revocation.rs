//! Revocation endpoint (RFC 7009).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};
use vmcp_auth_store::Store;

use crate::client_credentials::Credentials;
use crate::error::OAuthError;
use crate::event::{Event, EventKind, RevokedBy};
use crate::event_reporter::{EventReporter, RequestEvents};
use crate::extract::{peer_address, read_form};
use crate::params::Params;
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::sessions::Sessions;
use crate::token_identifier::{ClientToken, TokenIdentifier};
use crate::token_request::{parse_form, report_rejection};

/// State of the revocation endpoint.
pub(crate) struct RevocationEndpoint {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) events: EventReporter,
    pub(crate) sessions: Sessions,
    pub(crate) identifier: TokenIdentifier,
}

/// Handles `POST` of the revocation endpoint. The response for an unknown token is the same as for a revoked one.
pub(crate) async fn revoke(
    State(endpoint): State<Arc<RevocationEndpoint>>,
    request: Request,
) -> Response {
    match endpoint.respond(request).await {
        Ok(()) => {
            let mut response = Response::new(Body::empty());
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => error.to_response(),
    }
}

impl RevocationEndpoint {
    async fn respond(&self, request: Request) -> Result<(), OAuthError> {
        let events = self.events.for_request(&request);
        self.limiters.admit(EndpointClass::Token, peer_address(&request))?;
        let headers = request.headers().clone();
        let text = read_form(request).await?;
        let params = parse_form(&text)?;
        let ended = self.revoke_token(&headers, &params, &events).await;
        ended.inspect_err(|error| report_rejection(&events, &headers, &params, error))
    }

    async fn revoke_token(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
        events: &RequestEvents,
    ) -> Result<(), OAuthError> {
        let kind = EventKind::TokenRevoked { by: RevokedBy::Client };
        let credentials = Credentials::from_request(headers, params)?;
        let token = params
            .get("token")
            .ok_or(OAuthError::invalid_request("token is missing: send the token in the form"))?;
        match self.identifier.identify(token, &credentials.id)? {
            Some(ClientToken::Refresh(id, _)) => {
                let identify_token = self.store.grant(&id, &credentials.id).await?;
                credentials.check(identify_token.client.as_ref())?;
                let own = identify_token.grant.filter(|grant| grant.client == credentials.id);
                if let Some(grant) = own
                    && let Some(ended) = self.store.revoke(&id).await?
                {
                    self.sessions.forget(ended.session);
                    events.report(Event::of_grant(&grant, kind));
                }
            }
            Some(ClientToken::Access(token)) => {
                credentials.check(self.store.client(&credentials.id).await?.as_ref())?;
                self.sessions.end(token.session).await?;
                let (client, session) = (Some(credentials.id.as_str()), token.session);
                let user = Some(&*token.subject);
                events.report(Event { user, ..Event::new(client, kind) }.with_session(session));
            }
            None => credentials.check(self.store.client(&credentials.id).await?.as_ref())?,
        }
        Ok(())
    }
}
