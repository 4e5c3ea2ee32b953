//! Identification of the user.

use secrecy::SecretString;
use vmcp_core::Claims;

use super::Inner;
use super::resolved::{OAuth2Provider, OidcProvider, ResolvedProvider, keys};
use crate::discovery::Metadata;
use crate::id_token::{self, IdTokenExpectations};
use crate::token_response::TokenResponse;
use crate::user::{self, User};
use crate::{AuthorizationState, FieldMapping, IdentityError, ProviderError, UserInfo};

impl Inner {
    pub(super) async fn identify(
        &self,
        resolved: &ResolvedProvider<'_>,
        leg: &AuthorizationState,
        granted: &TokenResponse,
    ) -> Result<User, ProviderError> {
        match resolved {
            ResolvedProvider::Oidc(oidc, metadata) => {
                self.identify_by_id_token(oidc, metadata, leg, granted).await
            }
            ResolvedProvider::Oauth2(oauth2, _) => {
                self.identify_by_access_token(oauth2, &granted.access).await
            }
        }
    }

    async fn identify_by_access_token(
        &self,
        oauth2: &OAuth2Provider,
        access: &SecretString,
    ) -> Result<User, ProviderError> {
        let Some(info) = &oauth2.user_info else { return Ok(User::is_synthetic(access)) };
        let answer = user::fetch_user_info(&self.configured, info, access).await?;
        User::from_claims(&answer, &info.fields)
    }

    async fn identify_by_id_token(
        &self,
        oidc: &OidcProvider,
        metadata: &Metadata,
        leg: &AuthorizationState,
        granted: &TokenResponse,
    ) -> Result<User, ProviderError> {
        let TokenResponse { access, id, .. } = granted;
        let id = id.as_ref().ok_or(IdentityError::MissingIdToken)?;
        let claims = self.verify(oidc, metadata, id, access, &leg.client_id).await?;
        if !leg.nonce.as_ref().is_some_and(|nonce| id_token::has_nonce(claims.object(), nonce)) {
            return Err(IdentityError::WrongNonce.into());
        }
        let user = User::from_id_token(claims.object())?;
        if let Some(info) = &oidc.user_info {
            let answer = user::fetch_user_info(&self.configured, info, access).await?;
            return user.with_user_info(&answer, &info.fields);
        }
        let Some(endpoint) = &metadata.user_info else { return Ok(user) };
        if !self.needs_user_info(&user) {
            return Ok(user);
        }
        // The discovered endpoint only adds names that the ID token lacks; a login succeeds without
        // them.
        let info = UserInfo::new(endpoint.clone());
        match user::fetch_user_info(oidc.discovery.http_client(endpoint), &info, access).await {
            Ok(answer) => user.with_user_info(&answer, &FieldMapping::default()),
            Err(error) => {
                tracing::warn!(provider = %self.name, %error, "failed to fetch name and email of a user");
                Ok(user)
            }
        }
    }

    /// Returns whether the userinfo endpoint may have more data than the ID token.
    fn needs_user_info(&self, user: &User) -> bool {
        let lacks_name = user.name.is_none() && self.scopes.contains("profile");
        lacks_name || user.email.is_none() && self.scopes.contains("email")
    }

    /// Verifies an ID token of this provider for this client and returns the claims.
    pub(super) async fn verify(
        &self,
        oidc: &OidcProvider,
        metadata: &Metadata,
        id: &SecretString,
        access: &SecretString,
        client_id: &str,
    ) -> Result<Claims, ProviderError> {
        let expected = IdTokenExpectations { issuer: oidc.issuer.as_str(), client_id, access };
        Ok(id_token::verify(keys(metadata)?.clone(), &self.clock, id, &expected).await?)
    }
}
