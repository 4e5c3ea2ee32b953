//! Sessions with stateful backends on behalf of stateless clients, which have none of their own. They
//! never cross identities, and what the client declares is part of the key: a backend asks by it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use vmcp_core::{Identity, ViewKey};

use crate::backend::Link;
use crate::backend::failure::Failure;
use crate::session::{Upstream, lock};
use crate::settings::Transport;

/// The most such sessions.
const MOST: usize = 4096;

/// The most sessions with one backend for requests that have a key in common. With HTTP+SSE that is the most such
/// requests at once.
const MAX_PER_KEY: u16 = 128;

/// How long one lives without being used.
const IDLE: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SharedSessions(Mutex<HashMap<Key, Entry>>);

/// What two requests have in common that may use the same session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The backend, by the address of what is remembered of it.
    link: usize,
    caller: Identity,
    /// What the credentials of the request depend on, where they are not the gateway's own.
    credentials: Option<ViewKey>,
    capabilities: Bytes,
    level: Option<Bytes>,
    /// Tells sessions apart that only one request at a time may use.
    number: u16,
}

#[derive(Debug)]
struct Entry {
    upstream: Arc<Upstream>,
    used: Instant,
}

impl Key {
    pub(crate) fn new(
        link: &Arc<Link>,
        caller: &Identity,
        capabilities: &[u8],
        level: Option<&[u8]>,
    ) -> Self {
        Self {
            link: Arc::as_ptr(link) as usize,
            caller: caller.clone(),
            credentials: (!link.shared()).then(|| caller.credential_key()),
            capabilities: Bytes::copy_from_slice(capabilities),
            level: level.map(Bytes::copy_from_slice),
            number: 0,
        }
    }
}

impl SharedSessions {
    /// The session for a key, in use until it is dropped. With all places taken, the one that was unused longest goes.
    ///
    /// On the one stream of HTTP+SSE nothing says which request a question or a log message belongs to, and two requests of
    /// anonymous callers may be of two people: there each request has a session for itself.
    ///
    /// # Errors
    /// Too many requests with this key are under way at a backend of HTTP+SSE.
    pub(crate) fn get(&self, mut key: Key, link: &Arc<Link>) -> Result<Arc<Upstream>, Failure> {
        let mut table = lock(&self.0);
        if link.transport == Transport::Sse {
            let in_use = |entry: &Entry| Arc::strong_count(&entry.upstream) > 1;
            while table.get(&key).is_some_and(in_use) {
                key.number += 1;
                if key.number >= MAX_PER_KEY {
                    return Err(Failure::Busy);
                }
            }
        }
        if let Some(entry) = table.get_mut(&key) {
            entry.used = Instant::now();
            return Ok(Arc::clone(&entry.upstream));
        }
        // Looked at under the lock: what is entered before the backend is retired is taken out after that.
        if link.is_retired() {
            return Ok(Arc::new(Upstream::new(Arc::clone(link))));
        }
        if table.len() >= MOST {
            let oldest =
                table.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            if let Some(entry) = oldest.and_then(|key| table.remove(&key)) {
                entry.upstream.retire();
            }
        }
        let upstream = Arc::new(Upstream::new(Arc::clone(link)));
        let entry = Entry { upstream: Arc::clone(&upstream), used: Instant::now() };
        table.insert(key, entry);
        Ok(upstream)
    }

    /// Ends those that nobody has used for a while. One with a call under way is in use.
    pub(crate) fn sweep(&self) {
        let idle =
            |entry: &Entry| entry.used.elapsed() >= IDLE && Arc::strong_count(&entry.upstream) == 1;
        self.end_where(|_, entry| idle(entry));
    }

    /// Ends those of backends that are no longer there.
    pub(crate) fn keep_only(&self, links: &[Arc<Link>]) {
        self.end_where(|_, entry| {
            !links.iter().any(|link| Arc::ptr_eq(link, &entry.upstream.link))
        });
    }

    /// Ends all.
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
            entry.upstream.retire();
        }
    }
}
