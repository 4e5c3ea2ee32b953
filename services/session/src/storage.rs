//! Storage of sessions that replicas share.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use vmcp_core::Identity;

use crate::SessionId;

/// Maximum number of tombstones of an owner.
pub const MAX_TOMBSTONES_PER_OWNER: usize = 1000;

/// Maximum number of subscriptions of a session with one backend.
pub const MAX_SUBSCRIPTIONS: usize = 1024;

/// Maximum size of a record: names, URIs and values.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// Future of a storage.
pub type StorageFuture<'a, T> = BoxFuture<'a, Result<T, StorageError>>;

/// Digest of an owner's issuer and subject. All anonymous callers have the same one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerDigest([u8; 32]);

/// Session in a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// Owner of the session.
    pub owner: OwnerDigest,
    /// Random part of its identifier.
    pub id: SessionId,
    /// Time of `initialize`, in milliseconds since 1970.
    pub issued_at: u64,
}

/// State of a session that its sealed identifier does not contain. Lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRecord {
    /// Log level that the client set, as JSON.
    pub level: Option<Box<str>>,
    /// Sessions with stateful backends, by the backend's name.
    pub backend_sessions: Vec<(Box<str>, BackendEntry)>,
    /// Resources that the client subscribed to: the backend's name and the URI.
    pub subscriptions: Vec<(Box<str>, Box<str>)>,
}

/// Session with a backend, as the gateway encodes it.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendEntry {
    /// Random tag of this value.
    pub tag: EntryTag,
    /// Value.
    pub value: Vec<u8>,
}

/// Random tag of a stored value, for compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryTag(pub [u8; 16]);

/// Result of [`SessionStorage::restore`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredRecord {
    /// The record, empty if it was just created.
    pub record: SessionRecord,
    /// `true` if the record is not the one of [`SessionStorage::create`], which expired or was lost. An entry that the record does
    /// not have may have been lost, for whichever replica restores it.
    pub is_lost: bool,
}

/// Result of [`SessionStorage::replace_backend_session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The value was stored under this tag, or removed.
    Stored(Option<EntryTag>),
    /// Another replica was first. This is what it stored.
    Conflict(Option<BackendEntry>),
}

/// Error of a storage. Contains no value of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
    /// The storage did not respond in time, or rejected the command. The step may have been taken.
    #[error("the session storage is unavailable: retry later")]
    Unavailable,
    /// The session has as many subscriptions with a backend as it may.
    #[error("the session has too many subscriptions")]
    TooManySubscriptions,
    /// The record would become larger than [`MAX_RECORD_BYTES`].
    #[error("the session has too much state: end subscriptions, or begin another session")]
    RecordFull,
    /// Another version of the server, or another program, wrote the record.
    #[error("failed to read a stored session: unknown format")]
    UnknownFormat,
}

/// State of the messages between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Every session that another replica ended is known here.
    Current,
    /// Messages may be missing. Ask [`SessionStorage::check`] before each request.
    Silent,
    /// Messages have been missing for more than a minute: sessions cannot be used until the storage is back.
    Lost,
}

/// Message of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEvent {
    /// A session has ended, at another replica or at this one.
    Ended(SessionId),
    /// The owner's sessions that began until a time, in milliseconds since 1970, have ended.
    AllEnded {
        /// Owner of the sessions.
        owner: OwnerDigest,
        /// Latest time of `initialize`.
        until: u64,
    },
    /// Another replica changed the record of a session whose client has its notification stream at this one.
    Changed(SessionId),
    /// Another replica stored the log level of a session.
    LevelChanged(SessionId),
    /// The record of a session is missing, or was created again. Each replica that uses the session enters what it has, by
    /// [`SessionStorage::merge`].
    RecordLost(SessionId),
    /// Messages other than ends may have been missed, or writes may have been lost: each record may have changed.
    MessagesMissed,
    /// Another replica took over the notification stream of a session.
    StreamMoved(SessionId),
}

