//! Token endpoint (RFC 6749 section 3.2).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use vmcp_auth_store::{
    AuthorizationCodeData, Client, CodeChallenge, Grant, GrantId, GrantInsertOutcome,
    PresentedRefreshToken, RedeemOutcome, RefreshTokens, RotationOutcome, Timestamp,
};

use crate::auth_server::{AppState, EndpointClass};
use crate::client::Credentials;
use crate::error::{ErrorCode, OAuthError, json};
use crate::event::{Event, EventKind, ReplayedToken};
use crate::extract::{form, peer_address};
use crate::params::Params;
use crate::random_tokens::random;
use crate::token_claims::TokenClaims;
use crate::{Audience, Audiences, HmacKeyRing, Scopes};

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

/// Handles `POST` of the token endpoint.
pub(crate) async fn token(State(server): State<Arc<AppState>>, request: Request) -> Response {
    server.token(request).await.unwrap_or_else(|error| {
        tracing::info!(
            error = error.code.name(),
            reason = error.description,
            "token request rejected"
        );
        error.to_response()
    })
}

impl AppState {
    async fn token(self: &Arc<Self>, request: Request) -> Result<Response, OAuthError> {
        let address = peer_address(&request);
        self.admit(EndpointClass::Token, address)?;
        let headers = request.headers().clone();
        let text = form(request).await?;
        let params = parse_form(&text)?;
        let answer = match params.get("grant_type") {
            Some("authorization_code") => self.redeem(&headers, &params).await,
            Some("refresh_token") => self.refresh(&headers, &params, address).await,
            Some(_) => {
                let words = "grant_type is not supported: use authorization_code or refresh_token";
                Err(OAuthError::new(ErrorCode::UnsupportedGrantType, words))
            }
            None => Err(OAuthError::invalid_request(
                "grant_type is missing: use authorization_code or refresh_token",
            )),
        };
        answer.inspect_err(|error| self.record_rejection(&headers, &params, error))
    }

    /// Records the rejection of a client's request.
    pub(crate) fn record_rejection(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
        error: &OAuthError,
    ) {
        let client = Credentials::read(headers, params).ok();
        let client = client.as_ref().map(|credentials| credentials.id.as_str());
        self.report(Event::of(client, EventKind::TokenRejected { rejection: error.into() }));
    }

    /// Redeems a code (RFC 6749 section 4.1.3, RFC 7636 section 4.5).
    async fn redeem(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
    ) -> Result<Response, OAuthError> {
        let credentials = Credentials::read(headers, params)?;
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
                self.forget(revocation.session);
                let kind = EventKind::TokenReplayed { token: ReplayedToken::Code };
                let client = Some(credentials.id.as_str());
                self.report(Event::of(client, kind).with_session(revocation.session));
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
            self.token_response(&grant, &scopes, refresh.as_ref(), data.nonce.as_deref())?;
        match self.store.start_grant(&key, &grant).await? {
            GrantInsertOutcome::Inserted => {
                let Grant { scopes, audience, .. } = &grant;
                let kind = EventKind::TokenIssued { scopes, audience };
                self.report(Event::of_grant(&grant, kind));
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
        let (now, lifespans) = (self.now(), &self.settings.lifespans);
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

    /// Refreshes a grant (RFC 6749 section 6). Every refresh token is valid once; its successor is derived from it, so a
    /// lost response can be repeated for a short time (RFC 9700 section 4.14.2).
    async fn refresh(
        self: &Arc<Self>,
        headers: &HeaderMap,
        params: &Params<'_>,
        address: IpAddr,
    ) -> Result<Response, OAuthError> {
        let credentials = Credentials::read(headers, params)?;
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
        self.check_document(&grant, address).await?;
        self.check_user(&grant).await?;
        let presented =
            PresentedRefreshToken { digest: token.digest(), generation: token.generation };
        let rotation = self.store.rotate(&id, &presented, &next.digest()).await?;
        let repeated = matches!(rotation, RotationOutcome::Repeated(_));
        match rotation {
            RotationOutcome::Rotated(grant) | RotationOutcome::Repeated(grant) => {
                let Grant { scopes: granted, audience, .. } = &*grant;
                let kind = EventKind::TokenRefreshed { scopes: granted, audience, repeated };
                self.report(Event::of_grant(&grant, kind));
                self.token_response(&grant, &scopes, Some(&hmac.encode_refresh_token(&next)), None)
            }
            RotationOutcome::Replayed(revocation) => {
                tracing::warn!(client = %credentials.id, "refresh token replayed, revoking grant");
                self.forget(revocation.session);
                let kind = EventKind::TokenReplayed { token: ReplayedToken::RefreshToken };
                self.report(Event::of_grant(&grant, kind));
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

    fn token_response(
        &self,
        grant: &Grant,
        scopes: &Scopes,
        refresh: Option<&SecretString>,
        nonce: Option<&str>,
    ) -> Result<Response, OAuthError> {
        let now = self.now();
        let ends = Timestamp::min(now + self.settings.lifespans.access(), grant.ends);
        let claims = TokenClaims { issuer: self.issuer(), grant, scopes, now, ends, id: random()? };
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

/// Parses the parameters of a form, and rejects repeated ones.
pub(crate) fn parse_form(text: &[u8]) -> Result<Params<'_>, OAuthError> {
    let params = Params::parse(text)
        .map_err(|_| OAuthError::invalid_request("too many parameters: send at most 64"))?;
    if params.is_repeated("resource") {
        return Err(OAuthError::new(
            ErrorCode::InvalidTarget,
            "resource is repeated: send it once",
        ));
    }
    if params.has_repeated() {
        return Err(OAuthError::invalid_request(
            "a parameter is repeated: send each parameter once",
        ));
    }
    Ok(params)
}

/// Returns the requested scopes, which must be among the granted ones.
fn narrow_scopes(grant: &Grant, params: &Params<'_>) -> Result<Scopes, OAuthError> {
    let granted = Scopes::from_stored(&grant.scopes);
    let Some(text) = params.get("scope") else { return Ok(granted) };
    let error = |words| OAuthError::new(ErrorCode::InvalidScope, words);
    let asked = Scopes::parse(text).map_err(|_| {
        error(
            "scope is malformed: use space-separated scopes of at most 256 \
     characters",
        )
    })?;
    if asked.is_subset(&granted) {
        Ok(asked)
    } else {
        Err(error("scope is invalid: request only granted scopes"))
    }
}

/// Checks the syntax of a PKCE verifier (RFC 7636 section 4.1).
fn is_code_verifier(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (43..=128).contains(&text.len()) && text.bytes().all(legal)
}

fn invalid_target() -> OAuthError {
    OAuthError::new(ErrorCode::InvalidTarget, "resource is invalid: use the resource of the grant")
}
