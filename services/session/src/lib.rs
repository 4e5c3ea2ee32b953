#![doc = include_str!("../README.md")]

mod account;
#[cfg(any(test, feature = "contract"))]
#[macro_use]
pub mod contract;
mod id;
#[cfg(any(test, feature = "contract"))]
mod memory;
mod sealed;
mod session_events;
mod sessions;
mod storage;
mod tombstones;

#[cfg(any(test, feature = "contract"))]
pub use self::memory::MemorySessionStorage;
pub use self::{
    id::SessionId,
    sealed::{
        OpenedSessionId, SEALED_SESSION_LIFETIME, SessionClaims, SessionSeal, split, unix_millis,
    },
    session_events::SessionEvents,
    sessions::{NewSession, RemovedSession, SessionLimitError, Sessions},
    storage::{
        BackendEntry, EntryTag, Liveness, MAX_RECORD_BYTES, MAX_SUBSCRIPTIONS,
        MAX_TOMBSTONES_PER_OWNER, OwnerDigest, Replacement, RestoredRecord, SessionEvent,
        SessionKey, SessionRecord, SessionStorage, StorageError, StorageFuture,
    },
    tombstones::{TOMBSTONE_LIFETIME, TOMBSTONE_LIFETIME_MILLIS, Tombstones},
};
