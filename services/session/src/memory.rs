//! The table of sessions of one process.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::Identity;

use crate::SessionId;

const SHARDS: usize = 16;

/// Sessions with a state `T` each. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct Sessions<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
    count: AtomicUsize,
    cap: usize,
    ttl: Duration,
    epoch: Instant,
    in_use: fn(&T) -> bool,
}

/// The cap on sessions is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {cap} sessions are in use: end one, or raise the cap")]
pub struct Full {
    /// The most sessions there may be.
    pub cap: usize,
}

type Shard<T> = HashMap<SessionId, Entry<T>, BuildHasherDefault<AsItIs>>;

/// The hash of an id is a part of it: ids are random, and nobody chooses those that are in the table.
#[derive(Default)]
struct AsItIs(u64);

#[derive(Debug)]
struct Entry<T> {
    owner: Identity,
    /// Milliseconds after the epoch.
    used: AtomicU64,
    state: Arc<T>,
}

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk() {
            self.0 = u64::from_ne_bytes(*last);
        }
    }

    // The length, which is always the same.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<T> Sessions<T> {
    /// At most `cap` sessions, each ending `ttl` after its last use.
    #[must_use]
    pub fn new(cap: usize, ttl: Duration) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            count: AtomicUsize::new(0),
            cap,
            ttl,
            epoch: Instant::now(),
            in_use: |_| false,
        }
    }

    /// Says which sessions are in use although nobody names them, such as one with an open stream.
    /// They do not expire.
    #[must_use]
    pub fn in_use_while(mut self, in_use: fn(&T) -> bool) -> Self {
        self.in_use = in_use;
        self
    }

    /// Opens a session for `owner`.
    ///
    /// # Errors
    /// [`Full`] when the cap is reached, counting sessions that have expired and were not swept;
    /// also when the system has no random numbers.
    pub fn open(&self, owner: Identity, state: T) -> Result<(SessionId, Arc<T>), Full> {
        let full = Full { cap: self.cap };
        if self.count.fetch_add(1, Ordering::AcqRel) >= self.cap {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return Err(full);
        }
        let Some(id) = SessionId::random() else {
            self.count.fetch_sub(1, Ordering::AcqRel);
            return Err(full);
        };
        let state = Arc::new(state);
        let entry = Entry { owner, used: AtomicU64::new(self.now()), state: Arc::clone(&state) };
        self.shard(id).insert(id, entry);
        Ok((id, state))
    }

    /// The state of a session of `caller`, whose time to live starts anew; `None` if there is no
    /// such session, it has expired, or it is somebody else's.
    #[must_use]
    pub fn get(&self, id: SessionId, caller: &Identity) -> Option<Arc<T>> {
        let shard = self.shard(id);
        let entry = shard.get(&id).filter(|entry| entry.owner == *caller)?;
        if self.expired(entry) {
            return None;
        }
        entry.used.store(self.now(), Ordering::Relaxed);
        Some(Arc::clone(&entry.state))
    }

    /// Ends a session of `caller` and gives back its state.
    pub fn close(&self, id: SessionId, caller: &Identity) -> Option<Arc<T>> {
        let mut shard = self.shard(id);
        shard.get(&id).filter(|entry| entry.owner == *caller)?;
        let entry = shard.remove(&id)?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        Some(entry.state)
    }

    /// Takes out what has expired. Call it now and then: an expired session is refused anyway, but
    /// its memory is freed here.
    pub fn sweep(&self) -> Vec<Arc<T>> {
        let mut ended = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let before = ended.len();
            let expired: Vec<_> =
                shard.iter().filter(|(_, entry)| self.expired(entry)).map(|(id, _)| *id).collect();
            ended.extend(expired.iter().filter_map(|id| shard.remove(id)).map(|entry| entry.state));
            self.count.fetch_sub(ended.len() - before, Ordering::AcqRel);
        }
        ended
    }

    /// Calls `visit` with every session's state.
    pub fn for_each(&self, mut visit: impl FnMut(&Arc<T>)) {
        for shard in &self.shards {
            // Collected first, so that visiting never holds a lock.
            let states: Vec<_> =
                lock(shard).values().map(|entry| Arc::clone(&entry.state)).collect();
            states.iter().for_each(&mut visit);
        }
    }

    /// How many sessions there are, expired ones included until they are swept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long an unused session lives.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn expired(&self, entry: &Entry<T>) -> bool {
        let now = self.now();
        let idle = now.saturating_sub(entry.used.load(Ordering::Relaxed));
        if u128::from(idle) < self.ttl.as_millis() {
            return false;
        }
        let in_use = (self.in_use)(&entry.state);
        if in_use {
            // Its time to live begins when it is no longer in use, give or take a sweep.
            entry.used.store(now, Ordering::Relaxed);
        }
        !in_use
    }

    fn shard(&self, id: SessionId) -> MutexGuard<'_, Shard<T>> {
        lock(&self.shards[id.shard(SHARDS)])
    }
}

/// A panic elsewhere leaves the table whole: every change to it is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> Identity {
        Identity::new("https://idp", "alice")
    }

    #[tokio::test(start_paused = true)]
    async fn use_keeps_a_session_and_idleness_ends_it() {
        let sessions = Sessions::new(10, Duration::from_secs(10));
        let (id, _) = sessions.open(alice(), 1).unwrap();
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(9)).await;
            assert!(sessions.get(id, &alice()).is_some());
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(sessions.get(id, &alice()).is_none());
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions.sweep().len(), 1);
        assert!(sessions.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_in_use_does_not_expire() {
        let sessions = Sessions::new(10, Duration::from_secs(10)).in_use_while(|busy| *busy);
        let (busy, _) = sessions.open(alice(), true).unwrap();
        let (idle, _) = sessions.open(alice(), false).unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(sessions.get(busy, &alice()).is_some());
        assert!(sessions.get(idle, &alice()).is_none());
        assert_eq!(sessions.sweep().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn somebody_else_can_neither_use_nor_end_a_session() {
        let sessions = Sessions::new(10, Duration::from_secs(10));
        let (id, _) = sessions.open(alice(), 1).unwrap();
        let mallory = Identity::new("https://idp", "mallory");
        assert!(sessions.get(id, &mallory).is_none());
        assert!(sessions.close(id, &mallory).is_none());
        assert!(sessions.get(id, &alice()).is_some());
        assert!(sessions.close(id, &alice()).is_some());
        assert!(sessions.get(id, &alice()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_cap_counts_live_sessions_only() {
        let sessions = Sessions::new(2, Duration::from_secs(10));
        sessions.open(alice(), 1).unwrap();
        tokio::time::advance(Duration::from_secs(6)).await;
        let (second, _) = sessions.open(alice(), 2).unwrap();
        assert_eq!(sessions.open(alice(), 3).unwrap_err(), Full { cap: 2 });
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(sessions.sweep().len(), 1);
        sessions.open(alice(), 3).unwrap();
        assert!(sessions.get(second, &alice()).is_some());
        assert_eq!(sessions.len(), 2);
    }
}
