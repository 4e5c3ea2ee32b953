//! End of a session in this process.

use std::sync::atomic::Ordering;

use vmcp_core::{Rejection, lock};

use super::Session;
use super::cancellation::{REPLICA_LEFT, SESSION_ENDED};

/// End of a session in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SessionEnd {
    /// The client ended it with a request to this replica, which ends the sessions at the backends.
    Deleted = 1,
    /// It ended at another replica, which ends the sessions at the backends that replicas share.
    EndedElsewhere = 2,
    /// It was idle or evicted, or the process ends. With a sealed id, it continues where its client sends its next request, with
    /// the sessions at the backends that replicas share.
    Released = 3,
}

impl Session {
    /// Returns the rejection of a request whose session ended while the request began. With a sealed id, the session may have
    /// been evicted: then it continues with the next request.
    pub(super) fn ended_rejection(&self) -> Rejection {
        match self.sealed {
            Some(_) if self.ended.load(Ordering::Acquire) == SessionEnd::Released as u8 => {
                Rejection::overloaded("the session was evicted: send the request again", 1)
            }
            _ => Rejection::session_not_found(),
        }
    }

    /// Returns `true` if the session has ended in this process.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) != 0
    }

    /// Ends the session and its streams, calls and backend sessions. Does nothing if it has ended before.
    pub(crate) fn end(&self, end: SessionEnd) {
        let set = self.ended.compare_exchange(0, end as u8, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            return;
        }
        // Taken before their tasks end: otherwise the tasks would cancel the calls too, possibly after the session itself has
        // ended.
        let calls = lock(&self.calls).clone();
        let backend_slots = std::mem::take(&mut *lock(&self.backend_slots));
        let is_doubted = self.shared.as_ref().is_some_and(|shared| shared.is_doubted());
        for slot in backend_slots {
            let reason = match end {
                SessionEnd::Released if self.shared.is_some() => REPLICA_LEFT,
                _ => SESSION_ENDED,
            };
            let calls = calls.iter().filter(|call| call.is_at(&slot));
            let cancels = calls.filter_map(|call| call.cancellation().request(reason)).collect();
            match end {
                SessionEnd::Deleted => slot.close(cancels),
                // The replica that ended it may not know the session at the backend.
                SessionEnd::EndedElsewhere if is_doubted => slot.close(cancels),
                SessionEnd::EndedElsewhere | SessionEnd::Released => slot.release(cancels),
            }
        }
        // Before their streams end.
        for call in &calls {
            call.record_cancelled();
        }
        // Created if missing, so it rejects later insertions.
        self.streams().end();
        for call in &calls {
            call.cancelled.notify_one();
        }
    }
}
