//! State of the storage, and each replica's knowledge of it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::lock;

use crate::{
    OwnerDigest, SessionEvent, SessionEvents, SessionKey, SessionRecord, StorageError, Tombstones,
};

/// Maximum number of tombstones, in the storage and in each replica.
const MAX_TOMBSTONES: usize = 100_000;

/// Time for which records outlive the sessions of replicas.
const GRACE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct State {
    pub(super) records: HashMap<SessionKey, Entry>,
    pub(super) tombstones: Tombstones,
    /// Time of the next removal of expired tombstones, in milliseconds since 1970.
    pub(super) sweep_at: u64,
    pub(super) replicas: Vec<Weak<Replica>>,
    pub(super) next_number: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: SessionRecord,
    pub(super) is_lost: bool,
    /// Replicas that have entered their subscriptions since the record was lost.
    pub(super) merged: HashSet<usize>,
    pub(super) holder: Option<usize>,
    /// Last use by replica.
    pub(super) uses: HashMap<usize, Instant>,
    pub(super) expires_at: Instant,
}

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) number: usize,
    pub(super) events: SessionEvents,
    /// Number of steps. Relaxed: it guards no other memory.
    pub(super) steps: AtomicUsize,
    pub(super) local: Mutex<Local>,
}

/// Knowledge of a replica. Lock order: after the storage's state.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) tombstones: Tombstones,
    pub(super) handle: Option<Box<str>>,
    pub(super) is_reachable: bool,
    pub(super) is_heard: bool,
    /// Time of the last message, while messages are missing.
    pub(super) silent_since: Option<Instant>,
    pub(super) missed_ends: Vec<End>,
    pub(super) missed: Vec<SessionEvent>,
}

/// Meaning of a missing record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The session is new.
    New,
    /// The record was lost, which all replicas learn.
    Lost,
    /// The record was lost, which the other replicas learn: this one is entering what it has.
    Merged,
}

/// End of sessions.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    One(SessionKey),
    AllOfOwner { owner: OwnerDigest, until: u64 },
}

// === impl State ===

impl State {
    pub(super) fn new() -> Self {
        Self {
            records: HashMap::new(),
            tombstones: Tombstones::new(MAX_TOMBSTONES),
            sweep_at: 0,
            replicas: Vec::new(),
            next_number: 0,
        }
    }

    pub(super) fn add_replica(&mut self) -> Arc<Replica> {
        let local = Local {
            tombstones: Tombstones::new(MAX_TOMBSTONES),
            handle: None,
            is_reachable: true,
            is_heard: true,
            silent_since: None,
            missed_ends: Vec::new(),
            missed: Vec::new(),
        };
        let number = self.next_number;
        self.next_number += 1;
        let (events, local) = (SessionEvents::default(), Mutex::new(local));
        let replica = Arc::new(Replica { number, events, steps: AtomicUsize::new(0), local });
        self.replicas.push(Arc::downgrade(&replica));
        replica
    }

    pub(super) fn check(&self, session: &SessionKey) -> Result<(), StorageError> {
        if self.tombstones.contains(session) { Err(StorageError::Ended) } else { Ok(()) }
    }

    /// Returns the record, creates a missing one, and restarts its time to live.
    pub(super) fn used_record(
        &mut self,
        session: &SessionKey,
        replica: &Replica,
        ttl: Duration,
        missing: Missing,
    ) -> &mut Entry {
        if missing != Missing::New && !self.records.contains_key(session) {
            let knows = (missing == Missing::Merged).then_some(replica.number);
            self.send(SessionEvent::RecordLost(session.id), |number| Some(number) != knows);
        }
        let now = Instant::now();
        let entry = self.records.entry(*session).or_insert_with(|| Entry {
            record: SessionRecord::default(),
            is_lost: missing != Missing::New,
            merged: HashSet::new(),
            holder: None,
            uses: HashMap::new(),
            expires_at: now,
        });
        entry.uses.insert(replica.number, now);
        entry.expires_at = now + ttl + GRACE;
        entry
    }

    /// Sends the end of sessions to all replicas. Those that do not hear it get it later.
    pub(super) fn send_end(&self, message: End, now: u64) {
        for replica in self.all() {
            let mut local = lock(&replica.local);
            if local.hears() {
                drop(local);
                replica.bury(message, now);
            } else {
                local.missed_ends.push(message);
            }
        }
    }

    /// Sends a message to some replicas. Those that do not hear it get changes and moves of their streams later.
    pub(super) fn send(&self, event: SessionEvent, to: impl Fn(usize) -> bool) {
        for replica in self.all().filter(|replica| to(replica.number)) {
            let mut local = lock(&replica.local);
            if local.hears() {
                drop(local);
                replica.events.add(event);
            } else if matches!(event, SessionEvent::Changed(_) | SessionEvent::StreamMoved(_)) {
                local.missed.push(event);
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = Arc<Replica>> {
        self.replicas.iter().filter_map(Weak::upgrade)
    }

    pub(super) fn others(&self, number: usize) -> impl Iterator<Item = Arc<Replica>> {
        self.all().filter(move |replica| replica.number != number)
    }
}

// === impl Replica ===

impl Replica {
    pub(super) fn bury(&self, message: End, now: u64) {
        let mut local = lock(&self.local);
        let event = match message {
            End::One(session) => local.tombstones.add(&session, now),
            End::AllOfOwner { owner, until } => local
                .tombstones
                .end_all(owner, until)
                .then_some(SessionEvent::AllEnded { owner, until }),
        };
        drop(local);
        if let Some(event) = event {
            self.events.add(event);
        }
    }
}

// === impl Local ===

impl Local {
    pub(super) fn hears(&self) -> bool {
        self.is_reachable && self.is_heard
    }
}
