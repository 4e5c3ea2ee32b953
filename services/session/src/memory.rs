//! Storage in the process, for tests of several replicas.

mod record;
mod state;

use std::mem::take;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::BoxStream;
use tokio::time::Instant;
use vmcp_core::{Clock, lock};

use self::record::{enter, size};
use self::state::{End, Entry, Local, Missing, Replica, State};
use crate::{
    BackendEntry, EntryTag, Liveness, MAX_RECORD_BYTES, MAX_SUBSCRIPTIONS, OwnerDigest,
    Replacement, RestoredRecord, SessionEvent, SessionKey, SessionRecord, SessionStorage,
    StorageError, StorageFuture, unix_millis,
};

/// Interval between removals of expired tombstones, each of which visits all.
const SWEEP_INTERVAL_MILLIS: u64 = 60_000;

/// Storage in the process, for tests. [`replica`](Self::replica) returns what another replica has of the same storage.
#[derive(Clone, Debug)]
pub struct MemorySessionStorage {
    shared: Arc<Mutex<State>>,
    replica: Arc<Replica>,
    clock: Clock,
    ttl: Duration,
}

impl MemorySessionStorage {
    /// Creates an empty storage whose records have a sliding time to live: that of sessions in the replicas, and a minute.
    #[must_use]
    pub fn new(ttl: Duration, clock: Clock) -> Self {
        let shared = Arc::new(Mutex::new(State::new()));
        let replica = lock(&shared).add_replica();
        Self { shared, replica, clock, ttl }
    }

    /// Returns the same storage as another replica sees it.
    #[must_use]
    pub fn replica(&self) -> Self {
        let replica = lock(&self.shared).add_replica();
        Self { replica, ..self.clone() }
    }

    /// Connects this replica to the storage, or disconnects it: its steps fail, and it gets no messages.
    pub fn set_reachable(&self, is_reachable: bool) {
        self.change(|local| local.is_reachable = is_reachable);
    }

    /// Lets messages reach this replica, or not. Of those that it missed, the ends of sessions and the changes of its streams
    /// follow.
    pub fn set_heard(&self, is_heard: bool) {
        self.change(|local| local.is_heard = is_heard);
    }

    /// Removes all records, as a storage without persistence does when it restarts.
    pub fn lose_records(&self) {
        lock(&self.shared).records.clear();
    }

    /// Returns the number of steps of this replica.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.replica.steps.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Local)) {
        let state = lock(&self.shared);
        let mut local = lock(&self.replica.local);
        change(&mut local);
        if !local.hears() {
            local.silent_since.get_or_insert_with(Instant::now);
            return;
        }
        let was_silent = local.silent_since.take().is_some();
        let (ends, events) = (take(&mut local.missed_ends), take(&mut local.missed));
        drop(local);
        if was_silent {
            self.replica.events.add(SessionEvent::MessagesMissed);
        }
        let now = unix_millis(&self.clock);
        for end in ends {
            self.replica.bury(end, now);
        }
        for event in events {
            self.replica.events.add(event);
        }
        drop(state);
    }

    /// Takes one step under the lock. The future is ready at once.
    fn step<'a, T: Send + 'a>(
        &'a self,
        step: impl FnOnce(&mut State) -> Result<T, StorageError> + Send + 'a,
    ) -> StorageFuture<'a, T> {
        async move {
            self.replica.steps.fetch_add(1, Ordering::Relaxed);
            let mut state = lock(&self.shared);
            if !lock(&self.replica.local).is_reachable {
                return Err(StorageError::Unavailable);
            }
            let now = Instant::now();
            state.records.retain(|_, entry| entry.expires_at > now);
            step(&mut state)
        }
        .boxed()
    }

    /// Takes a step on the record of a session that has not ended, which it creates and uses.
    fn on_record<'a, T: Send + 'a>(
        &'a self,
        session: &'a SessionKey,
        step: impl FnOnce(&mut Entry) -> Result<T, StorageError> + Send + 'a,
    ) -> StorageFuture<'a, T> {
        self.step(move |state| {
            state.check(session)?;
            step(state.used_record(session, &self.replica, self.ttl, Missing::Lost))
        })
    }

    /// Changes the record of a session, unless it would become too large, and tells the holder of the client's stream.
    fn change_record<'a, T: Send + 'a>(
        &'a self,
        session: &'a SessionKey,
        change: impl FnOnce(&mut SessionRecord) -> Result<T, StorageError> + Send + 'a,
    ) -> StorageFuture<'a, T> {
        self.step(move |state| {
            state.check(session)?;
            let entry = state.used_record(session, &self.replica, self.ttl, Missing::Lost);
            let mut record = entry.record.clone();
            let result = change(&mut record)?;
            if size(&record) > MAX_RECORD_BYTES.max(size(&entry.record)) {
                return Err(StorageError::RecordFull);
            }
            let is_changed = record != entry.record;
            entry.record = record;
            let holder = entry.holder.filter(|_| is_changed);
            self.tell_holder(state, session, holder);
            Ok(result)
        })
    }

    /// Tells the replica that has the client's stream, unless it is this one.
    fn tell_holder(&self, state: &State, session: &SessionKey, holder: Option<usize>) {
        let holder = holder.filter(|holder| *holder != self.replica.number);
        state.send(SessionEvent::Changed(session.id), |number| Some(number) == holder);
    }

    fn tell_level(&self, state: &State, session: &SessionKey) {
        let own = self.replica.number;
        state.send(SessionEvent::LevelChanged(session.id), |number| number != own);
    }
}

