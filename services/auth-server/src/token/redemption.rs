//! Redemption of authorization codes (RFC 6749 section 4.1.3).

use std::sync::Arc;

use axum::response::Response;
use http::HeaderMap;
use secrecy::SecretString;
use vmcp_auth_store::{
    AuthorizationCodeData, Client, CodeChallenge, Grant, GrantId, GrantInsertOutcome,
    RedeemOutcome, RefreshTokens, Store, Timestamp,
};
use vmcp_core::Clock;

use super::issuer::{TokenIssuer, invalid_target};
use crate::audience::Audience;
use crate::client_credentials::Credentials;
use crate::error::OAuthError;
use crate::event::{Event, EventKind, ReplayedToken};
use crate::event_reporter::RequestEvents;
use crate::params::Params;
use crate::random_tokens::{HmacKeyRing, random};
use crate::scope::Scopes;
use crate::sessions::Sessions;
use crate::settings::Settings;

/// Redeemer of authorization codes.
pub(crate) struct CodeRedemption {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) sessions: Sessions,
    pub(crate) issuer: TokenIssuer,
}

impl CodeRedemption {
    /// Redeems a code (RFC 6749 section 4.1.3, RFC 7636 section 4.5).
    pub(super) async fn redeem(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
        events: &RequestEvents,
    ) -> Result<Response, OAuthError> {
        let credentials = Credentials::from_request(headers, params)?;
        let code = params
            .get("code")
            .ok_or(OAuthError::invalid_request("code is missing: send the authorization code"))?;
        let verifier = params.get("code_verifier").ok_or(OAuthError::invalid_request(
            "code_verifier is missing: send the PKCE verifier",
        ))?;
        if !is_code_verifier(verifier) {
            return Err(OAuthError::invalid_request(
                "code_verifier is malformed: use 43 to 128 letters, digits, hyphens, dots, underscores and tildes",
            ));
        }
        let unknown =
            OAuthError::invalid_grant("the code is unknown, expired or already used; log in again");
        let key = self.settings.hmac.verify_code(code).ok_or(unknown.clone())?;
        let challenge = CodeChallenge::of_verifier(verifier);
        let answer = self.store.redeem_code(&key, &credentials.id, &challenge).await?;
        let data = match answer.outcome {
            RedeemOutcome::Redeemed(data) => data,
            RedeemOutcome::Replayed(revocation) => {
                tracing::warn!(client = %credentials.id, "authorization code replayed, revoking grant");
                self.sessions.forget(revocation.session);
                let kind = EventKind::TokenReplayed { token: ReplayedToken::Code };
                let client = Some(credentials.id.as_str());
                events.report(Event::new(client, kind).with_session(revocation.session));
                return Err(unknown);
            }
            RedeemOutcome::InProgress | RedeemOutcome::Unknown => return Err(unknown),
        };
        let checked = self.validate_redemption(
            &data,
            &credentials,
            answer.client.as_ref(),
            &challenge,
            params,
        );
        let issued = checked.and_then(|audience| self.new_grant(&data, &audience));
        let (grant, refresh) = match issued {
            Ok(issued) => issued,
            Err(error) => {
                self.store.invalidate_code(&key).await?;
                return Err(error);
            }
        };
        // Tokens are signed before the grant is stored: a grant without a response would be useless.
        let scopes = Scopes::from_stored(&grant.scopes);
        let response =
            self.issuer.respond(&grant, &scopes, refresh.as_ref(), data.nonce.as_deref())?;
        match self.store.start_grant(&key, &grant).await? {
            GrantInsertOutcome::Inserted => {
                let Grant { scopes, audience, .. } = &grant;
                let kind = EventKind::TokenIssued { scopes, audience };
                events.report(Event::of_grant(&grant, kind));
                Ok(response)
            }
            GrantInsertOutcome::Rejected => Err(unknown),
        }
    }

    /// Checks that the code's own client redeems it, and returns the audience of the tokens.
    fn validate_redemption(
        &self,
        data: &AuthorizationCodeData,
        credentials: &Credentials,
        client: Option<&Client>,
        challenge: &CodeChallenge,
        params: &Params<'_>,
    ) -> Result<Audience, OAuthError> {
        credentials.check(client)?;
        if data.client != credentials.id {
            return Err(OAuthError::invalid_grant(
                "the code belongs to another client; log in again",
            ));
        }
        // OAuth 2.1 omits `redirect_uri` here; OAuth 2.0 requires the same value.
        if params.get("redirect_uri").is_some_and(|uri| uri != data.redirect_uri) {
            return Err(OAuthError::invalid_grant(
                "redirect_uri differs from that of the authorization request; log in again",
            ));
        }
        if data.challenge != *challenge {
            return Err(OAuthError::invalid_grant(
                "code_verifier does not match code_challenge; log in again",
            ));
        }
        let audiences = &self.settings.audiences;
        let given = audiences.find(data.resource.as_deref()).ok_or(invalid_target())?;
        match params.get("resource") {
            Some(asked) if audiences.find(Some(asked)) != Some(given) => Err(invalid_target()),
            _ => Ok(given.clone()),
        }
    }

    /// Creates the grant of a code.
    fn new_grant(
        &self,
        data: &AuthorizationCodeData,
        audience: &Audience,
    ) -> Result<(Grant, Option<SecretString>), OAuthError> {
        let id = GrantId::from_bytes(random()?);
        let (now, lifespans) = (Timestamp::from(self.clock.now()), &self.settings.lifespans);
        let ends = now + if data.refresh { lifespans.grant() } else { lifespans.access() };
        let first =
            data.refresh.then(|| HmacKeyRing::new_refresh_token(*id.as_bytes())).transpose()?;
        let refresh = first.map(|token| RefreshTokens {
            idle: lifespans.refresh(),
            idle_end: now + lifespans.refresh(),
            generation: token.generation,
            current: token.digest(),
            previous: None,
        });
        let grant = Grant {
            id,
            client: data.client.clone(),
            user: data.user.clone(),
            profile: data.profile.clone(),
            session: data.session,
            scopes: data.scopes.clone(),
            audience: vec![audience.as_str().to_owned()],
            authenticated: data.authenticated,
            access_lifespan: lifespans.access(),
            ends,
            refresh,
        };
        Ok((grant, first.map(|token| self.settings.hmac.encode_refresh_token(&token))))
    }
}

/// Checks the syntax of a PKCE verifier (RFC 7636 section 4.1).
fn is_code_verifier(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (43..=128).contains(&text.len()) && text.bytes().all(legal)
}
