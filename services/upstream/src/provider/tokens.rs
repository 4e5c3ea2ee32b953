//! Redemption of codes, refresh and revocation of tokens.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use vmcp_jwt::VerifyError;

use super::credentials::is_unknown_client;
use super::resolved::{ClientRef, OidcProvider, ResolvedProvider};
use super::{Inner, RevocationOutcome};
use crate::client::is_printable;
use crate::discovery::Metadata;
use crate::mapping::subject;
use crate::token_response::TokenResponse;
use crate::user::User;
use crate::{
    AuthorizationResponse, AuthorizationResponseError, AuthorizationState, EndpointKind,
    IdentityError, Login, ProviderError, RefreshError, Tokens, form, id_token,
};

/// Maximum duration of a login at the provider.
const LOGIN_TIMEOUT: Duration = Duration::from_mins(15);

/// Maximum length of a code in bytes.
const MAX_CODE: usize = 8 * 1024;

/// Errors of a refresh that require a new login: those of RFC 6749 section 5.2, of GitHub, and
/// those of OpenID Connect Core 1.0 section 3.1.2.6 that some providers send here.
const GRANT_ENDED_CODES: [&str; 5] = [
    "invalid_grant",
    "bad_refresh_token",
    "interaction_required",
    "login_required",
    "consent_required",
];

impl Inner {
    pub(super) async fn finish(
        &self,
        leg: &AuthorizationState,
        answer: AuthorizationResponse,
    ) -> Result<Login, ProviderError> {
        let AuthorizationResponse { outcome, iss } = answer;
        if leg.issuer_id != self.issuer_id {
            return Err(AuthorizationResponseError::OtherProvider.into());
        }
        leg.expects(iss.as_deref())?;
        let code = outcome.map_err(ProviderError::Denied)?;
        // If the clock went backwards, the login has not expired.
        if self.clock.now().duration_since(leg.begun).is_ok_and(|age| age >= LOGIN_TIMEOUT) {
            return Err(AuthorizationResponseError::Expired.into());
        }
        let code = code.expose_secret();
        if code.len() > MAX_CODE || !is_printable(code) {
            return Err(AuthorizationResponseError::InvalidCode.into());
        }
        let resolved = self.protocol.resolve().await?;
        let redirect_uri = self.redirect_uri.uri().to_string();
        let pairs = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", leg.verifier.expose_secret()),
        ];
        let granted = self.request_tokens(&resolved, &leg.client_id, &pairs).await?;
        let user = self.identify(&resolved, leg, &granted).await?;
        let TokenResponse { access, refresh, id, expires_at, scopes } = granted;
        let tokens = Tokens {
            access,
            refresh,
            // An ID token of a provider without OpenID Connect is not verified.
            id: id.filter(|_| matches!(resolved, ResolvedProvider::Oidc(..))),
            expires_at,
            scopes: scopes.unwrap_or_else(|| leg.scopes.clone()),
            issuer: self.issuer_id.clone(),
            subject: user.subject.clone(),
            client_id: leg.client_id.clone(),
        };
        let User { subject, name, email, email_verified, authenticated } = user;
        let is_synthetic = self.synthesizes();
        Ok(Login { subject, name, email, email_verified, authenticated, is_synthetic, tokens })
    }

    pub(super) async fn refresh(&self, old: &Tokens) -> Result<Tokens, RefreshError> {
        // Another provider must not get the token, even if it has the same name now.
        let refresh = old.refresh.as_ref().filter(|_| old.issuer == self.issuer_id);
        let Some(refresh) = refresh else { return Err(RefreshError::GrantEnded) };
        let resolved = self.protocol.resolve().await.map_err(RefreshError::Temporary)?;
        let pairs = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        let granted = self.request_tokens(&resolved, &old.client_id, &pairs).await;
        let granted = granted.map_err(|error| refresh_error(resolved.client(), error))?;
        let id = match (&resolved, &granted.id) {
            (ResolvedProvider::Oidc(oidc, metadata), Some(id)) => {
                self.verify_same_user(oidc, metadata, id, &granted.access, old).await?
            }
            _ => None,
        };
        let TokenResponse { access, refresh, id: _, expires_at, scopes } = granted;
        Ok(Tokens {
            access,
            refresh: refresh.or_else(|| old.refresh.clone()),
            id: id.or_else(|| old.id.clone()),
            expires_at,
            scopes: scopes.unwrap_or_else(|| old.scopes.clone()),
            issuer: old.issuer.clone(),
            subject: old.subject.clone(),
            client_id: old.client_id.clone(),
        })
    }

    /// Verifies that the new ID token belongs to the same user (OpenID Connect Core 1.0 section
    /// 12.2). While the keys are unavailable, drops the ID token, but keeps the rotated refresh
    /// token.
    async fn verify_same_user(
        &self,
        oidc: &OidcProvider,
        metadata: &Metadata,
        id: &SecretString,
        access: &SecretString,
        old: &Tokens,
    ) -> Result<Option<SecretString>, RefreshError> {
        let before = old.id.as_ref().and_then(id_token::read);
        let verified = self.verify(oidc, metadata, id, access, &old.client_id).await;
        let (is_same, stored) = match verified {
            Ok(claims) => {
                (is_same_user(oidc, claims.object(), before.as_ref(), old), Some(id.clone()))
            }
            // The token came from the provider over TLS: enough to detect another user (section
            // 3.1.3.7, item 6).
            Err(
                error
                @ ProviderError::Identity(IdentityError::InvalidIdToken(VerifyError::Keys(_))),
            ) => {
                let claims = id_token::read(id).ok_or(RefreshError::Temporary(error))?;
                (is_same_user(oidc, &claims, before.as_ref(), old), None)
            }
            Err(error) => return Err(RefreshError::Temporary(error)),
        };
        if is_same { Ok(stored) } else { Err(RefreshError::SubjectChanged) }
    }

    pub(super) async fn revoke(&self, tokens: &Tokens) -> Result<RevocationOutcome, ProviderError> {
        if tokens.issuer != self.issuer_id {
            return Ok(RevocationOutcome::Unsupported);
        }
        let resolved = self.protocol.resolve().await?;
        let Some((endpoint, http_client)) = resolved.revocation() else {
            return Ok(RevocationOutcome::Unsupported);
        };
        let id = &tokens.client_id;
        let (credentials, _) =
            self.credentials(&resolved, id, EndpointKind::RevocationOutcome).await?;
        // Revoke the refresh token first: that ends the grant, even if the access token cannot be
        // revoked.
        let both =
            [("refresh_token", tokens.refresh.as_ref()), ("access_token", Some(&tokens.access))];
        for (hint, token) in both {
            let Some(token) = token else { continue };
            let pairs = [("token", token.expose_secret()), ("token_type_hint", hint)];
            let request = form::request(endpoint, &credentials, &pairs);
            let response = http_client.send(EndpointKind::RevocationOutcome, request).await?;
            if response.status.is_success() {
                continue;
            }
            match response.rejection(EndpointKind::RevocationOutcome) {
                ProviderError::Rejected { code, .. } if &*code == "unsupported_token_type" => {}
                error => return Err(error),
            }
        }
        Ok(RevocationOutcome::Revoked)
    }
}

