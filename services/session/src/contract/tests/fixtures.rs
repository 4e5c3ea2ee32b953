//! Sessions of the tests.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use vmcp_core::Identity;

use crate::contract::TestStorage;
use crate::{
    EntryTag, OwnerDigest, Replacement, SessionEvent, SessionId, SessionKey, SessionStorage,
};

/// Time in which a message arrives.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

impl TestStorage {
    /// Returns a new session of an owner that no other test has.
    pub(super) fn session(&self) -> SessionKey {
        let number = SessionId::random().unwrap();
        self.session_of(OwnerDigest::of(&Identity::new("https://idp", &number.to_string())))
    }

    pub(super) fn anonymous_session(&self) -> SessionKey {
        self.session_of(OwnerDigest::of(&Identity::anonymous()))
    }

    pub(super) fn session_of(&self, owner: OwnerDigest) -> SessionKey {
        SessionKey { owner, id: SessionId::random().unwrap(), issued_at: self.now }
    }

    /// Waits until a condition holds.
    pub(super) async fn until(&self, condition: impl Fn() -> bool) {
        let step = Duration::from_millis(20);
        for _ in 0..MESSAGE_TIMEOUT.as_millis() / step.as_millis() {
            if condition() {
                return;
            }
            (self.advance)(step).await;
        }
        panic!("the condition does not hold");
    }
}

/// Returns the next message.
pub(super) async fn next(events: &mut BoxStream<'static, SessionEvent>) -> SessionEvent {
    tokio::time::timeout(MESSAGE_TIMEOUT, events.next()).await.unwrap().unwrap()
}

/// Returns the next message that is not about a missing record.
pub(super) async fn next_end(events: &mut BoxStream<'static, SessionEvent>) -> SessionEvent {
    loop {
        match next(events).await {
            SessionEvent::RecordLost(_) => {}
            event => return event,
        }
    }
}

/// Stores an entry where there is none.
pub(super) async fn put(
    storage: &dyn SessionStorage,
    session: &SessionKey,
    backend: &str,
    value: &[u8],
) -> EntryTag {
    let stored =
        storage.replace_backend_session(session, backend, None, Some(value.to_vec())).await;
    let Replacement::Stored(Some(tag)) = stored.unwrap() else { panic!("there is an entry") };
    tag
}
