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

use crate::client::Credentials;
use crate::error::{Code, Fault, json};
use crate::event::{Event, Happened, Reused};
use crate::intake::{form, peer};
use crate::opaque::random;
use crate::params::Params;
use crate::server::{Asked, Inner};
use crate::tokens::Issue;
use crate::{Audience, Audiences, HmacRing, Scopes};

/// Response of the token endpoint (RFC 6749 section 5.1).
#[derive(Serialize)]
struct Tokens<'a> {
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
pub(crate) async fn token(State(server): State<Arc<Inner>>, request: Request) -> Response {
    server.token(request).await.unwrap_or_else(|fault| {
        tracing::info!(error = fault.code.name(), reason = fault.description, "no token is given");
        fault.respond()
    })
}

impl Inner {
    async fn token(self: &Arc<Self>, request: Request) -> Result<Response, Fault> {
        let address = peer(&request);
        self.admit(Asked::Token, address)?;
        let headers = request.headers().clone();
        let text = form(request).await?;
        let params = read(&text)?;
        let answer = match params.get("grant_type") {
            Some("authorization_code") => self.redeem(&headers, &params).await,
            Some("refresh_token") => self.refresh(&headers, &params, address).await,
            Some(_) => {
                let words = "grant_type must be authorization_code or refresh_token";
                Err(Fault::new(Code::UnsupportedGrantType, words))
            }
            None => Err(Fault::request("grant_type is missing")),
        };
        answer.inspect_err(|fault| self.refused(&headers, &params, fault))
    }

    /// Records the rejection of a client's request.
    pub(crate) fn refused(&self, headers: &HeaderMap, params: &Params<'_>, fault: &Fault) {
        let client = Credentials::read(headers, params).ok();
        let client = client.as_ref().map(|credentials| credentials.id.as_str());
        self.tell(Event::of(client, Happened::TokenRefused { refusal: fault.into() }));
    }

    /// Redeems a code (RFC 6749 section 4.1.3, RFC 7636 section 4.5).
    async fn redeem(&self, headers: &HeaderMap, params: &Params<'_>) -> Result<Response, Fault> {
        let credentials = Credentials::read(headers, params)?;
        let code = params.get("code").ok_or(Fault::request("code is missing"))?;
        let verifier =
            params.get("code_verifier").ok_or(Fault::request("code_verifier is missing"))?;
        if !is_verifier(verifier) {
            return Err(Fault::request(
                "code_verifier has 43 to 128 letters, digits, hyphens, dots, underscores and tildes",
            ));
        }
        let unknown = Fault::grant("the code is unknown, expired or was used before");
        let key = self.settings.hmac.open_code(code).ok_or(unknown.clone())?;
        let challenge = CodeChallenge::of_verifier(verifier);
        let answer = self.store.redeem_code(&key, &credentials.id, &challenge).await?;
        let seed = match answer.outcome {
            RedeemOutcome::Redeemed(seed) => seed,
            RedeemOutcome::Replayed(revocation) => {
                tracing::warn!(client = %credentials.id, "a code was presented again: what it gave is revoked");
                self.forget(revocation.session);
                let what = Happened::TokenReused { token: Reused::Code };
                let client = Some(credentials.id.as_str());
                self.tell(Event::of(client, what).within(revocation.session));
                return Err(unknown);
            }
            RedeemOutcome::InProgress | RedeemOutcome::Unknown => return Err(unknown),
        };
        let checked =
            self.entitled(&seed, &credentials, answer.client.as_ref(), &challenge, params);
        let issued = checked.and_then(|audience| self.grant(&seed, &audience));
        let (grant, refresh) = match issued {
            Ok(issued) => issued,
            Err(fault) => {
                self.store.invalidate_code(&key).await?;
                return Err(fault);
            }
        };
        // Tokens are signed before the grant is stored: a grant without a response would be useless.
        let scopes = Scopes::stored(&grant.scopes);
        let response = self.answer(&grant, &scopes, refresh.as_ref(), seed.nonce.as_deref())?;
        match self.store.start_grant(&key, &grant).await? {
            GrantInsertOutcome::Inserted => {
                let Grant { scopes, audience, .. } = &grant;
                let what = Happened::TokenIssued { scopes, audience };
                self.tell(Event::of_grant(&grant, what));
                Ok(response)
            }
            GrantInsertOutcome::Rejected => Err(unknown),
        }
    }

    /// Checks that the code's own client redeems it, and returns the audience of the tokens.
    fn entitled(
        &self,
        seed: &AuthorizationCodeData,
        credentials: &Credentials,
        client: Option<&Client>,
        challenge: &CodeChallenge,
        params: &Params<'_>,
    ) -> Result<Audience, Fault> {
        credentials.check(client)?;
        if seed.client != credentials.id {
            return Err(Fault::grant("the code was given to another client"));
        }
        // OAuth 2.1 omits `redirect_uri` here; OAuth 2.0 requires the same value.
        if params.get("redirect_uri").is_some_and(|uri| uri != seed.redirect_uri) {
            return Err(Fault::grant("redirect_uri is not the one that the code was sent to"));
        }
        if seed.challenge != *challenge {
            return Err(Fault::grant("code_verifier does not answer the code_challenge"));
        }
        let audiences = &self.settings.audiences;
        let given = audiences.find(seed.resource.as_deref()).ok_or(target())?;
        match params.get("resource") {
            Some(asked) if audiences.find(Some(asked)) != Some(given) => Err(target()),
            _ => Ok(given.clone()),
        }
    }

