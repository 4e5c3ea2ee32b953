//! Knowledge of this replica: tombstones, streams of clients, other replicas, and the time of the last message.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::lock;
use vmcp_session::{
    Liveness, OwnerDigest, SessionEvent, SessionEvents, SessionKey, TOMBSTONE_LIFETIME_MILLIS,
    Tombstones,
};

use crate::held_streams::HeldStreams;
use crate::message::{MAX_HANDLE_LENGTH, Message, Tombstone};

/// Maximum number of known tombstones. An older one is still found in Redis when a session is restored, and the session has ended
/// here when its tombstone arrived.
const MAX_TOMBSTONES: usize = 100_000;

/// Maximum number of own tombstones that are written again.
const MAX_OWN_TOMBSTONES: usize = 10_000;

/// Maximum number of other replicas.
const MAX_REPLICAS: usize = 1024;

/// Time for which an announced handle counts.
const HANDLE_LIFETIME: Duration = Duration::from_secs(2);

/// State of this replica.
#[derive(Debug)]
pub(crate) struct Replica {
    /// Random name of this process.
    pub(crate) name: String,
    pub(crate) events: SessionEvents,
    pub(crate) streams: HeldStreams,
    inner: Mutex<Inner>,
    began_at: Instant,
    /// Milliseconds from `began_at` to the last message before which none is missing. The listener alone writes it.
    heard_at: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    tombstones: Tombstones,
    own: VecDeque<Tombstone>,
    handle: Option<Box<str>>,
    others: HashMap<Box<str>, (Box<str>, Instant)>,
    /// Highest score of a known tombstone.
    last_score: u64,
}

impl Replica {
    pub(crate) fn new(name: String) -> Self {
        let inner = Inner {
            tombstones: Tombstones::new(MAX_TOMBSTONES),
            own: VecDeque::new(),
            handle: None,
            others: HashMap::new(),
            last_score: 0,
        };
        Self {
            name,
            events: SessionEvents::default(),
            streams: HeldStreams::default(),
            inner: Mutex::new(inner),
            began_at: Instant::now(),
            heard_at: AtomicU64::new(0),
        }
    }

    /// Takes note of a message at a time, in milliseconds since 1970.
    pub(crate) fn receive(&self, message: Message, now: u64) {
        match message {
            Message::Beat { replica, handle } if *replica != *self.name => {
                lock(&self.inner).meet(replica, handle);
            }
            Message::Ended { score, tombstone } => self.bury(&tombstone, score, now),
            Message::Changed { holder, id } if *holder == *self.name => {
                self.events.add(SessionEvent::Changed(id));
            }
            Message::Moved { former, number, id } if *former == *self.name => {
                if self.streams.is_lost(id, number) {
                    self.events.add(SessionEvent::StreamMoved(id));
                }
            }
            Message::Level { by, id } if *by != *self.name => {
                self.events.add(SessionEvent::LevelChanged(id));
            }
            Message::Lost { entering, id } if *entering != *self.name => {
                self.events.add(SessionEvent::RecordLost(id));
            }
            Message::Beat { .. }
            | Message::Changed { .. }
            | Message::Moved { .. }
            | Message::Level { .. }
            | Message::Lost { .. } => {}
        }
    }