/// Storage of sessions that replicas share. Each method is one atomic step for any number of replicas.
///
/// A record has a sliding time to live; only [`create`](Self::create), [`restore`](Self::restore), writes,
/// [`hold_stream`](Self::hold_stream) and [`touch`](Self::touch) restart it. A write to a missing record creates it, as `restore`
/// does, and each replica gets [`SessionEvent::RecordLost`]: what a lost record contained, the replicas still have. A session ends
/// by its tombstone, not by the absence of its record. Each method but [`end`](Self::end) and [`touch`](Self::touch) fails with
/// [`StorageError::Ended`] for a session that has ended.
///
/// A tombstone is kept for as long as the session's identifier opens. An owner has at most [`MAX_TOMBSTONES_PER_OWNER`]: one more
/// ends all sessions that the owner began before the last of these, and [`all_ended_until`](Self::all_ended_until) tells when that
/// was: a new session begins later, whatever the clocks of the replicas show. Anonymous callers are many people: of their tombstones the oldest is
/// forgotten instead.
///
/// A dropped future may or may not have taken its step, and so may one that fails with [`StorageError::Unavailable`]. Each step
/// may be repeated. The feature `contract` has the tests that each implementation has to pass.
pub trait SessionStorage: fmt::Debug + Send + Sync + 'static {
    /// Stores the empty record of a new session. One that exists stays as it is. After [`StorageError::Ended`],
    /// [`all_ended_until`](Self::all_ended_until) is current.
    fn create<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()>;

    /// Returns the record of a session that another replica may have created. A missing record is created, empty.
    fn restore<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, RestoredRecord>;

    /// Stores (`Some`) or removes (`None`) the session's entry for a backend, if the present one has the tag `expected` (`None`: if
    /// there is none). Removing a missing entry does nothing. The replica that has the client's stream gets
    /// [`SessionEvent::Changed`].
    ///
    /// # Errors
    /// [`StorageError::RecordFull`] beyond [`MAX_RECORD_BYTES`].
    fn replace_backend_session<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        expected: Option<EntryTag>,
        value: Option<Vec<u8>>,
    ) -> StorageFuture<'a, Replacement>;

    /// Enters what this replica has of a session whose record may have been lost, and returns the record. What is present wins:
    /// the level is stored if there is none, and each entry, under its tag, if its backend has none. Subscriptions are added to a
    /// record that replaces a lost one, once by each replica, and this replica gets the client's notification stream back if it
    /// `holds_stream` and no other one does; else it gets [`SessionEvent::StreamMoved`]. What does not fit is left out.
    fn merge<'a>(
        &'a self,
        session: &'a SessionKey,
        own: &'a SessionRecord,
        holds_stream: bool,
    ) -> StorageFuture<'a, RestoredRecord>;

    /// Stores the log level of a session, as JSON. The other replicas get [`SessionEvent::LevelChanged`].
    ///
    /// # Errors
    /// [`StorageError::RecordFull`] beyond [`MAX_RECORD_BYTES`].
    fn set_level<'a>(&'a self, session: &'a SessionKey, level: &'a str) -> StorageFuture<'a, ()>;

    /// Adds or removes a subscription to a resource. The replica that has the client's stream gets
    /// [`SessionEvent::Changed`].
    ///
    /// # Errors
    /// [`StorageError::TooManySubscriptions`] beyond [`MAX_SUBSCRIPTIONS`], [`StorageError::RecordFull`] beyond
    /// [`MAX_RECORD_BYTES`].
    fn subscribe<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        uri: &'a str,
        wanted: bool,
    ) -> StorageFuture<'a, ()>;

    /// Records that this replica has the client's notification stream, and returns the record. The former holder gets
    /// [`SessionEvent::StreamMoved`].
    fn hold_stream<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, RestoredRecord>;

    /// Ends a session: stores its tombstone, removes its record, and returns the entries of its backends. If the record is missing,
    /// each replica gets [`SessionEvent::RecordLost`] before the end. Ending it again does nothing.
    fn end<'a>(
        &'a self,
        session: &'a SessionKey,
    ) -> StorageFuture<'a, Vec<(Box<str>, BackendEntry)>>;

    /// Takes note that this replica forgot a session. Removes and returns the record if no other replica used the session within
    /// its time to live and a quarter, in which [`touch`](Self::touch) has to be called; else `None`, and if there is no record.
    /// Does not end the session.
    fn leave<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, Option<SessionRecord>>;

    /// Restarts the time to live of records. Missing ones stay missing, and each replica gets [`SessionEvent::RecordLost`].
    fn touch<'a>(&'a self, sessions: &'a [SessionKey]) -> StorageFuture<'a, ()>;

    /// Asks the storage whether a session has ended, and fails with [`StorageError::Ended`] if so.
    fn check<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()>;

    /// Returns `true` if a session has ended as far as this replica knows. Does not wait.
    fn has_ended(&self, session: &SessionKey) -> bool;

    /// Returns the time until which all sessions of an owner have ended, in milliseconds since 1970, as far as this replica knows.
    /// Does not wait.
    fn all_ended_until(&self, owner: &OwnerDigest) -> Option<u64>;

    /// Returns the state of the messages. Does not wait.
    fn liveness(&self) -> Liveness;

    /// Returns the messages from now on. A tombstone that was read late is delivered late, never lost; so are the changes of a
    /// session whose client's stream is here. Others may be lost, after which [`SessionEvent::MessagesMissed`] comes first. A message
    /// that repeats an unread one is left out.
    fn events(&self) -> BoxStream<'static, SessionEvent>;

    /// Returns the number of ended sessions whose identifiers would still open.
    fn ended(&self) -> usize;

    /// Announces the handle of this replica to the others.
    fn announce(&self, replica: &str);

    /// Returns the handles that other replicas announced within the last two seconds.
    fn replicas(&self) -> Vec<Box<str>>;
}

// === impl EntryTag ===

impl EntryTag {
    /// Creates a tag from the operating system's random numbers; `None` if they are unavailable.
    #[must_use]
    pub fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }
}

// === impl Liveness ===

impl Liveness {
    /// Time without messages after which some may be missing.
    pub const SILENT_AFTER: Duration = Duration::from_millis(750);

    /// Time without messages after which sessions cannot be used.
    pub const LOST_AFTER: Duration = Duration::from_mins(1);

    /// Returns the state after a time without messages.
    #[must_use]
    pub fn after(silence: Duration) -> Self {
        if silence < Self::SILENT_AFTER {
            Self::Current
        } else if silence < Self::LOST_AFTER {
            Self::Silent
        } else {
            Self::Lost
        }
    }
}

// === impl OwnerDigest ===

impl OwnerDigest {
    /// Returns the digest of an owner.
    #[must_use]
    pub fn of(owner: &Identity) -> Self {
        let mut text = Vec::new();
        for part in [owner.issuer().unwrap_or(""), owner.subject().unwrap_or("")] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, &text).as_ref());
        Self(bytes)
    }

    /// Creates a digest from its bytes, as stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns `true` for anonymous callers, who are many people.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        *self == Self::of(&Identity::anonymous())
    }
}

impl fmt::Debug for OwnerDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerDigest({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// Shows no value: it identifies the client's session at a backend.
impl fmt::Debug for BackendEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendEntry").field("tag", &self.tag).finish_non_exhaustive()
    }
}
