//! Counters of the requests that reach a backend.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};

/// Requests by kind since the start, and connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// `initialize`.
    pub initialize: u64,
    /// `server/discover`.
    pub discover: u64,
    /// `tools/list`.
    pub list: u64,
    /// `tools/call`, successful or not.
    pub call: u64,
    /// `subscriptions/listen`.
    pub listen: u64,
    /// Every message without an id.
    pub notification: u64,
    /// GET on the endpoint.
    pub get: u64,
    /// DELETE of a session.
    pub delete: u64,
    /// Every other method.
    pub other: u64,
    /// Accepted connections.
    pub connections: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) initialize: AtomicU64,
    pub(super) discover: AtomicU64,
    pub(super) list: AtomicU64,
    pub(super) call: AtomicU64,
    pub(super) listen: AtomicU64,
    pub(super) notification: AtomicU64,
    pub(super) get: AtomicU64,
    pub(super) delete: AtomicU64,
    pub(super) other: AtomicU64,
    pub(super) connections: AtomicU64,
}

impl Stats {
    pub(super) fn to_json(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }
}

impl Counters {
    pub(super) fn read(&self) -> Stats {
        let Self {
            initialize,
            discover,
            list,
            call,
            listen,
            notification,
            get,
            delete,
            other,
            connections,
        } = self;
        Stats {
            initialize: initialize.load(Relaxed),
            discover: discover.load(Relaxed),
            list: list.load(Relaxed),
            call: call.load(Relaxed),
            listen: listen.load(Relaxed),
            notification: notification.load(Relaxed),
            get: get.load(Relaxed),
            delete: delete.load(Relaxed),
            other: other.load(Relaxed),
            connections: connections.load(Relaxed),
        }
    }
}
