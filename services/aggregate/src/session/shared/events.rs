//! Messages of other replicas about sessions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::time::sleep;
use vmcp_session::{OwnerDigest, SessionEvent, SessionId, StorageError};

use crate::bridge::notifications;
use crate::call::CallContext;
use crate::session::Session;
use crate::session::store::SessionStore;

/// Time after which a failed reading of a changed record is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Applies messages until the stream ends.
pub(crate) async fn apply_messages(
    context: Arc<CallContext>,
    mut messages: BoxStream<'static, SessionEvent>,
) {
    let sessions = Arc::clone(&context.notifier.sessions);
    while let Some(message) = messages.next().await {
        match message {
            SessionEvent::Ended(id) => sessions.end_elsewhere(id),
            SessionEvent::AllEnded { owner, until } => end_all(&sessions, owner, until),
            SessionEvent::Changed(id) => {
                if let Some(session) = held(&sessions, id) {
                    // A task of its own: reading the record takes time, and endings must not wait for it.
                    tokio::spawn(follow_record(Arc::clone(&context), session));
                }
            }
            SessionEvent::StreamMoved(id) => {
                if let Some(session) = sessions.sessions.find(id) {
                    session.release_stream();
                }
            }
        }
    }
}

fn end_all(sessions: &SessionStore, owner: OwnerDigest, until: u64) {
    let mut ended = Vec::new();
    sessions.for_each(|session| {
        let key = session.shared().map(|shared| shared.key);
        ended.extend(key.filter(|key| key.owner == owner && key.issued_at <= until));
    });
    for key in ended {
        sessions.end_elsewhere(key.id);
    }
}

/// Returns a session whose client has its notification stream here.
fn held(sessions: &SessionStore, id: SessionId) -> Option<Arc<Session>> {
    let session = sessions.sessions.find(id)?;
    session.shared()?.holds_stream().then_some(session)
}

/// Reads the record, and follows its backend sessions and subscriptions. Repeats a failed step while the client has its stream
/// here.
async fn follow_record(context: Arc<CallContext>, session: Arc<Session>) {
    loop {
        match session.all_backend_slots(&context.catalogs).await {
            Ok(slots) => {
                for slot in &slots {
                    notifications::follow(&context, &session, slot);
                }
                return;
            }
            Err(StorageError::Ended) => return,
            Err(error) => tracing::debug!(%error, "failed to read a changed session"),
        }
        sleep(RETRY_INTERVAL).await;
        if !session.shared().is_some_and(|shared| shared.holds_stream()) {
            return;
        }
    }
}

impl Session {
    /// Ends the notification stream, because another replica has it now.
    fn release_stream(&self) {
        let Some(shared) = &self.shared else { return };
        shared.set_holds_stream(false);
        for slot in self.backend_slots() {
            slot.stop_listening();
        }
        // Set before the stream is removed: the next one belongs to a client that was elsewhere.
        self.may_have_missed.store(true, Ordering::Relaxed);
        if let Some(streams) = self.existing_streams() {
            streams.end_standing();
        }
    }
}
