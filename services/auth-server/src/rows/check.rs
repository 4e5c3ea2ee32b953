//! Whether the first provider, which says who a person is, still knows them.

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
    /// Whether the person behind a grant may go on. The first provider is asked if it was not for a while and gave a
    /// refresh token; one that cannot be asked at the moment has refused nobody.
    ///
    /// # Errors
    /// The provider refuses the person, or its link is gone: the session is ended. Or the store cannot be asked.
    pub(crate) async fn check_person(self: &Arc<Self>, grant: &Grant) -> Result<(), Fault> {
        let Some(first) = self.upstreams.first() else { return Ok(()) };
        let (session, interval) = (grant.session, self.settings.upstream_check_interval);
        let since = earlier(self.now(), interval);
        match self.upstream_tokens(session, first, Want::Checked(since)).await {
            Ok(_) => Ok(()),
            Err(UpstreamError::Absent) => {
                self.end_session(session).await?;
                Err(Fault::grant("the user has to log in at the identity provider again"))
            }
            Err(UpstreamError::Unavailable) => {
                let words = "the identity provider cannot be asked at the moment";
                Err(Fault::later(words, Duration::from_secs(5)))
            }
        }
    }

    /// Ends a session whose person the first provider refuses, and has it asked about the person's other ones unless
    /// that is `under_way`: it may have refused the person, or the one session's token alone.
    pub(super) async fn end_refused(self: &Arc<Self>, session: SessionId, under_way: bool) {
        let head = match self.store.session(&session).await {
            Ok(found) => found.map(|found| found.head),
            Err(error) => {
                tracing::warn!(%error, "failed to look for the other sessions of a refused user");
                None
            }
        };
        if let Err(error) = self.end_session(session).await {
            // Its link is gone, so its next refresh ends it.
            tracing::warn!(%error, "failed to end the session of a refused user");
        }
        let Some(head) = head else { return };
        self.tell(Event::of_session(&head, Happened::TokenRevoked { by: Revoker::Provider }));
        if !under_way {
            let server = Arc::clone(self);
            tokio::spawn(server.check_sessions(head.user));
        }
    }

    /// Asks the first provider about each session of a person, one after the other. Boxed, since a refusal leads
    /// back here.
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
                // A refusal ends the session.
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
