//! Session of a client in a storage that replicas share.

pub(super) mod backend_entry;
pub(super) mod backend_sessions;
mod follow;
mod merge;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use vmcp_core::lock;
use vmcp_session::{RestoredRecord, SessionKey, SessionStorage, StorageError};

use self::backend_sessions::entry_of;

/// Time in which the other replicas enter what they have into a lost record: a message and a step.
const MERGE_TIME: Duration = Duration::from_millis(250);

/// Time for which a record counts as just read. Its entries are replaced by compare-and-set, so an older one would do no harm.
const FRESHNESS: Duration = Duration::from_secs(1);

/// Record of one session, with what this replica knows of it.
#[derive(Debug)]
pub(crate) struct SharedSession {
    pub(crate) storage: Arc<dyn SessionStorage>,
    pub(crate) key: SessionKey,
    /// Log level of the record as it was last read or written, as JSON.
    level: Mutex<Option<Box<[u8]>>>,
    /// Record that the restore has read, with the time, until it is outdated.
    just_read: Mutex<Option<(Instant, Arc<RestoredRecord>)>>,
    /// Number of reasons to doubt that the record has what this replica has, since they were last the same; 0 if none. SeqCst: a
    /// reason that comes while the replica enters what it has must survive.
    doubts: AtomicU32,
    /// `true` if the other replicas had time to enter what they have into a lost record. Relaxed: it guards no other memory.
    has_waited: AtomicBool,
    /// `true` while this replica has the client's notification stream, as far as it knows. Release and Acquire: set before the
    /// storage hears of it, so that a message about the next holder resets it.
    holds_stream: AtomicBool,
}

impl SharedSession {
    /// Creates the state of a session that began here.
    pub(crate) fn new(storage: Arc<dyn SessionStorage>, key: SessionKey) -> Self {
        Self {
            storage,
            key,
            level: Mutex::default(),
            just_read: Mutex::default(),
            doubts: AtomicU32::new(0),
            has_waited: AtomicBool::new(false),
            holds_stream: AtomicBool::new(false),
        }
    }

    /// Creates the state of a session whose record was just read.
    pub(crate) fn restored(
        storage: Arc<dyn SessionStorage>,
        key: SessionKey,
        record: RestoredRecord,
    ) -> Self {
        let shared = Self::new(storage, key);
        shared.set_level(record.record.level.as_deref());
        *lock(&shared.just_read) = Some((Instant::now(), Arc::new(record)));
        shared
    }

    /// Returns the record: the one that was just read, or a new reading.
    pub(crate) async fn record(&self) -> Result<Arc<RestoredRecord>, StorageError> {
        let just_read = lock(&self.just_read).clone();
        match just_read.filter(|(read_at, _)| read_at.elapsed() < FRESHNESS) {
            Some((_, record)) => Ok(record),
            None => self.read().await,
        }
    }

    /// Reads the record.
    pub(crate) async fn read(&self) -> Result<Arc<RestoredRecord>, StorageError> {
        lock(&self.just_read).take();
        let record = self.storage.restore(&self.key).await?;
        self.follow_level(&record);
        Ok(Arc::new(record))
    }

    /// Returns the record for the first use of a backend. If it was lost and has no session with the backend, the other replicas get
    /// time to enter theirs.
    pub(crate) async fn record_with(
        &self,
        backend: &str,
    ) -> Result<Arc<RestoredRecord>, StorageError> {
        let restored = self.record().await?;
        let is_complete = !restored.is_lost || entry_of(&restored.record, backend).is_some();
        if is_complete || self.has_waited.load(Ordering::Relaxed) {
            return Ok(restored);
        }
        sleep(MERGE_TIME).await;
        self.has_waited.store(true, Ordering::Relaxed);
        self.read().await
    }

    /// Forgets the record that was just read, because it is about to change.
    pub(crate) fn outdate(&self) {
        lock(&self.just_read).take();
    }

    /// Forgets a record that was not just read any more: it may be large, and few sessions open another backend session later.
    pub(crate) fn prune(&self) {
        let mut just_read = lock(&self.just_read);
        if just_read.as_ref().is_some_and(|(read_at, _)| read_at.elapsed() >= FRESHNESS) {
            *just_read = None;
        }
    }

    /// Returns the log level, as JSON.
    pub(crate) fn level(&self) -> Option<Box<[u8]>> {
        lock(&self.level).clone()
    }

    /// Uses the log level of a record. A client never takes its level back, so a record without one has lost it.
    fn follow_level(&self, restored: &RestoredRecord) {
        if let Some(level) = restored.record.level.as_deref() {
            self.set_level(Some(level));
        }
    }

    fn set_level(&self, level: Option<&str>) {
        *lock(&self.level) = level.map(|level| level.as_bytes().into());
    }

    /// Stores the log level, JSON.
    pub(crate) async fn store_level(&self, level: &str) -> Result<(), StorageError> {
        self.outdate();
        self.storage.set_level(&self.key, level).await?;
        self.set_level(Some(level));
        Ok(())
    }

    /// Returns `true` if this replica has the client's notification stream.
    pub(crate) fn holds_stream(&self) -> bool {
        self.holds_stream.load(Ordering::Acquire)
    }

    /// Records whether this replica has the client's notification stream. Returns the former state.
    pub(crate) fn set_holds_stream(&self, holds: bool) -> bool {
        self.holds_stream.swap(holds, Ordering::AcqRel)
    }
}
