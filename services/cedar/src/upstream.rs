//! Claims of an upstream provider's access token.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use vmcp_core::{Claims, Fingerprint, Rejection};
use vmcp_core::{UpstreamError, UpstreamKind, UpstreamToken, UpstreamTokens};

use crate::immutable_cache::ImmutableCache;

/// Timeout for the tokens of a provider.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a token's payload in bytes.
const MAX_PAYLOAD: usize = 64 << 10;

/// Claims to take from the ID token if the access token lacks them: some providers leave them out
/// there.
const ID_TOKEN_CLAIMS: [&str; 2] = ["name", "email"];

/// Provider whose claims count, with the cached claims of its tokens.
pub(crate) struct Upstream {
    provider: Box<str>,
    known: ImmutableCache<Fingerprint, Option<Arc<UpstreamClaims>>>,
}

/// Claims of a token, with its subject.
pub(crate) struct UpstreamClaims {
    pub(crate) subject: Box<str>,
    pub(crate) claims: Claims,
}

impl Upstream {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.into(), known: ImmutableCache::new(4096) }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the claims of the caller's access token; `None` if it is missing or is not a JWT
    /// with a subject. The gateway's own token must not replace it: the caller is unknown.
    pub(crate) async fn claims(
        &self,
        tokens: &dyn UpstreamTokens,
    ) -> Result<Option<Arc<UpstreamClaims>>, Rejection> {
        let Some(access) = self.token(tokens, UpstreamKind::Access).await? else {
            tracing::debug!(
                provider = &*self.provider,
                "denied: the provider issued no access token"
            );
            return Ok(None);
        };
        let key = Fingerprint::of(access.value.expose_secret());
        if let Some(known) = self.known.get(&key) {
            return Ok(known);
        }
        let said = match payload(access.value.expose_secret()) {
            Some(claims) => self.fill(claims, tokens).await?,
            None => None,
        };
        if said.is_none() {
            tracing::debug!(provider = &*self.provider, "denied: the access token is not a JWT");
        }
        // Claims of a token never change; the cache only limits their number.
        self.known.insert(key, said.clone());
        Ok(said)
    }

    async fn fill(
        &self,
        mut claims: Map<String, Value>,
        tokens: &dyn UpstreamTokens,
    ) -> Result<Option<Arc<UpstreamClaims>>, Rejection> {
        let subject = claims.get("sub").and_then(Value::as_str).filter(|sub| !sub.is_empty());
        let Some(subject) = subject.map(Box::from) else { return Ok(None) };
        if ID_TOKEN_CLAIMS.iter().any(|name| !claims.contains_key(*name)) {
            let id = self.token(tokens, UpstreamKind::Id).await?;
            let id = id.and_then(|id| payload(id.value.expose_secret()));
            for name in ID_TOKEN_CLAIMS {
                let said = id.as_ref().and_then(|id| id.get(name)).filter(|said| said.is_string());
                if let (Some(said), false) = (said, claims.contains_key(name)) {
                    claims.insert(name.to_owned(), said.clone());
                }
            }
        }
        Ok(Some(Arc::new(UpstreamClaims { subject, claims: claims.into() })))
    }

    async fn token(
        &self,
        tokens: &dyn UpstreamTokens,
        kind: UpstreamKind,
    ) -> Result<Option<UpstreamToken>, Rejection> {
        match tokio::time::timeout(TOKEN_TIMEOUT, tokens.token(&self.provider, kind)).await {
            Ok(Ok(token)) => Ok(Some(token)),
            Ok(Err(UpstreamError::NotLinked)) => Ok(None),
            Ok(Err(UpstreamError::Unavailable)) | Err(_) => {
                let message = "failed to determine the permissions of the caller: the identity provider is unavailable";
                Err(Rejection::overloaded(message, 5))
            }
        }
    }
}

/// Returns the claims of a JWT. Does not check its signature: it came from the provider over TLS,
/// through our own store.
fn payload(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    if payload.len() > MAX_PAYLOAD {
        return None;
    }
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upstream").field(&self.provider).finish()
    }
}
