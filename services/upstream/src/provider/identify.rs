//! Who it is that logged in.

use secrecy::SecretString;
use vmcp_core::Claims;

use super::Inner;
use super::ground::{Ground, OpenId, Plain, keys};
use crate::answer::Granted;
use crate::discovery::Metadata;
use crate::id_token::{self, Expected};
use crate::user::{self, User};
use crate::{Fault, FieldMapping, IdentityFault, Leg, UserInfo};

impl Inner {
    pub(super) async fn identify(
        &self,
        ground: &Ground<'_>,
        leg: &Leg,
        granted: &Granted,
    ) -> Result<User, Fault> {
        match ground {
            Ground::Oidc(oidc, metadata) => self.by_id_token(oidc, metadata, leg, granted).await,
            Ground::Oauth2(plain, _) => self.by_access_token(plain, &granted.access).await,
        }
    }

    async fn by_access_token(&self, plain: &Plain, access: &SecretString) -> Result<User, Fault> {
        let Some(info) = &plain.user_info else { return Ok(User::synthesized(access)) };
        let answer = user::ask(&self.configured, info, access).await?;
        User::of(&answer, &info.fields)
    }

    async fn by_id_token(
        &self,
        oidc: &OpenId,
        metadata: &Metadata,
        leg: &Leg,
        granted: &Granted,
    ) -> Result<User, Fault> {
        let Granted { access, id, .. } = granted;
        let id = id.as_ref().ok_or(IdentityFault::NoIdToken)?;
        let claims = self.verify(oidc, metadata, id, access, &leg.client_id).await?;
        if !leg.nonce.as_ref().is_some_and(|nonce| id_token::has_nonce(claims.object(), nonce)) {
            return Err(IdentityFault::Nonce.into());
        }
        let user = User::of_id_token(claims.object())?;
        if let Some(info) = &oidc.user_info {
            let answer = user::ask(&self.configured, info, access).await?;
            return user.completed(&answer, &info.fields);
        }
        let Some(endpoint) = &metadata.user_info else { return Ok(user) };
        if !self.is_worth_asking(&user) {
            return Ok(user);
        }
        // What discovery names is asked for the names that the id token lacks, which a login can do without.
        let info = UserInfo::new(endpoint.clone());
        match user::ask(oidc.discovery.web(endpoint), &info, access).await {
            Ok(answer) => user.completed(&answer, &FieldMapping::default()),
            Err(fault) => {
                tracing::warn!(provider = %self.name, %fault, "a user's name and address stay unknown");
                Ok(user)
            }
        }
    }

    /// Whether a userinfo endpoint may know more than the id token said.
    fn is_worth_asking(&self, user: &User) -> bool {
        let lacks_name = user.name.is_none() && self.scopes.contains("profile");
        lacks_name || user.email.is_none() && self.scopes.contains("email")
    }

    /// The claims of an id token of this provider for this client.
    pub(super) async fn verify(
        &self,
        oidc: &OpenId,
        metadata: &Metadata,
        id: &SecretString,
        access: &SecretString,
        client_id: &str,
    ) -> Result<Claims, Fault> {
        let expected = Expected { issuer: oidc.issuer.as_str(), client_id, access };
        Ok(id_token::verify(keys(metadata)?.clone(), &self.clock, id, &expected).await?)
    }
}
