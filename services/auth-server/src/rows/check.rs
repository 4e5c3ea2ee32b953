//! Periodic check that the first provider, which identifies the user, still knows the user.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use vmcp_auth_store::{Grant, SessionId, Timestamp, UserId};
use vmcp_core::UpstreamError;

use super::Want;
use crate::error::Fault;
use crate::event::{Event, Happened, Revoker};
use crate::server::Inner;

impl Inner {
    /// Checks that the user of a grant may continue. The first provider is asked if its last check is too old and it issued
    /// a refresh token. An unavailable provider does not count as a rejection.
    ///
    /// # Errors
    /// The provider rejects the user, or its link is gone: the session is ended. Or the store is unavailable.
    pub(crate) async fn check_person(self: &Arc<Self>, grant: &Grant) -> Result<(), Fault> {
        let Some(first) = self.upstreams.first() else { return Ok(()) };
        let (session, interval) = (grant.session, self.settings.upstream_check_interval);
        let since = earlier(self.now(), interval);
        match self.upstream_tokens(session, first, Want::Checked(since)).await {
            Ok(_) => Ok(()),
            Err(UpstreamError::NotLinked) => {
                self.end_session(session).await?;
                Err(Fault::grant("the user has to log in at the identity provider again"))
            }
            Err(UpstreamError::Unavailable) => {
                let words = "the identity provider cannot be asked at the moment";
                Err(Fault::later(words, Duration::from_secs(5)))
            }
        }
    }

    /// Ends a session whose user the first provider rejects. Unless `under_way`, it then checks the user's other sessions:
    /// the rejection may concern the user, or this session's token alone.
    pub(super) async fn end_refused(self: &Arc<Self>, session: SessionId, under_way: bool) {
        let head = match self.store.session(&session).await {
            Ok(found) => found.map(|found| found.head),
            Err(error) => {
                tracing::warn!(%error, "failed to look for the other sessions of a refused user");
                None
            }
        };
        if let Err(error) = self.end_session(session).await {
            // The link is deleted, so the next refresh ends the session.
            tracing::warn!(%error, "failed to end the session of a refused user");
        }
        let Some(head) = head else { return };
        self.tell(Event::of_session(&head, Happened::TokenRevoked { by: Revoker::Provider }));
        if !under_way {
            let server = Arc::clone(self);
            tokio::spawn(server.check_sessions(head.user));
        }
    }

    /// Asks the first provider about each session of a user, one after the other. Boxed, because a rejection calls this
    /// function recursively.
    fn check_sessions(self: Arc<Self>, user: UserId) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (Some(first), since) = (self.upstreams.first(), self.now()) else { return };
            let sessions = match self.store.sessions_of(&user).await {
                Ok(sessions) => sessions,
                Err(error) => {
                    tracing::warn!(%error, "failed to look for the other sessions of a refused user");
                    return;
                }
            };
            for session in sessions {
                // A rejection ends the session inside this call.
                let checked = self.upstream_tokens(session.head.id, first, Want::CheckedToo(since));
                _ = checked.await;
            }
        })
    }
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(now.millis().saturating_sub(by).saturating_add(1))
}