    /// Creates the grant of a code.
    fn grant(
        &self,
        seed: &AuthorizationCodeData,
        audience: &Audience,
    ) -> Result<(Grant, Option<SecretString>), Fault> {
        let id = GrantId::from_bytes(random()?);
        let (now, lifespans) = (self.now(), &self.settings.lifespans);
        let ends = now + if seed.refresh { lifespans.grant() } else { lifespans.access() };
        let first = seed.refresh.then(|| HmacRing::first_refresh(*id.as_bytes())).transpose()?;
        let refresh = first.map(|token| RefreshTokens {
            idle: lifespans.refresh(),
            idle_end: now + lifespans.refresh(),
            generation: token.generation,
            current: token.digest(),
            previous: None,
        });
        let grant = Grant {
            id,
            client: seed.client.clone(),
            user: seed.user.clone(),
            profile: seed.profile.clone(),
            session: seed.session,
            scopes: seed.scopes.clone(),
            audience: vec![audience.as_str().to_owned()],
            authenticated: seed.authenticated,
            access_lifespan: lifespans.access(),
            ends,
            refresh,
        };
        Ok((grant, first.map(|token| self.settings.hmac.write_refresh(&token))))
    }

    /// Refreshes a grant (RFC 6749 section 6). Every refresh token is valid once; its successor is derived from it, so a
    /// lost response can be repeated for a short time (RFC 9700 section 4.14.2).
    async fn refresh(
        self: &Arc<Self>,
        headers: &HeaderMap,
        params: &Params<'_>,
        address: IpAddr,
    ) -> Result<Response, Fault> {
        let credentials = Credentials::read(headers, params)?;
        let text = params.get("refresh_token").ok_or(Fault::request("refresh_token is missing"))?;
        let unknown =
            Fault::grant("the refresh token is unknown, expired, revoked or was used before");
        let hmac = &self.settings.hmac;
        let token = hmac.open_refresh(text).ok_or(unknown.clone())?;
        let next = hmac.successor(&token).ok_or(unknown.clone())?;
        let id = GrantId::from_bytes(token.grant);
        let known = self.store.grant(&id, &credentials.id).await?;
        credentials.check(known.client.as_ref())?;
        let grant =
            known.grant.filter(|grant| grant.client == credentials.id).ok_or(unknown.clone())?;
        let scopes = narrowed(&grant, params)?;
        self.same_audience(&grant, params)?;
        self.check_document(&grant, address).await?;
        self.check_person(&grant).await?;
        let presented =
            PresentedRefreshToken { digest: token.digest(), generation: token.generation };
        let rotation = self.store.rotate(&id, &presented, &next.digest()).await?;
        let repeated = matches!(rotation, RotationOutcome::Repeated(_));
        match rotation {
            RotationOutcome::Rotated(grant) | RotationOutcome::Repeated(grant) => {
                let Grant { scopes: granted, audience, .. } = &*grant;
                let what = Happened::TokenRefreshed { scopes: granted, audience, repeated };
                self.tell(Event::of_grant(&grant, what));
                self.answer(&grant, &scopes, Some(&hmac.write_refresh(&next)), None)
            }
            RotationOutcome::Replayed(revocation) => {
                tracing::warn!(client = %credentials.id, "a refresh token was presented again: its grant is revoked");
                self.forget(revocation.session);
                let what = Happened::TokenReused { token: Reused::RefreshToken };
                self.tell(Event::of_grant(&grant, what));
                Err(unknown)
            }
            RotationOutcome::NotFound => Err(unknown),
        }
    }

    /// Checks that the request does not change the audience.
    fn same_audience(&self, grant: &Grant, params: &Params<'_>) -> Result<(), Fault> {
        let Some(asked) = params.get("resource") else { return Ok(()) };
        let asked = Audiences::find(&self.settings.audiences, Some(asked)).ok_or(target())?;
        if grant.audience.iter().any(|own| own == asked.as_str()) { Ok(()) } else { Err(target()) }
    }

    fn answer(
        &self,
        grant: &Grant,
        scopes: &Scopes,
        refresh: Option<&SecretString>,
        nonce: Option<&str>,
    ) -> Result<Response, Fault> {
        let now = self.now();
        let ends = Timestamp::min(now + self.settings.lifespans.access(), grant.ends);
        let issue = Issue { issuer: self.issuer(), grant, scopes, now, ends, id: random()? };
        let keys = &self.settings.keys;
        let failed = |error| {
            tracing::error!(%error, "no token can be issued");
            Fault::server()
        };
        let access = issue.access(keys).map_err(failed)?;
        let id = issue.id(keys, &access, nonce).map_err(failed)?;
        Ok(json(
            StatusCode::OK,
            &Tokens {
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
pub(crate) fn read(text: &[u8]) -> Result<Params<'_>, Fault> {
    let params =
        Params::parse(text).map_err(|_| Fault::request("there are more than 64 parameters"))?;
    if params.is_twice("resource") {
        return Err(Fault::new(Code::InvalidTarget, "one resource only can be asked for"));
    }
    if params.any_twice() {
        return Err(Fault::request("a parameter is there twice"));
    }
    Ok(params)
}

/// Returns the requested scopes, which must be among the granted ones.
fn narrowed(grant: &Grant, params: &Params<'_>) -> Result<Scopes, Fault> {
    let granted = Scopes::stored(&grant.scopes);
    let Some(text) = params.get("scope") else { return Ok(granted) };
    let fault = |words| Fault::new(Code::InvalidScope, words);
    let asked = Scopes::parse(text).map_err(|_| fault("scope is malformed"))?;
    if asked.is_subset(&granted) { Ok(asked) } else { Err(fault("a scope was not granted")) }
}

/// Checks the syntax of a PKCE verifier (RFC 7636 section 4.1).
fn is_verifier(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (43..=128).contains(&text.len()) && text.bytes().all(legal)
}

fn target() -> Fault {
    Fault::new(Code::InvalidTarget, "resource is none that these tokens can be for")
}
