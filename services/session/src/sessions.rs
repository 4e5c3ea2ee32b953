//! Session table of one process.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::{Identity, lock};

use crate::SessionId;
use crate::account::Account;

const SHARDS: usize = 16;

/// Minimum of the limit per owner, unless the total limit is lower.
const MIN_SESSIONS_PER_OWNER: usize = 16;

/// Time to live of a session that is never used after it was opened, unless the configured one is
/// shorter.
const UNUSED_TTL: Duration = Duration::from_mins(1);

/// Sessions with a state `T` each. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct Sessions<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
    count: AtomicUsize,
    limit: usize,
    max_per_owner: usize,
    ttl: Duration,
    epoch: Instant,
    in_use: fn(&T) -> bool,
    /// Sessions by account. Lock order: before a shard, never after it.
    accounts: Mutex<HashMap<Account, Vec<SessionId>>>,
}

/// Error of opening a session: the limit is reached, and no session can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {max} sessions are in use: end one")]
pub struct SessionLimitError {
    /// Maximum number of sessions, in total or per owner.
    pub max: usize,
}

/// Session that was just opened.
#[derive(Debug)]
pub struct NewSession<T> {
    /// Session identifier.
    pub id: SessionId,
    /// State of the session.
    pub state: Arc<T>,
    /// Session that was evicted for it.
    pub evicted: Option<RemovedSession<T>>,
}

/// Session that expired or was evicted.
#[derive(Debug, PartialEq, Eq)]
pub struct RemovedSession<T> {
    /// State of the session.
    pub state: Arc<T>,
    /// `true` if the session was used after it was opened.
    pub was_used: bool,
}

type Shard<T> = HashMap<SessionId, Entry<T>, BuildHasherDefault<IdentityHasher>>;

/// Hasher that uses a part of the identifier as the hash: identifiers are random, and clients
/// cannot choose those in the table.
#[derive(Default)]
struct IdentityHasher(u64);

