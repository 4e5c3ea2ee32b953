#![doc = include_str!("../README.md")]

mod ended;
mod id;
mod sealed;
mod sessions;
mod storage;

pub use self::{
    ended::EndedSessions,
    id::SessionId,
    sealed::{OpenedSessionId, SEALED_SESSION_LIFETIME, SessionClaims, SessionSeal, split},
    sessions::{NewSession, SessionLimitError, Sessions},
    storage::{
        BackendEntry, BackendLookup, EntryTag, Liveness, MAX_RECORD_BYTES, MAX_SUBSCRIPTIONS,
        MAX_TOMBSTONES_PER_OWNER, OwnerDigest, Replacement, RestoredRecord, SessionEvent,
        SessionKey, SessionRecord, SessionStorage, StorageError, StorageFuture,
    },
};
