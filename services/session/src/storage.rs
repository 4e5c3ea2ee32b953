//! Storage of sessions that replicas share.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use vmcp_core::Identity;

use crate::SessionId;

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
    /// Time of `initialize`, in seconds since 1970.
    pub issued_at: u64,
}

/// State of a session that its sealed identifier does not contain.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredRecord {
    /// The record, empty if it was lost.
    pub record: SessionRecord,
    /// `true` if the storage had no record: it expired, or the storage lost it.
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

/// Message of another replica, or of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A session has ended.
    Ended(SessionId),
    /// The owner's sessions that began until a time, in seconds since 1970, have ended.
    AllEnded {
        /// Owner of the sessions.
        owner: OwnerDigest,
        /// Latest time of `initialize`.
        until: u64,
    },
    /// Another replica changed a session whose client has its notification stream at this one.
    Changed(SessionId),
    /// Another replica took over the notification stream of a session.
    StreamMoved(SessionId),
}

/// Storage of sessions that replicas share. Each method is one atomic step for any number of replicas.
///
/// A record has a sliding time to live; only [`create`](Self::create), [`restore`](Self::restore), writes and
/// [`touch`](Self::touch) restart it. A session ends by its tombstone, not by the absence of its record. Each method but
/// [`end`](Self::end) fails with [`StorageError::Ended`] for a session that has ended.
///
/// A dropped future may or may not have taken its step.
pub trait SessionStorage: fmt::Debug + Send + Sync + 'static {
    /// Stores the empty record of a new session.
    fn create<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()>;

    /// Returns the record of a session that another replica may have created. A missing record is created, empty.
    fn restore<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, RestoredRecord>;

    /// Returns the session's entry for a backend.
    fn backend_session<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
    ) -> StorageFuture<'a, Option<BackendEntry>>;

    /// Stores (`Some`) or removes (`None`) the session's entry for a backend, if the present one has the tag `expected`.
    fn replace_backend_session<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        expected: Option<EntryTag>,
        value: Option<Vec<u8>>,
    ) -> StorageFuture<'a, Replacement>;

    /// Stores the log level of a session, as JSON.
    fn set_level<'a>(&'a self, session: &'a SessionKey, level: &'a str) -> StorageFuture<'a, ()>;

    /// Adds or removes a subscription to a resource. The replica that has the client's stream gets
    /// [`SessionEvent::Changed`].
    ///
    /// # Errors
    /// [`StorageError::TooManySubscriptions`] beyond 1,024 of one backend.
    fn subscribe<'a>(
        &'a self,
        session: &'a SessionKey,
        backend: &'a str,
        uri: &'a str,
        wanted: bool,
    ) -> StorageFuture<'a, ()>;

    /// Records that this replica has the client's notification stream, and returns the record. The former holder gets
    /// [`SessionEvent::StreamMoved`].
    fn hold_stream<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, SessionRecord>;

    /// Ends a session: stores its tombstone, removes its record, and returns the entries of its backends. Ending it again does
    /// nothing.
    fn end<'a>(
        &'a self,
        session: &'a SessionKey,
    ) -> StorageFuture<'a, Vec<(Box<str>, BackendEntry)>>;

    /// Removes and returns the record of a session that this replica has not used for its time to live; `None` if another
    /// replica used it since.
    fn leave<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, Option<SessionRecord>>;

    /// Restarts the time to live of records. Missing ones stay missing.
    fn touch<'a>(&'a self, sessions: &'a [SessionKey]) -> StorageFuture<'a, ()>;

    /// Asks the storage whether a session has ended, and fails with [`StorageError::Ended`] if so.
    fn check<'a>(&'a self, session: &'a SessionKey) -> StorageFuture<'a, ()>;

    /// Returns `true` if a session has ended as far as this replica knows. Does not wait.
    fn has_ended(&self, session: &SessionKey) -> bool;

    /// Returns the state of the messages. Does not wait.
    fn liveness(&self) -> Liveness;

    /// Returns the messages from now on. A tombstone that was read late is delivered late, never lost.
    fn events(&self) -> BoxStream<'static, SessionEvent>;

    /// Returns the number of ended sessions whose identifiers would still open.
    fn ended(&self) -> usize;

    /// Announces the handle of this replica to the others.
    fn announce(&self, replica: &str);

    /// Returns the handles that other replicas announced within the last two seconds.
    fn replicas(&self) -> Vec<Box<str>>;
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