#[derive(Debug)]
struct Entry<T> {
    owner: Identity,
    account: Account,
    /// Milliseconds since the epoch. `Relaxed`: no other data depends on it.
    last_used: AtomicU64,
    /// `true` once the session was used after it was opened. `Relaxed`: no other data depends on
    /// it.
    was_used: AtomicBool,
    state: Arc<T>,
}

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk() {
            self.0 = u64::from_ne_bytes(*last);
        }
    }

    // The length prefix is constant.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<T> Sessions<T> {
    /// Creates a table for at most `limit`, and a tenth of that, but at least 16, per owner. A
    /// session ends `ttl` after its last use. A session that is never used after it was opened ends
    /// after a minute.
    #[must_use]
    pub fn new(limit: usize, ttl: Duration) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            count: AtomicUsize::new(0),
            limit,
            max_per_owner: limit.div_ceil(10).max(MIN_SESSIONS_PER_OWNER).min(limit),
            ttl,
            epoch: Instant::now(),
            in_use: |_| false,
            accounts: Mutex::default(),
        }
    }

    /// Sets the maximum number of sessions of one identity, and of all anonymous callers of one
    /// network.
    #[must_use]
    pub fn with_max_per_owner(mut self, limit: usize) -> Self {
        self.max_per_owner = limit.min(self.limit);
        self
    }

    /// Sets a predicate for sessions that are in use without requests, such as one with an open
    /// stream. They do not expire.
    #[must_use]
    pub fn in_use_while(mut self, in_use: fn(&T) -> bool) -> Self {
        self.in_use = in_use;
        self
    }

    /// Opens a session for `owner`. `address` is that of an anonymous owner; without it, only the
    /// total limit applies.
    ///
    /// At the owner's limit, evicts the owner's session that has been idle for longest. At the
    /// total limit, evicts one of the owner with the most sessions, or else the oldest one of any
    /// owner that was never used.
    ///
    /// # Errors
    /// [`SessionLimitError`] if all sessions that could be evicted are in use, or the system has no
    /// random numbers.
    pub fn open(
        &self,
        owner: Identity,
        address: Option<IpAddr>,
        state: T,
    ) -> Result<NewSession<T>, SessionLimitError> {
        let id = SessionId::random().ok_or(SessionLimitError { max: self.limit })?;
        self.insert(id, owner, address, state)
    }

    /// Opens a session like [`open`](Self::open), with an identifier that is known already. Returns the state of an open
    /// session with this identifier and owner, if there is one, in place of the new one.
    ///
    /// # Errors
    /// [`SessionLimitError`] as for [`open`](Self::open), or if another owner has a session with this identifier.
    pub fn insert(
        &self,
        id: SessionId,
        owner: Identity,
        address: Option<IpAddr>,
        state: T,
    ) -> Result<NewSession<T>, SessionLimitError> {
        let account = Account::new(&owner, address);
        let mut accounts = lock(&self.accounts);
        if let Some(entry) = self.shard(id).get(&id) {
            let state = Arc::clone(&entry.state);
            let is_own = entry.owner == owner;
            let known = NewSession { id, state, evicted: None };
            return is_own.then_some(known).ok_or(SessionLimitError { max: self.limit });
        }
        let own_count = accounts.get(&account).map_or(0, Vec::len);
        let counts = account != Account::Network(None);
        let evicted = if counts && own_count >= self.max_per_owner {
            Some(
                self.evict(&mut accounts, &account)
                    .ok_or(SessionLimitError { max: self.max_per_owner })?,
            )
        } else if self.len() >= self.limit {
            let limit_reached = SessionLimitError { max: self.limit };
            let most = accounts.iter().max_by_key(|(_, ids)| ids.len());
            let most =
                most.filter(|(_, ids)| ids.len() > own_count.max(1)).map(|(most, _)| most.clone());
            let most = most.or_else(|| (own_count > 0).then(|| account.clone()));
            let evicted = most.and_then(|most| self.evict(&mut accounts, &most));
            let unused = || self.remove(&mut accounts, self.oldest_unused()?);
            Some(evicted.or_else(unused).ok_or(limit_reached)?)
        } else {
            None
        };
        accounts.entry(account.clone()).or_default().push(id);
        let state = Arc::new(state);
        let entry = Entry {
            owner,
            account,
            last_used: AtomicU64::new(self.now()),
            was_used: AtomicBool::new(false),
            state: Arc::clone(&state),
        };
        self.shard(id).insert(id, entry);
        self.count.fetch_add(1, Ordering::AcqRel);
        drop(accounts);
        Ok(NewSession { id, state, evicted })
    }

    /// Evicts the session of an account that has been idle for longest.
    fn evict(
        &self,
        accounts: &mut HashMap<Account, Vec<SessionId>>,
        account: &Account,
    ) -> Option<RemovedSession<T>> {
        let ids = accounts.get(account)?.iter().copied();
        let idle = ids.filter_map(|id| {
            let shard = self.shard(id);
            let entry = shard.get(&id).filter(|entry| !(self.in_use)(&entry.state))?;
            let is_used = entry.was_used.load(Ordering::Relaxed);
            Some((is_used, entry.last_used.load(Ordering::Relaxed), id))
        });
        // Evict sessions that were never used first.
        let (_, _, oldest) = idle.min_by_key(|(is_used, last_used, _)| (*is_used, *last_used))?;
        self.remove(accounts, oldest)
    }

    /// Returns the oldest session that was never used after it was opened.
    fn oldest_unused(&self) -> Option<SessionId> {
        let oldest_of = |shard: &Mutex<Shard<T>>| {
            let shard = lock(shard);
            let unused = shard.iter().filter(|(_, entry)| {
                !entry.was_used.load(Ordering::Relaxed) && !(self.in_use)(&entry.state)
            });
            let times = unused.map(|(id, entry)| (entry.last_used.load(Ordering::Relaxed), *id));
            times.min_by_key(|(last_used, _)| *last_used)
        };
        let oldest =
            self.shards.iter().filter_map(oldest_of).min_by_key(|(last_used, _)| *last_used);
        oldest.map(|(_, id)| id)
    }

    /// Removes a session from its shard and its account.
    fn remove(
        &self,
        accounts: &mut HashMap<Account, Vec<SessionId>>,
        id: SessionId,
    ) -> Option<RemovedSession<T>> {
        let entry = self.shard(id).remove(&id)?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        if let Some(ids) = accounts.get_mut(&entry.account) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                accounts.remove(&entry.account);
            }
        }
        let was_used = entry.was_used.load(Ordering::Relaxed);
        Some(RemovedSession { state: entry.state, was_used })
    }

    /// Returns the state of a session of `caller` and restarts its time to live. Returns `None` if
    /// the session does not exist, has expired, or belongs to another identity.
    #[must_use]
    pub fn get(&self, id: SessionId, caller: &Identity) -> Option<Arc<T>> {
        let shard = self.shard(id);
        let entry = shard.get(&id).filter(|entry| entry.owner == *caller)?;
        if self.is_expired(entry) {
            return None;
        }
        entry.last_used.store(self.now(), Ordering::Relaxed);
        entry.was_used.store(true, Ordering::Relaxed);
        Some(Arc::clone(&entry.state))
    }

    /// Closes a session of `caller` and returns its state.
    pub fn close(&self, id: SessionId, caller: &Identity) -> Option<Arc<T>> {
        let mut accounts = lock(&self.accounts);
        self.shard(id).get(&id).filter(|entry| entry.owner == *caller)?;
        self.remove(&mut accounts, id).map(|removed| removed.state)
    }

    /// Removes and returns a session of `caller` that has expired but was not removed yet.
    pub fn remove_expired(&self, id: SessionId, caller: &Identity) -> Option<Arc<T>> {
        let mut accounts = lock(&self.accounts);
        let is_expired = |entry: &&Entry<T>| entry.owner == *caller && self.is_expired(entry);
        self.shard(id).get(&id).filter(is_expired)?;
        self.remove(&mut accounts, id).map(|removed| removed.state)
    }

    /// Returns the state of a session of any owner. Does not restart its time to live.
    #[must_use]
    pub fn find(&self, id: SessionId) -> Option<Arc<T>> {
        self.shard(id).get(&id).map(|entry| Arc::clone(&entry.state))
    }

    /// Closes a session of any owner and returns its state.
    pub fn take(&self, id: SessionId) -> Option<Arc<T>> {
        let mut accounts = lock(&self.accounts);
        self.remove(&mut accounts, id).map(|removed| removed.state)
    }

    /// Returns the states of the sessions that were used at or after a time, or are in use.
    #[must_use]
    pub fn used_since(&self, since: Instant) -> Vec<Arc<T>> {
        let since = millis(since.saturating_duration_since(self.epoch));
        let mut used = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let is_used = |entry: &&Entry<T>| {
                entry.last_used.load(Ordering::Relaxed) >= since || (self.in_use)(&entry.state)
            };
            used.extend(shard.values().filter(is_used).map(|entry| Arc::clone(&entry.state)));
        }
        used
    }

    /// Removes and returns expired sessions. Call it regularly: an expired session is rejected
    /// anyway, but only this frees its memory.
    pub fn sweep(&self) -> Vec<RemovedSession<T>> {
        let mut removed = Vec::new();
        for shard in &self.shards {
            let expired =
                |(id, entry): (&SessionId, &Entry<T>)| self.is_expired(entry).then_some(*id);
            let expired: Vec<_> = lock(shard).iter().filter_map(expired).collect();
            if expired.is_empty() {
                continue;
            }
            let mut accounts = lock(&self.accounts);
            for id in expired {
                // A request may have used it since.
                let is_expired =
                    self.shard(id).get(&id).is_some_and(|entry| self.is_expired(entry));
                removed.extend(is_expired.then(|| self.remove(&mut accounts, id)).flatten());
            }
        }
        removed
    }

    /// Calls `visit` with the state of every session.
    pub fn for_each(&self, mut visit: impl FnMut(&Arc<T>)) {
        for shard in &self.shards {
            // Collected first, so that `visit` runs without a lock.
            let states: Vec<_> =
                lock(shard).values().map(|entry| Arc::clone(&entry.state)).collect();
            states.iter().for_each(&mut visit);
        }
    }

    /// Returns the number of sessions, including expired ones that are not swept yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the time to live of an idle session.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    fn now(&self) -> u64 {
        millis(self.epoch.elapsed())
    }

    fn is_expired(&self, entry: &Entry<T>) -> bool {
        let now = self.now();
        let idle = now.saturating_sub(entry.last_used.load(Ordering::Relaxed));
        let was_used = entry.was_used.load(Ordering::Relaxed);
        let ttl = if was_used { self.ttl } else { self.ttl.min(UNUSED_TTL) };
        if u128::from(idle) < ttl.as_millis() {
            return false;
        }
        let in_use = (self.in_use)(&entry.state);
        if in_use {
            // The time to live starts when the session is no longer in use, up to one sweep later.
            entry.last_used.store(now, Ordering::Relaxed);
        }
        !in_use
    }

    fn shard(&self, id: SessionId) -> MutexGuard<'_, Shard<T>> {
        lock(&self.shards[id.shard(SHARDS)])
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn finds_used_sessions_of_any_owner() {
        let sessions =
            Sessions::new(10, Duration::from_secs(100)).in_use_while(|state| *state == 3);
        let ids = [1, 2, 3].map(|state| open(&sessions, &alice(), state));
        assert_eq!(sessions.find(ids[1]).as_deref(), Some(&2));
        tokio::time::advance(Duration::from_secs(10)).await;
        let since = Instant::now();
        assert!(sessions.get(ids[0], &alice()).is_some());
        let mut used: Vec<u32> = sessions.used_since(since).iter().map(|state| **state).collect();
        used.sort_unstable();
        assert_eq!(used, [1, 3]);
        assert_eq!(sessions.take(ids[0]).as_deref(), Some(&1));
        assert_eq!((sessions.find(ids[0]), sessions.len()), (None, 2));
    }

    fn alice() -> Identity {
        Identity::new("https://idp", "alice")
    }

    #[tokio::test(start_paused = true)]
    async fn use_extends_session_and_idleness_ends_it() {
        let sessions = Sessions::new(10, Duration::from_secs(10));
        let id = open(&sessions, &alice(), 1);
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
    async fn known_id_keeps_its_open_session() {
        let sessions = Sessions::new(10, Duration::from_secs(10));
        let id = open(&sessions, &alice(), 1);
        assert!(sessions.get(id, &alice()).is_some());
        let insert = |owner: &Identity, state| sessions.insert(id, owner.clone(), None, state);
        assert_eq!(*insert(&alice(), 2).unwrap().state, 1);
        assert!(insert(&user("mallory"), 3).is_err());
        assert_eq!(sessions.remove_expired(id, &alice()), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(sessions.remove_expired(id, &user("mallory")), None);
        assert_eq!(sessions.remove_expired(id, &alice()), Some(Arc::new(1)));
        assert_eq!(*insert(&alice(), 2).unwrap().state, 2);
        assert_eq!(sessions.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn session_in_use_does_not_expire() {
        let sessions = Sessions::new(10, Duration::from_secs(10)).in_use_while(|busy| *busy);
        let busy = open(&sessions, &alice(), true);
        let idle = open(&sessions, &alice(), false);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(sessions.get(busy, &alice()).is_some());
        assert!(sessions.get(idle, &alice()).is_none());
        assert_eq!(sessions.sweep().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn other_identity_cannot_use_or_close_session() {
        let sessions = Sessions::new(10, Duration::from_secs(10));
        let id = open(&sessions, &alice(), 1);
        let mallory = Identity::new("https://idp", "mallory");
        assert!(sessions.get(id, &mallory).is_none());
        assert!(sessions.close(id, &mallory).is_none());
        assert!(sessions.get(id, &alice()).is_some());
        assert!(sessions.close(id, &alice()).is_some());
        assert!(sessions.get(id, &alice()).is_none());
    }

    fn open<T>(sessions: &Sessions<T>, owner: &Identity, state: T) -> SessionId {
        sessions.open(owner.clone(), None, state).ok().unwrap().id
    }

    fn user(name: &str) -> Identity {
        Identity::new("https://idp", name)
    }

    #[tokio::test(start_paused = true)]
    async fn unused_session_expires_after_a_minute() {
        let sessions = Sessions::new(10, Duration::from_mins(10));
        let (used, unused) = (open(&sessions, &alice(), 1), open(&sessions, &alice(), 2));
        assert!(sessions.get(used, &alice()).is_some());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(sessions.get(unused, &alice()).is_none());
        assert_eq!(sessions.sweep(), [RemovedSession { state: Arc::new(2), was_used: false }]);
        assert!(sessions.get(used, &alice()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn owner_at_limit_loses_longest_idle_session() {
        let sessions = Sessions::new(10, Duration::from_mins(10)).with_max_per_owner(3);
        let sessions = sessions.in_use_while(|state| *state == 1);
        let first: Vec<_> = (1..=3)
            .map(|state| {
                let id = open(&sessions, &alice(), state);
                assert!(sessions.get(id, &alice()).is_some());
                id
            })
            .collect();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(sessions.get(first[1], &alice()).is_some());
        let opened = sessions.open(alice(), None, 4).unwrap();
        // The first is in use, the second was used later.
        assert_eq!(opened.evicted.map(|evicted| *evicted.state), Some(3));
        // A session that was never used is evicted before any used one.
        let opened = sessions.open(alice(), None, 5).unwrap();
        assert_eq!(opened.evicted.map(|evicted| *evicted.state), Some(4));
        assert_eq!(sessions.len(), 3);
        let all = Sessions::new(2, Duration::from_mins(10)).in_use_while(|()| true);
        let all = all.with_max_per_owner(1);
        open(&all, &alice(), ());
        assert_eq!(all.open(alice(), None, ()).unwrap_err(), SessionLimitError { max: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn full_table_evicts_from_largest_owner() {
        let sessions = Sessions::new(6, Duration::from_mins(10)).with_max_per_owner(4);
        for state in 0..4 {
            open(&sessions, &user("greedy"), state);
        }
        let others = [open(&sessions, &user("a"), 10), open(&sessions, &user("b"), 11)];
        let opened = sessions.open(user("c"), None, 12).unwrap();
        assert_eq!(opened.evicted.map(|evicted| *evicted.state), Some(0));
        assert!(sessions.get(others[0], &user("a")).is_some());
        assert!(sessions.get(others[1], &user("b")).is_some());
        assert_eq!(sessions.len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn full_table_evicts_oldest_unused_session() {
        let sessions = Sessions::new(3, Duration::from_hours(1));
        let mut ids = Vec::new();
        for name in ["used", "first", "second"] {
            ids.push(open(&sessions, &user(name), name));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(sessions.get(ids[0], &user("used")).is_some());
        for (newcomer, evicted) in [("one", "first"), ("two", "second"), ("three", "one")] {
            let opened = sessions.open(user(newcomer), None, newcomer).unwrap();
            assert_eq!(opened.evicted.map(|evicted| *evicted.state), Some(evicted));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(sessions.get(ids[0], &user("used")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn anonymous_callers_share_limit_by_network() {
        let sessions = Sessions::new(10, Duration::from_mins(10)).with_max_per_owner(1);
        let open = |address: &str| {
            let address = Some(address.parse().unwrap());
            sessions.open(Identity::anonymous(), address, 0).unwrap().evicted.is_some()
        };
        assert!(!open("10.0.0.1"));
        assert!(!open("10.0.0.2"));
        assert!(open("::ffff:10.0.0.1"));
        assert!(!open("2001:db8::1"));
        assert!(open("2001:db8::2:3:4"));
        assert!(!open("2001:db8:0:1::1"));
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_are_removed_with_their_sessions() {
        let sessions = Sessions::new(10, Duration::from_secs(10));
        let closed = open(&sessions, &alice(), 1);
        open(&sessions, &user("bob"), 2);
        sessions.close(closed, &alice()).unwrap();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(sessions.sweep().len(), 1);
        assert!(lock(&sessions.accounts).is_empty());
        assert_eq!(sessions.len(), 0);
    }
}
