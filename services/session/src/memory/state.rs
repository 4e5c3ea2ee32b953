//! State of the storage, and each replica's knowledge of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::lock;

use crate::{SessionEvent, SessionEvents, SessionKey, SessionRecord, StorageError, Tombstones};

/// Maximum number of tombstones, in the storage and in each replica.
const MAX_TOMBSTONES: usize = 100_000;

/// Time for which records outlive the sessions of replicas.
const GRACE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct State {
    pub(super) records: HashMap<SessionKey, Entry>,
    pub(super) tombstones: Tombstones,
    /// Time of the next removal of expired tombstones, in seconds since 1970.
    pub(super) sweep_at: u64,
    pub(super) replicas: Vec<Weak<Replica>>,
    pub(super) next_number: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: SessionRecord,
    pub(super) is_lost: bool,
    pub(super) holder: Option<usize>,
    /// Last use by replica.
    pub(super) uses: HashMap<usize, Instant>,
    pub(super) expires_at: Instant,
}

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) number: usize,
    pub(super) events: SessionEvents,
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
    pub(super) missed: Vec<Message>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Ended(SessionKey),
    Other(SessionEvent),
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
            missed: Vec::new(),
        };
        let number = self.next_number;
        self.next_number += 1;
        let (events, local) = (SessionEvents::default(), Mutex::new(local));
        let replica = Arc::new(Replica { number, events, local });
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
        is_lost: bool,
    ) -> &mut Entry {
        let now = Instant::now();
        let entry = self.records.entry(*session).or_insert_with(|| Entry {
            record: SessionRecord::default(),
            is_lost,
            holder: None,
            uses: HashMap::new(),
            expires_at: now,
        });
        entry.uses.insert(replica.number, now);
        entry.expires_at = now + ttl + GRACE;
        entry
    }

    /// Sends a message to one replica, or to all.
    pub(super) fn send(&self, message: Message, to: Option<usize>, now: u64) {
        let all = self.replicas.iter().filter_map(Weak::upgrade);
        for replica in all.filter(|replica| to.is_none_or(|to| to == replica.number)) {
            let mut local = lock(&replica.local);
            if local.hears() {
                drop(local);
                replica.receive(message, now);
            } else {
                local.missed.push(message);
            }
        }
    }

    pub(super) fn others(&self, number: usize) -> impl Iterator<Item = Arc<Replica>> {
        let all = self.replicas.iter().filter_map(Weak::upgrade);
        all.filter(move |replica| replica.number != number)
    }
}

// === impl Replica ===

impl Replica {
    pub(super) fn receive(&self, message: Message, now: u64) {
        let mut local = lock(&self.local);
        let event = match message {
            Message::Ended(session) => local.tombstones.add(&session, now),
            Message::Other(SessionEvent::AllEnded { owner, until }) => local
                .tombstones
                .end_all(owner, until)
                .then_some(SessionEvent::AllEnded { owner, until }),
            Message::Other(event) => Some(event),
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