    /// Takes note that no message before now is missing.
    pub(crate) fn hear(&self) {
        let elapsed = self.began_at.elapsed().as_millis();
        self.heard_at.store(u64::try_from(elapsed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn liveness(&self) -> Liveness {
        Liveness::after(self.silence())
    }

    pub(crate) fn silence(&self) -> Duration {
        let heard_at = Duration::from_millis(self.heard_at.load(Ordering::Relaxed));
        self.began_at.elapsed().saturating_sub(heard_at)
    }

    /// Adds a tombstone that this replica wrote. It is written again after a failover.
    pub(crate) fn bury_own(&self, tombstone: Tombstone, now: u64) {
        self.bury(&tombstone, 0, now);
        let mut inner = lock(&self.inner);
        if inner.own.len() >= MAX_OWN_TOMBSTONES {
            inner.own.pop_front();
        }
        inner.own.push_back(tombstone);
    }

    /// Adds a tombstone that has this score.
    pub(crate) fn bury(&self, tombstone: &Tombstone, score: u64, now: u64) {
        let mut inner = lock(&self.inner);
        inner.last_score = inner.last_score.max(score);
        let event = match *tombstone {
            Tombstone::Session(session) => {
                self.streams.remove(session.id);
                inner.tombstones.add(&session, now)
            }
            Tombstone::AllOfOwner { owner, until } => {
                let is_new = inner.tombstones.end_all(owner, until);
                is_new.then_some(SessionEvent::AllEnded { owner, until })
            }
        };
        drop(inner);
        if let Some(event) = event {
            self.events.add(event);
        }
    }

    pub(crate) fn has_ended(&self, session: &SessionKey) -> bool {
        lock(&self.inner).tombstones.contains(session)
    }

    pub(crate) fn all_ended_until(&self, owner: &OwnerDigest) -> Option<u64> {
        lock(&self.inner).tombstones.all_ended_until(owner)
    }

    pub(crate) fn ended(&self) -> usize {
        lock(&self.inner).tombstones.len()
    }

    pub(crate) fn own_tombstones(&self) -> Vec<Tombstone> {
        lock(&self.inner).own.iter().copied().collect()
    }

    pub(crate) fn last_score(&self) -> u64 {
        lock(&self.inner).last_score
    }

    pub(crate) fn set_last_score(&self, score: u64) {
        let mut inner = lock(&self.inner);
        inner.last_score = inner.last_score.max(score);
    }

    pub(crate) fn announce(&self, handle: &str) {
        if handle.len() > MAX_HANDLE_LENGTH {
            tracing::error!(
                length = handle.len(),
                "handle of this replica too long; not announced"
            );
            return;
        }
        lock(&self.inner).handle = Some(handle.into());
    }

    pub(crate) fn handle(&self) -> Option<Box<str>> {
        lock(&self.inner).handle.clone()
    }

    /// Returns the handles of the other replicas.
    pub(crate) fn others(&self) -> Vec<Box<str>> {
        let inner = lock(&self.inner);
        let current = inner.others.values().filter(|(_, at)| at.elapsed() < HANDLE_LIFETIME);
        current.map(|(handle, _)| handle.clone()).collect()
    }

    /// Removes what is of no use any more.
    pub(crate) fn sweep(&self, now: u64) {
        let mut inner = lock(&self.inner);
        inner.tombstones.remove_expired(now);
        inner.own.retain(|tombstone| tombstone.time() + TOMBSTONE_LIFETIME_MILLIS >= now);
        inner.others.retain(|_, (_, at)| at.elapsed() < HANDLE_LIFETIME);
    }
}

impl Inner {
    fn meet(&mut self, replica: Box<str>, handle: Option<Box<str>>) {
        let Some(handle) = handle else { return };
        if self.others.len() >= MAX_REPLICAS && !self.others.contains_key(&replica) {
            self.others.retain(|_, (_, at)| at.elapsed() < HANDLE_LIFETIME);
        }
        if self.others.len() < MAX_REPLICAS || self.others.contains_key(&replica) {
            self.others.insert(replica, (handle, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use vmcp_core::Identity;
    use vmcp_session::SessionId;

    use super::*;

    fn session(subject: &str) -> SessionKey {
        let owner = OwnerDigest::of(&Identity::new("https://idp", subject));
        SessionKey { owner, id: SessionId::random().unwrap(), issued_at: 1000 }
    }

    fn beat(replica: &str) -> Message {
        Message::Beat { replica: replica.into(), handle: Some(format!("at {replica}").into()) }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_last_message() {
        let replica = Replica::new("one".to_owned());
        for _ in 0..2 {
            tokio::time::advance(Liveness::SILENT_AFTER).await;
            assert_eq!(replica.liveness(), Liveness::Silent);
            tokio::time::advance(Duration::from_secs(59)).await;
            assert_eq!(replica.liveness(), Liveness::Silent);
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(replica.liveness(), Liveness::Lost);
            replica.hear();
            assert_eq!(replica.liveness(), Liveness::Current);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn handles_of_silent_replicas_expire() {
        let replica = Replica::new("one".to_owned());
        for other in ["one", "two", "three"] {
            replica.receive(beat(other), 1000);
        }
        tokio::time::advance(HANDLE_LIFETIME / 2).await;
        replica.receive(beat("three"), 1000);
        replica.receive(Message::Beat { replica: "four".into(), handle: None }, 1000);
        assert_eq!(replica.others().len(), 2);
        tokio::time::advance(HANDLE_LIFETIME / 2).await;
        assert_eq!(replica.others(), [Box::<str>::from("at three")]);
        for number in 0..2 * MAX_REPLICAS {
            replica.receive(beat(&format!("other {number}")), 1000);
        }
        replica.receive(beat("three"), 1000);
        assert_eq!(replica.others().len(), MAX_REPLICAS);
        assert!(replica.others().contains(&Box::from("at three")));
        tokio::time::advance(HANDLE_LIFETIME).await;
        replica.sweep(1000);
        assert_eq!(lock(&replica.inner).others.len(), 0);
    }

    #[tokio::test]
    async fn own_tombstones_are_limited() {
        let replica = Replica::new("one".to_owned());
        for number in 0..=MAX_OWN_TOMBSTONES {
            replica.bury_own(Tombstone::Session(session(&number.to_string())), 1000);
        }
        replica.bury(&Tombstone::Session(session("other")), 5, 1000);
        assert_eq!(replica.own_tombstones().len(), MAX_OWN_TOMBSTONES);
        assert_eq!((replica.ended(), replica.last_score()), (MAX_OWN_TOMBSTONES + 2, 5));
        replica.sweep(1000 + TOMBSTONE_LIFETIME_MILLIS);
        assert_eq!(replica.own_tombstones().len(), MAX_OWN_TOMBSTONES);
        replica.sweep(1001 + TOMBSTONE_LIFETIME_MILLIS);
        assert_eq!((replica.own_tombstones().len(), replica.ended()), (0, 0));
        replica.announce(&"x".repeat(MAX_HANDLE_LENGTH + 1));
        assert_eq!(replica.handle(), None);
    }
}