/// Classifies an error of a refresh. A lost registration ends its grants.
fn refresh_error(party: ClientRef<'_>, error: ProviderError) -> RefreshError {
    let registered = matches!(party, ClientRef::Registered(_));
    match &error {
        ProviderError::Rejected { endpoint: EndpointKind::Token, code }
            if GRANT_ENDED_CODES.contains(&&**code) =>
        {
            RefreshError::GrantEnded
        }
        ProviderError::Response(AuthorizationResponseError::OtherClient) => {
            RefreshError::GrantEnded
        }
        _ if registered && is_unknown_client(&error) => RefreshError::GrantEnded,
        _ => RefreshError::Temporary(error),
    }
}

/// Returns whether the new claims belong to the same user: that of the previous ID token or,
/// without one, that of the login.
fn is_same_user(
    oidc: &OidcProvider,
    claims: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    tokens: &Tokens,
) -> bool {
    let subject = claims.get("sub").and_then(subject);
    let Some(before) = before else {
        let renamed = oidc.user_info.as_ref().is_some_and(|info| info.fields.renames_subject());
        return renamed || subject.as_deref() == Some(&*tokens.subject);
    };
    let other_nonce = claims.contains_key("nonce") && claims.get("nonce") != before.get("nonce");
    subject.is_some() && claims.get("sub") == before.get("sub") && !other_nonce
}
