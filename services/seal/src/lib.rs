#![doc = include_str!("../README.md")]

mod files;
mod key;
mod ring;

pub use self::files::SealKeyFiles;
pub use self::key::{SealKey, SealKeyError};
pub use self::ring::{
    KeyRing, KeyRingError, MAX_KEYS, RandomError, SEAL_DELAY, SealKeyId, SealPurpose,
};