impl SessionStorage for MemorySessionStorage {
    fn create<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()> {
        self.step(move |state| {
            if let Some(until) = state.tombstones.all_ended_until(&session.owner) {
                let end = End::AllOfOwner { owner: session.owner, until };
                self.replica.bury(end, unix_millis(&self.clock));
            }
            state.check(session)?;
            state.used_record(session, &self.replica, self.ttl, Missing::New);
            Ok(())
        })
    }

    fn restore<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, RestoredRecord> {
        self.on_record(session, |entry| {
            Ok(RestoredRecord { record: entry.record.clone(), is_lost: entry.is_lost })
        })
    }

    fn replace_backend_session<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        expected: Option<EntryTag>,
        value: Option<Vec<u8>>,
    ) -> StorageFuture<'a, Replacement> {
        self.change_record(session, move |record| {
            let entries = &mut record.backend_sessions;
            let place = entries.binary_search_by(|(name, _)| (**name).cmp(backend));
            let present = place.ok().map(|index| entries[index].1.clone());
            if present.is_none() && value.is_none() {
                return Ok(Replacement::Stored(None));
            }
            if present.as_ref().map(|entry| entry.tag) != expected {
                return Ok(Replacement::Conflict(present));
            }
            let Some(value) = value else {
                entries.retain(|(name, _)| **name != *backend);
                return Ok(Replacement::Stored(None));
            };
            let tag = EntryTag::random().ok_or(StorageError::Unavailable)?;
            let entry = BackendEntry { tag, value };
            match place {
                Ok(index) => entries[index].1 = entry,
                Err(index) => entries.insert(index, (backend.into(), entry)),
            }
            Ok(Replacement::Stored(Some(tag)))
        })
    }

    fn merge<'a>(
        &'a self,
        session: &'a SessionKey,
        own: &'a SessionRecord,
        holds_stream: bool,
    ) -> StorageFuture<'a, RestoredRecord> {
        self.step(move |state| {
            state.check(session)?;
            let number = self.replica.number;
            let before = state.records.get(session).map(|entry| entry.record.clone());
            let entry = state.used_record(session, &self.replica, self.ttl, Missing::Merged);
            let is_first = entry.is_lost && entry.merged.insert(number);
            enter(&mut entry.record, own, is_first);
            let is_level_new = before.as_ref().and_then(|record| record.level.as_ref())
                != entry.record.level.as_ref();
            let is_changed = before.unwrap_or_default() != entry.record;
            if holds_stream {
                entry.holder.get_or_insert(number);
            }
            let (holder, is_lost) = (entry.holder, entry.is_lost);
            let record = entry.record.clone();
            if holds_stream && holder != Some(number) {
                state.send(SessionEvent::StreamMoved(session.id), |to| to == number);
            }
            self.tell_holder(state, session, holder.filter(|_| is_changed));
            if is_level_new {
                self.tell_level(state, session);
            }
            Ok(RestoredRecord { record, is_lost })
        })
    }

    fn set_level<'a>(&'a self, session: &'a SessionKey, level: &'a str) -> StorageFuture<'a, ()> {
        self.step(move |state| {
            state.check(session)?;
            let entry = state.used_record(session, &self.replica, self.ttl, Missing::Lost);
            let record = SessionRecord { level: Some(level.into()), ..entry.record.clone() };
            if size(&record) > MAX_RECORD_BYTES.max(size(&entry.record)) {
                return Err(StorageError::RecordFull);
            }
            entry.record = record;
            self.tell_level(state, session);
            Ok(())
        })
    }

    fn subscribe<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        uri: &'a str,
        wanted: bool,
    ) -> StorageFuture<'a, ()> {
        self.change_record(session, move |record| {
            let subscriptions = &mut record.subscriptions;
            let place = subscriptions.binary_search_by(|(name, known)| {
                (**name).cmp(backend).then_with(|| (**known).cmp(uri))
            });
            match (place, wanted) {
                (Ok(_), true) | (Err(_), false) => {}
                (Ok(index), false) => drop(subscriptions.remove(index)),
                (Err(index), true) => {
                    let of_backend = subscriptions.iter().filter(|(name, _)| **name == *backend);
                    if of_backend.count() >= MAX_SUBSCRIPTIONS {
                        return Err(StorageError::TooManySubscriptions);
                    }
                    subscriptions.insert(index, (backend.into(), uri.into()));
                }
            }
            Ok(())
        })
    }

    fn hold_stream<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, RestoredRecord> {
        self.step(move |state| {
            state.check(session)?;
            let entry = state.used_record(session, &self.replica, self.ttl, Missing::Lost);
            let former = entry.holder.replace(self.replica.number);
            let restored = RestoredRecord { record: entry.record.clone(), is_lost: entry.is_lost };
            let former = former.filter(|former| *former != self.replica.number);
            state.send(SessionEvent::StreamMoved(session.id), |number| Some(number) == former);
            Ok(restored)
        })
    }

    fn end<'a>(
        &'a self,
        session: &'a SessionKey,
    ) -> StorageFuture<'a, Vec<(Box<str>, BackendEntry)>> {
        self.step(move |state| {
            let now = unix_millis(&self.clock);
            let entry = state.records.remove(session);
            if now >= state.sweep_at {
                state.tombstones.remove_expired(now);
                state.sweep_at = now + SWEEP_INTERVAL_MILLIS;
            }
            let message = match state.tombstones.add(session, now) {
                Some(SessionEvent::AllEnded { owner, until }) => {
                    Some(End::AllOfOwner { owner, until })
                }
                ended => ended.map(|_| End::One(*session)),
            };
            if let Some(message) = message {
                if entry.is_none() {
                    state.send(SessionEvent::RecordLost(session.id), |_| true);
                }
                self.replica.bury(message, now);
                state.send_end(message, now);
            }
            Ok(entry.map(|entry| entry.record.backend_sessions).unwrap_or_default())
        })
    }

    fn leave<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, Option<SessionRecord>> {
        self.step(move |state| {
            state.check(session)?;
            let Some(entry) = state.records.get_mut(session) else { return Ok(None) };
            entry.uses.remove(&self.replica.number);
            entry.holder = entry.holder.filter(|holder| *holder != self.replica.number);
            let now = Instant::now();
            let window = self.ttl + self.ttl / 4;
            if entry.uses.values().any(|used_at| now.duration_since(*used_at) < window) {
                return Ok(None);
            }
            Ok(state.records.remove(session).map(|entry| entry.record))
        })
    }

    fn touch<'a>(&'a self, sessions: &'a [SessionKey]) -> StorageFuture<'a, ()> {
        self.step(move |state| {
            for session in sessions {
                if state.records.contains_key(session) {
                    state.used_record(session, &self.replica, self.ttl, Missing::Lost);
                } else {
                    state.send(SessionEvent::RecordLost(session.id), |_| true);
                }
            }
            Ok(())
        })
    }

    fn check<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()> {
        self.step(move |state| state.check(session))
    }

    fn has_ended(&self, session: &SessionKey) -> bool {
        lock(&self.replica.local).tombstones.contains(session)
    }

    fn all_ended_until(&self, owner: &OwnerDigest) -> Option<u64> {
        lock(&self.replica.local).tombstones.all_ended_until(owner)
    }

    fn liveness(&self) -> Liveness {
        let since = lock(&self.replica.local).silent_since;
        since.map_or(Liveness::Current, |since| Liveness::after(since.elapsed()))
    }

    fn events(&self) -> BoxStream<'static, SessionEvent> {
        self.replica.events.subscribe()
    }

    fn ended(&self) -> usize {
        lock(&self.replica.local).tombstones.len()
    }

    fn announce(&self, replica: &str) {
        lock(&self.replica.local).handle = Some(replica.into());
    }

    fn replicas(&self) -> Vec<Box<str>> {
        let state = lock(&self.shared);
        if !lock(&self.replica.local).hears() {
            return Vec::new();
        }
        let others = state.others(self.replica.number);
        let handles = others.filter_map(|replica| {
            let local = lock(&replica.local);
            local.handle.clone().filter(|_| local.is_reachable)
        });
        handles.collect()
    }
}

#[cfg(test)]
mod tests;
