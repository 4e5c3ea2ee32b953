//! Task that keeps the records of sessions while this replica uses them.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use vmcp_session::SessionKey;

use super::SessionStore;

/// Maximum number of sessions in one step.
const MAX_BATCH: usize = 256;

/// Keeps the records of the sessions that this replica uses, until the store is dropped.
pub(crate) async fn keep_records(store: Weak<SessionStore>, ttl: Duration) {
    let interval = ttl / 4;
    let mut since = Instant::now();
    loop {
        sleep(interval).await;
        let Some(store) = store.upgrade() else { return };
        let begin = Instant::now();
        let used = store.sessions.used_since(since);
        let keys = used.iter().filter_map(|session| Some(session.shared()?.key));
        let keys: Vec<SessionKey> = keys.collect();
        let Some(shared) = &store.shared else { return };
        let mut touched = true;
        for batch in keys.chunks(MAX_BATCH) {
            if let Err(error) = shared.storage.touch(batch).await {
                tracing::debug!(%error, "failed to keep the records of sessions");
                touched = false;
                break;
            }
        }
        // After a failure, the next round repeats this one.
        if touched {
            since = begin;
        }
    }
}
