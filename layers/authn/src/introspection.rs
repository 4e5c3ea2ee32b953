//! Opaque tokens: the identity provider is asked about each.

use vmcp_introspection::{Introspected, Introspection, IntrospectionError};

use crate::{AuthenticateFuture, Inspect, Refusal};

/// Asks about each token anew. Put [`Cached`](crate::Cached) around it.
impl Inspect for Introspection {
    fn inspect<'a>(&'a self, token: &'a str) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let Introspected { claims, expires_at } = self.introspect(token).await?;
            let identity = crate::jwt::identity(claims, token);
            Ok(match expires_at {
                Some(at) => identity.expires_at(at).build(),
                None => identity.build(),
            })
        })
    }
}

impl From<IntrospectionError> for Refusal {
    fn from(error: IntrospectionError) -> Self {
        match error {
            IntrospectionError::Inactive => Self::InvalidToken("the token is not active".into()),
            IntrospectionError::Token(fault) => fault.into(),
            IntrospectionError::Outage(_) => Self::unavailable(),
        }
    }
}

#[cfg(test)]
mod tests;
