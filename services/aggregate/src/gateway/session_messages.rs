//! Messages of other replicas about sessions.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use vmcp_session::{SessionEvent, SessionStorage, StorageError};

use crate::bridge::notifications;
use crate::call::CallContext;
use crate::dispatch::Dispatcher;
use crate::session::Session;
use crate::session::shared::SharedSession;
use crate::session::store::keep_records;

/// Time after which a failed reading of a changed record is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of records that are read or merged at the same time because of messages.
const MAX_STEPS: usize = 16;

/// Time for which a session counts as in use after a request, when messages were missed. Writes of earlier requests have been
/// copied to a server that takes over, and their sessions are merged with their next request.
const USE_TIME: Duration = Duration::from_mins(2);

/// Time after which sessions in use are merged when messages were missed: replicas write tombstones that the storage lost again
/// first.
const MERGE_DELAY: Duration = Duration::from_secs(1);

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
    let steps = Arc::new(Semaphore::new(MAX_STEPS));
    while let Some(message) = messages.next().await {
        match message {
            SessionEvent::Ended(id) => sessions.end_elsewhere(id),
            SessionEvent::AllEnded { owner, until } => sessions.end_all_elsewhere(owner, until),
            SessionEvent::Changed(id) => {
                if let Some(session) = sessions.with_stream(id) {
                    // A task of its own: reading the record takes time, and endings must not wait for it.
                    tokio::spawn(follow_record(Arc::clone(&context), session, Arc::clone(&steps)));
                }
            }
            SessionEvent::LevelChanged(id) => {
                if let Some(shared) = sessions.find(id).and_then(|it| it.shared().cloned()) {
                    tokio::spawn(follow_level(shared, Arc::clone(&steps)));
                }
            }
            SessionEvent::RecordLost(id) => {
                // Before the next message: the session may end before it is merged.
                if let Some(session) = sessions.doubt(id) {
                    tokio::spawn(merge(Arc::clone(&context), session, Arc::clone(&steps)));
                }
            }
            SessionEvent::MessagesMissed => {
                let in_use = sessions.doubt_all(USE_TIME);
                tokio::spawn(merge_all(Arc::clone(&context), in_use, Arc::clone(&steps)));
            }
            SessionEvent::StreamMoved(id) => sessions.release_stream(id),
        }
    }
}

/// Reads the record, and follows its backend sessions and subscriptions. Repeats a failed step while the client has its stream
/// here.
async fn follow_record(context: Arc<CallContext>, session: Arc<Session>, steps: Arc<Semaphore>) {
    loop {
        let permit = steps.acquire().await;
        match session.all_backend_slots(&context.catalogs).await {
            Ok(_) => return notifications::follow_all(&context, &session),
            Err(StorageError::Ended) => return,
            Err(error) => tracing::debug!(%error, "failed to read a changed session"),
        }
        drop(permit);
        sleep(RETRY_INTERVAL).await;
        if !session.shared().is_some_and(|shared| shared.holds_stream()) {
            return;
        }
    }
}

/// Reads the log level that another replica stored. A failed step is not repeated: messages may have been missed then, after which
/// the record is merged.
async fn follow_level(shared: Arc<SharedSession>, steps: Arc<Semaphore>) {
    let _permit = steps.acquire().await;
    if let Err(error) = shared.read().await {
        tracing::debug!(%error, "failed to read a changed log level");
    }
}

/// Enters what this replica has into the record of a session. The session's next request repeats a failed step.
async fn merge(context: Arc<CallContext>, session: Arc<Session>, steps: Arc<Semaphore>) {
    let _permit = steps.acquire().await;
    match context.notifier.sessions.merge(&session).await {
        Ok(()) => notifications::follow_all(&context, &session),
        Err(error) => tracing::debug!(%error, "failed to merge the record of a session"),
    }
}

/// Enters what this replica has into the records of sessions in use. Others follow with their next request.
async fn merge_all(context: Arc<CallContext>, sessions: Vec<Arc<Session>>, steps: Arc<Semaphore>) {
    sleep(MERGE_DELAY).await;
    let merges = sessions
        .into_iter()
        .map(|session| merge(Arc::clone(&context), session, Arc::clone(&steps)));
    stream::iter(merges).for_each_concurrent(MAX_STEPS, |merge| merge).await;
}
