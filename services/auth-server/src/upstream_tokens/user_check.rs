//! Periodic check that the first provider, which identifies the user, still knows the user.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use vmcp_auth_store::{Grant, SessionId, Timestamp, UserId};
use vmcp_core::UpstreamError;

use super::UpstreamTokenService;
use crate::error::OAuthError;
use crate::event::{Event, EventKind, RevokedBy};
use crate::upstream_token_cache::Requirement;

impl UpstreamTokenService {
    /// Checks that the user of a grant may continue. The first provider is asked if its last check is too old and it issued
    /// a refresh token. An unavailable provider does not count as a rejection.
    ///
    /// # Errors
    /// The provider rejects the user, or its link is gone: the session is ended. Or the store is unavailable.
    pub(crate) async fn check_user(self: &Arc<Self>, grant: &Grant) -> Result<(), OAuthError> {
        let first = self.providers.first();
        let (session, interval) = (grant.session, self.settings.upstream_check_interval);
        let since = earlier(Timestamp::from(self.clock.now()), interval);
        match self.get(session, first, Requirement::ConfirmedSince(since)).await {
            Ok(_) => Ok(()),
            Err(UpstreamError::NotLinked) => {
                self.sessions.end(session).await?;
                Err(OAuthError::invalid_grant(
                    "the identity provider no longer accepts the user; log in again",
                ))
            }
            Err(UpstreamError::Unavailable) => {
                let words = "the identity provider is unavailable; retry later";
                Err(OAuthError::temporarily_unavailable(words, Duration::from_secs(5)))
            }
        }
    }

    /// Ends a session whose user the first provider rejects. Unless `is_chained`, it then checks the user's other sessions:
    /// the rejection may concern the user, or this session's token alone.
    pub(super) async fn end_rejected_session(
        self: &Arc<Self>,
        session: SessionId,
        is_chained: bool,
    ) {
        let head = match self.store.session(&session).await {
            Ok(found) => found.map(|found| found.head),
            Err(error) => {
                tracing::warn!(%error, "failed to list other sessions of rejected user");
                None
            }
        };
        if let Err(error) = self.sessions.end(session).await {
            // The link is deleted, so the next refresh ends the session.
            tracing::warn!(%error, "failed to end session of rejected user");
        }
        let Some(head) = head else { return };
        self.events.report_background(Event::of_session(
            &head,
            EventKind::TokenRevoked { by: RevokedBy::Provider },
        ));
        if !is_chained {
            let server = Arc::clone(self);
            tokio::spawn(server.check_other_sessions(head.user));
        }
    }

    /// Asks the first provider about each session of a user, one after the other. Boxed, because a rejection calls this
    /// function recursively.
    fn check_other_sessions(self: Arc<Self>, user: UserId) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (first, since) = (self.providers.first(), Timestamp::from(self.clock.now()));
            let sessions = match self.store.sessions_of(&user).await {
                Ok(sessions) => sessions,
                Err(error) => {
                    tracing::warn!(%error, "failed to list other sessions of rejected user");
                    return;
                }
            };
            for session in sessions {
                // A rejection ends the session inside this call.
                let checked =
                    self.get(session.head.id, first, Requirement::ConfirmedInChain(since));
                _ = checked.await;
            }
        })
    }
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(now.millis().saturating_sub(by).saturating_add(1))
}
