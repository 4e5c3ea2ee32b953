//! Backend sessions on behalf of stateless clients. They are never shared between identities, and the client's declared
//! capabilities are part of the key because they determine the backend's server requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use vmcp_core::{Fingerprint, Identity};

use crate::backend::error::BackendError;
use crate::backend::{BackendHandle, BackendId};
use crate::session::{BackendSessionSlot, SlotLease};
use crate::settings::Transport;
use vmcp_core::lock;

/// Maximum number of sessions.
const MAX_ENTRIES: usize = 4096;

/// Maximum number of sessions with one backend for requests with a common key. With HTTP+SSE, this limits the concurrent
/// requests.
const MAX_PER_KEY: u16 = 128;

/// Idle timeout of a session.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// Cache of backend sessions for stateless clients. Not locked while sessions are opened or closed.
#[derive(Debug, Default)]
pub(crate) struct StatelessSessions(Mutex<HashMap<Key, Entry>>);

/// Cache key of a session. Requests with equal keys may share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    backend: BackendId,
    caller: Identity,
    /// Inputs of the request's credentials, if they are not the gateway's own.
    credentials: Option<Fingerprint>,
    capabilities: Bytes,
    level: Option<Bytes>,
    /// Number that distinguishes sessions limited to one request at a time.
    number: u16,
}

#[derive(Debug)]
struct Entry {
    slot: Arc<BackendSessionSlot>,
    used: Instant,
}

impl Key {
    pub(crate) fn new(
        backend: &Arc<BackendHandle>,
        caller: &Identity,
        capabilities: &[u8],
        level: Option<&[u8]>,
    ) -> Self {
        Self {
            backend: backend.id,
            caller: caller.clone(),
            credentials: (!backend.shared()).then(|| caller.credential_key()),
            capabilities: Bytes::copy_from_slice(capabilities),
            level: level.map(Bytes::copy_from_slice),
            number: 0,
        }
    }
}

impl StatelessSessions {
    /// Returns a lease of the session of a key. Evicts the least recently used session if
    /// the cache is full.
    ///
    /// The single stream of HTTP+SSE does not correlate server requests and log messages with requests, and two requests of
    /// anonymous callers may belong to different people. Therefore each such request has its own session.
    ///
    /// # Errors
    /// Fails if too many requests with this key are in flight at an HTTP+SSE backend.
    pub(crate) fn get(
        &self,
        mut key: Key,
        backend: &Arc<BackendHandle>,
    ) -> Result<SlotLease, BackendError> {
        let mut table = lock(&self.0);
        if backend.transport == Transport::Sse {
            // Leases are taken under the table's lock, so two requests cannot find the same slot unused.
            while table.get(&key).is_some_and(|entry| entry.slot.is_leased()) {
                key.number += 1;
                if key.number >= MAX_PER_KEY {
                    return Err(BackendError::Busy);
                }
            }
        }
        if let Some(entry) = table.get_mut(&key) {
            entry.used = Instant::now();
            return Ok(entry.slot.lease());
        }
        // Checked under the lock: an entry inserted before the backend is retired is removed afterwards.
        if backend.is_retired() {
            return Ok(Arc::new(BackendSessionSlot::new(Arc::clone(backend))).lease());
        }
        if table.len() >= MAX_ENTRIES {
            let oldest =
                table.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            if let Some(entry) = oldest.and_then(|key| table.remove(&key)) {
                entry.slot.retire();
            }
        }
        let slot = Arc::new(BackendSessionSlot::new(Arc::clone(backend)));
        let lease = slot.lease();
        table.insert(key, Entry { slot, used: Instant::now() });
        Ok(lease)
    }

    /// Ends sessions that have been idle for too long. A session with a call in flight is in use.
    pub(crate) fn sweep(&self) {
        let idle = |entry: &Entry| entry.used.elapsed() >= IDLE_TIMEOUT && !entry.slot.is_leased();
        self.end_where(|_, entry| idle(entry));
    }

    /// Ends the sessions of backends that are no longer configured.
    pub(crate) fn retain_backends(&self, backends: &[Arc<BackendHandle>]) {
        self.end_where(|_, entry| {
            !backends.iter().any(|backend| backend.id == entry.slot.backend.id)
        });
    }

    /// Ends all sessions.
    pub(crate) fn end(&self) {
        self.end_where(|_, _| true);
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    fn end_where(&self, over: impl Fn(&Key, &Entry) -> bool) {
        let mut table = lock(&self.0);
        let keys: Vec<Key> = table
            .iter()
            .filter(|(key, entry)| over(key, entry))
            .map(|(key, _)| key.clone())
            .collect();
        let ended: Vec<_> = keys.iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        for entry in ended {
            entry.slot.retire();
        }
    }
}
