//! Verification of tokens of the embedded authorization server, in process and without a request.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use vmcp_auth_server::{AccessToken, AccessTokenError, AccessTokenVerifier, AuthServer};
use vmcp_auth_store::SessionId;
use vmcp_authn::{AuthError, AuthenticationFuture, TokenVerifier};
use vmcp_core::{Identity, RevocationFuture, SessionRevocation};

/// Source of session revocations. A reload may replace the server behind it without affecting waiting streams.
#[derive(Clone)]
pub(crate) struct IssuerSessions {
    /// Current server. Replaced before `ended` is incremented, so that a woken stream sees the new one.
    server: Arc<ArcSwap<AuthServer>>,
    /// Change counter: incremented when a session ends or the server is replaced.
    ended: watch::Sender<u64>,
}

/// Revocation of one session.
struct IssuerSessionRevocation {
    sessions: IssuerSessions,
    session: SessionId,
}

/// Verifier of tokens of the embedded authorization server.
pub(super) struct EmbeddedTokenVerifier {
    /// One verifier for each resource that tokens are issued for, at least one.
    tokens: Vec<AccessTokenVerifier>,
    sessions: IssuerSessions,
}

// === impl Sessions ===

impl IssuerSessions {
    /// Creates the source for `server`.
    pub(crate) fn new(server: &AuthServer) -> Self {
        let sessions = Self {
            server: Arc::new(ArcSwap::from_pointee(server.clone())),
            ended: watch::Sender::new(0),
        };
        sessions.listen(server);
        sessions
    }

    /// Replaces the server. The new one shares the revoked sessions with its predecessor, so that waiting streams see
    /// them.
    pub(crate) fn replace(&self, server: &AuthServer) {
        self.server.store(Arc::new(server.clone()));
        self.ended.send_modify(|count| *count += 1);
    }

    pub(crate) fn server(&self) -> Arc<AuthServer> {
        self.server.load_full()
    }

    fn listen(&self, server: &AuthServer) {
        let ended = self.ended.clone();
        server.on_revocation(move |_| ended.send_modify(|count| *count += 1));
    }

    fn revocation(&self, session: SessionId) -> IssuerSessionRevocation {
        IssuerSessionRevocation { sessions: self.clone(), session }
    }

    fn has_ended(&self, session: SessionId) -> bool {
        self.server.load().is_revoked(session)
    }

    /// Waits until the session is revoked.
    async fn ended(self, session: SessionId) {
        let mut count = self.ended.subscribe();
        while !self.has_ended(session) {
            // `self` holds the sender, so the channel cannot close.
            if count.changed().await.is_err() {
                return;
            }
        }
    }
}

impl fmt::Debug for IssuerSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("ended", &*self.ended.borrow()).finish_non_exhaustive()
    }
}

// === impl End ===

impl SessionRevocation for IssuerSessionRevocation {
    fn revoked(&self) -> RevocationFuture {
        Box::pin(self.sessions.clone().ended(self.session))
    }

    fn is_revoked(&self) -> bool {
        self.sessions.has_ended(self.session)
    }
}

// === impl Own ===

impl EmbeddedTokenVerifier {
    /// Creates a verifier for the resources of the server; `None` if it issues no tokens.
    pub(super) fn new(sessions: &IssuerSessions) -> Option<Self> {
        let server = sessions.server();
        let audiences = server.settings().audiences.iter();
        let tokens: Vec<_> =
            audiences.filter_map(|audience| server.verifier(audience.as_str())).collect();
        (!tokens.is_empty()).then(|| Self { tokens, sessions: sessions.clone() })
    }

    /// Verifies a token for any of the resources. Of a token for none of them, the error is that for the first.
    fn verify_token(&self, token: &str) -> Result<AccessToken, AccessTokenError> {
        let mut first = None;
        for verifier in &self.tokens {
            match verifier.verify(token) {
                Err(error @ AccessTokenError::Token(_)) => {
                    first.get_or_insert(error);
                }
                result => return result,
            }
        }
        Err(first.expect("there is a verifier"))
    }

    fn verify_now(&self, token: &str) -> Result<Identity, AuthError> {
        let found = self.verify_token(token).map_err(|fault| {
            tracing::debug!(%fault, "token rejected");
            match fault {
                AccessTokenError::Token(fault) => fault.into(),
                AccessTokenError::RevocationsNotLoaded => AuthError::unavailable(),
                other @ (AccessTokenError::NoSession | AccessTokenError::Revoked) => {
                    AuthError::InvalidToken(other.to_string().into())
                }
            }
        })?;
        let AccessToken { subject, claims, expires_at, session } = found;
        let server = self.sessions.server();
        Ok(Identity::builder(server.settings().issuer.as_str(), &subject)
            .claims(claims)
            .token(token.into())
            .expires_at(expires_at)
            .upstream(server.upstream_tokens(session))
            .revocation(Arc::new(self.sessions.revocation(session)))
            .build())
    }
}

impl TokenVerifier for EmbeddedTokenVerifier {
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        Some(self.verify_now(token))
    }

    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        Box::pin(ready(self.verify_now(token)))
    }
}

#[cfg(test)]
mod tests;
