//! Messages of other replicas about sessions.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use vmcp_session::{SessionEvent, SessionStorage, StorageError};

use crate::bridge::notifications;
use crate::call::CallContext;
use crate::dispatch::Dispatcher;
use crate::session::Session;
use crate::session::store::keep_records;

/// Time after which a failed reading of a changed record is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Starts the tasks of sessions that replicas share.
pub(super) fn follow_storage(
    storage: &dyn SessionStorage,
    session_ttl: Duration,
    dispatcher: &Dispatcher,
) -> [AbortHandle; 2] {
    let messages = apply_messages(Arc::clone(&dispatcher.context), storage.events());
    let upkeep = keep_records(Arc::downgrade(&dispatcher.sessions), session_ttl);
    [tokio::spawn(messages).abort_handle(), tokio::spawn(upkeep).abort_handle()]
}

/// Applies messages until the stream ends.
async fn apply_messages(context: Arc<CallContext>, mut messages: BoxStream<'static, SessionEvent>) {
    let sessions = Arc::clone(&context.notifier.sessions);
    while let Some(message) = messages.next().await {
        match message {
            SessionEvent::Ended(id) => sessions.end_elsewhere(id),
            SessionEvent::AllEnded { owner, until } => sessions.end_all_elsewhere(owner, until),
            SessionEvent::Changed(id) => {
                if let Some(session) = sessions.with_stream(id) {
                    // A task of its own: reading the record takes time, and endings must not wait for it.
                    tokio::spawn(follow_record(Arc::clone(&context), session));
                }
            }
            SessionEvent::StreamMoved(id) => sessions.release_stream(id),
        }
    }
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
