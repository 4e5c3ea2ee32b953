//! Refresh of grants (RFC 6749 section 6).

use std::net::IpAddr;
use std::sync::Arc;

use axum::response::Response;
use http::HeaderMap;
use vmcp_auth_store::{Grant, GrantId, PresentedRefreshToken, RotationOutcome, Store};

use super::issuer::{TokenIssuer, invalid_target};
use crate::audience::Audiences;
use crate::client_credentials::Credentials;
use crate::client_id_metadata::ClientMetadataError;
use crate::clients::Clients;
use crate::error::{ErrorCode, OAuthError};
use crate::event::{Event, EventKind, ReplayedToken, RevokedBy};
use crate::event_reporter::RequestEvents;
use crate::params::Params;
use crate::scope::Scopes;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::upstream_tokens::UpstreamTokenService;

/// Refresher of grants.
pub(crate) struct GrantRefresh {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clients: Clients,
    pub(crate) sessions: Sessions,
    pub(crate) upstream_tokens: Arc<UpstreamTokenService>,
    pub(crate) issuer: TokenIssuer,
}

impl GrantRefresh {
    /// Refreshes a grant (RFC 6749 section 6). Every refresh token is valid once; its successor is derived from it, so a
    /// lost response can be repeated for a short time (RFC 9700 section 4.14.2).
    pub(super) async fn refresh(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
        address: IpAddr,
        events: &RequestEvents,
    ) -> Result<Response, OAuthError> {
        let credentials = Credentials::from_request(headers, params)?;
        let text = params.get("refresh_token").ok_or(OAuthError::invalid_request(
            "refresh_token is missing: send the refresh token",
        ))?;
        let unknown = OAuthError::invalid_grant(
            "the refresh token is unknown, expired, revoked or already used; log in again",
        );
        let hmac = &self.settings.hmac;
        let token = hmac.verify_refresh_token(text).ok_or(unknown.clone())?;
        let next = hmac.successor(&token).ok_or(unknown.clone())?;
        let id = GrantId::from_bytes(token.grant);
        let known = self.store.grant(&id, &credentials.id).await?;
        credentials.check(known.client.as_ref())?;
        let grant =
            known.grant.filter(|grant| grant.client == credentials.id).ok_or(unknown.clone())?;
        let scopes = narrow_scopes(&grant, params)?;
        self.check_audience(&grant, params)?;
        self.check_document(&grant, address, events).await?;
        self.upstream_tokens.check_user(&grant).await?;
        let presented =
            PresentedRefreshToken { digest: token.digest(), generation: token.generation };
        let rotation = self.store.rotate(&id, &presented, &next.digest()).await?;
        let repeated = matches!(rotation, RotationOutcome::Repeated(_));
        match rotation {
            RotationOutcome::Rotated(grant) | RotationOutcome::Repeated(grant) => {
                let Grant { scopes: granted, audience, .. } = &*grant;
                let kind = EventKind::TokenRefreshed { scopes: granted, audience, repeated };
                events.report(Event::of_grant(&grant, kind));
                self.issuer.respond(&grant, &scopes, Some(&hmac.encode_refresh_token(&next)), None)
            }
            RotationOutcome::Replayed(revocation) => {
                tracing::warn!(client = %credentials.id, "refresh token replayed, revoking grant");
                self.sessions.forget(revocation.session);
                let kind = EventKind::TokenReplayed { token: ReplayedToken::RefreshToken };
                events.report(Event::of_grant(&grant, kind));
                Err(unknown)
            }
            RotationOutcome::NotFound => Err(unknown),
        }
    }

    /// Checks that the request does not change the audience.
    fn check_audience(&self, grant: &Grant, params: &Params<'_>) -> Result<(), OAuthError> {
        let Some(asked) = params.get("resource") else { return Ok(()) };
        let asked =
            Audiences::find(&self.settings.audiences, Some(asked)).ok_or(invalid_target())?;
        if grant.audience.iter().any(|own| own == asked.as_str()) {
            Ok(())
        } else {
            Err(invalid_target())
        }
    }

    /// Checks that the client of a grant may refresh. A client identified by a metadata document may do so while the
    /// document exists and allows it. A failed fetch or a cached document revokes nothing.
    ///
    /// # Errors
    /// The document is gone, which ends the session, or it is no longer usable.
    async fn check_document(
        &self,
        grant: &Grant,
        address: IpAddr,
        events: &RequestEvents,
    ) -> Result<(), OAuthError> {
        let id = &grant.client;
        let Some(metadata) = self.clients.metadata_of(id.as_str()) else {
            return Ok(());
        };
        match metadata.resolve(id, address).await {
            Ok(client) if client.refresh => Ok(()),
            Ok(_) => {
                let words =
                    "the client metadata document does not list refresh_token in grant_types";
                Err(OAuthError::new(ErrorCode::UnauthorizedClient, words))
            }
            Err(ClientMetadataError::Gone) => {
                tracing::warn!(client = %id, "client metadata document is gone, revoking grant");
                self.sessions.end(grant.session).await?;
                events.report(Event::of_grant(
                    grant,
                    EventKind::TokenRevoked { by: RevokedBy::Client },
                ));
                Err(OAuthError::invalid_grant("the client metadata document is gone; log in again"))
            }
            Err(
                ClientMetadataError::Unreachable
                | ClientMetadataError::Timeout
                | ClientMetadataError::Busy,
            ) => Ok(()),
            Err(
                ClientMetadataError::TooLarge
                | ClientMetadataError::NotJson
                | ClientMetadataError::OtherClient
                | ClientMetadataError::Content(_),
            ) => {
                let words = "the client metadata document is invalid; correct it and retry";
                Err(OAuthError::new(ErrorCode::InvalidClient, words))
            }
        }
    }
}

/// Returns the requested scopes, which must be among the granted ones.
fn narrow_scopes(grant: &Grant, params: &Params<'_>) -> Result<Scopes, OAuthError> {
    let granted = Scopes::from_stored(&grant.scopes);
    let Some(text) = params.get("scope") else { return Ok(granted) };
    let error = |words| OAuthError::new(ErrorCode::InvalidScope, words);
    let asked = Scopes::parse(text).map_err(|_| {
        error("scope is malformed: use space-separated scopes of at most 256 characters")
    })?;
    if asked.is_subset(&granted) {
        Ok(asked)
    } else {
        Err(error("scope is invalid: request only granted scopes"))
    }
}
