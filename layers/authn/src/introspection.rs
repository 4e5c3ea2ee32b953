//! Verification of opaque tokens by introspection.

use vmcp_oauth_client::introspection::{
    IntrospectedToken, IntrospectionClient, IntrospectionError,
};

use crate::{AuthError, AuthenticationFuture, TokenVerifier};

/// Introspects each token. Wrap it in a [`CachedVerifier`](crate::CachedVerifier).
impl TokenVerifier for IntrospectionClient {
    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        Box::pin(async move {
            let IntrospectedToken { claims, expires_at } = self.introspect(token).await?;
            let identity = crate::jwt::identity(claims, token);
            Ok(match expires_at {
                Some(at) => identity.expires_at(at).build(),
                None => identity.build(),
            })
        })
    }
}

impl From<IntrospectionError> for AuthError {
    fn from(error: IntrospectionError) -> Self {
        match error {
            IntrospectionError::Inactive => Self::InvalidToken("the token is not active".into()),
            IntrospectionError::Token(fault) => fault.into(),
            IntrospectionError::Endpoint(_) => Self::unavailable(),
        }
    }
}

#[cfg(test)]
mod tests;
