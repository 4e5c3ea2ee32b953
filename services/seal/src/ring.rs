//! Ring of keys, of which one seals and all open.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use vmcp_core::Clock;

use crate::SealKey;

/// Maximum number of keys in a ring.
pub const MAX_KEYS: usize = 8;

/// Time between the making of a key and its first use for sealing, in which each replica reads it.
pub const SEAL_DELAY: Duration = Duration::from_mins(5);

/// Length of a key's identifier, which precedes each sealed value.
const KEY_ID_LENGTH: usize = 4;

/// Purpose of a sealed value. A value opens for its own purpose only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SealPurpose {
    /// `Mcp-Session-Id` of a client.
    SessionId,
    /// State between the requests of a client: `requestState` (MCP 2026-07-28, multi round-trip requests) and task ids, which
    /// the associated data tells apart.
    ClientState,
    /// State of a client's session, in a storage that replicas share.
    SessionRecord,
    /// State of a run of a composite tool, in a storage that replicas share.
    WorkflowRecord,
    /// Address of a replica for other replicas, with the digest of its TLS key.
    PeerHandle,
    /// Proof of one replica to another that it has the ring.
    PeerProof,
}

/// Keys that a server and its replicas share. A clone shares the ring.
#[derive(Clone)]
pub struct KeyRing {
    server: Arc<str>,
    /// Invariant: not empty. The newest key comes first.
    keys: Arc<ArcSwap<Vec<RingKey>>>,
    is_shared: bool,
    clock: Clock,
}

/// Error of the keys of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    /// No key.
    #[error("a key ring needs at least one key")]
    Empty,
    /// More than [`MAX_KEYS`].
    #[error("a key ring has at most {MAX_KEYS} keys, not {0}: remove the oldest ones")]
    TooManyKeys(usize),
    /// Two keys are equal.
    #[error("the keys {0} and {1} of the key ring are equal: each has to be random")]
    EqualKeys(usize, usize),
}

/// The system failed to provide random numbers for a key or nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct RandomError;

/// Public identifier of a key of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealKeyId([u8; KEY_ID_LENGTH]);

/// Key with what is derived from it.
struct RingKey {
    id: [u8; KEY_ID_LENGTH],
    made_at: SystemTime,
    /// One for each purpose, in the order of [`SealPurpose::ALL`].
    purposes: [LessSafeKey; SealPurpose::ALL.len()],
}

/// Length of a key's identifier, for HKDF.
struct KeyIdLength;

// === impl SealPurpose ===

impl SealPurpose {
    const ALL: [Self; 6] = [
        Self::SessionId,
        Self::ClientState,
        Self::SessionRecord,
        Self::WorkflowRecord,
        Self::PeerHandle,
        Self::PeerProof,
    ];

    /// Returns the name from which the key is derived. Changing it invalidates what was sealed.
    fn name(self) -> &'static str {
        match self {
            Self::SessionId => "session-id",
            Self::ClientState => "client-state",
            Self::SessionRecord => "session-record",
            Self::WorkflowRecord => "workflow-record",
            Self::PeerHandle => "peer-handle",
            Self::PeerProof => "peer-proof",
        }
    }
}

// === impl KeyRing ===

impl KeyRing {
    /// Creates a ring of the keys of the server with this name, the newest first.
    ///
    /// # Errors
    /// [`KeyRingError`] if there is no key, there are too many, or two are equal.
    pub fn new(server: &str, keys: &[SealKey], clock: Clock) -> Result<Self, KeyRingError> {
        let keys = derive_keys(server, keys)?;
        let keys = Arc::new(ArcSwap::from_pointee(keys));
        Ok(Self { server: server.into(), keys, is_shared: true, clock })
    }

    /// Creates a ring with one random key: what it seals opens in this process only.
    ///
    /// # Errors
    /// [`RandomError`] if the system has no random numbers.
    pub fn ephemeral(clock: Clock) -> Result<Self, RandomError> {
        let mut key = [0; 32];
        rand::fill(&mut key).map_err(|_| RandomError)?;
        let ring = Self::new("", &[SealKey::from_bytes(key)], clock).map_err(|_| RandomError)?;
        Ok(Self { is_shared: false, ..ring })
    }

    /// Returns `true` if other processes may have the same keys.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Replaces the keys, after their files changed. Values in flight open while their key is in the ring.
    ///
    /// # Errors
    /// [`KeyRingError`], after which the ring is as before.
    pub fn replace(&self, keys: &[SealKey]) -> Result<(), KeyRingError> {
        let mut new = derive_keys(&self.server, keys)?;
        let old = self.keys.load();
        for key in &mut new {
            // A file that is written again with the same key is not a new key.
            if let Some(known) = old.iter().find(|known| known.id == key.id) {
                key.made_at = key.made_at.min(known.made_at);
            }
        }
        self.keys.store(Arc::new(new));
        Ok(())
    }

    /// Returns the identifier of the key that seals now. A value that was sealed once can be used until it changes.
    #[must_use]
    pub fn sealing_key(&self) -> SealKeyId {
        SealKeyId(sealing_key(&self.keys.load(), self.clock.now()).id)
    }

    /// Seals a value for a purpose. It opens only with the same associated data.
    ///
    /// # Errors
    /// [`RandomError`] if the system has no random numbers for a nonce.
    pub fn seal(
        &self,
        purpose: SealPurpose,
        value: &[u8],
        associated: &[u8],
    ) -> Result<Vec<u8>, RandomError> {
        let keys = self.keys.load();
        let key = sealing_key(&keys, self.clock.now());
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| RandomError)?;
        let mut sealed =
            Vec::with_capacity(KEY_ID_LENGTH + NONCE_LEN + value.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(&key.id);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(value);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let text = &mut sealed[KEY_ID_LENGTH + NONCE_LEN..];
        let tag = key.purposes[purpose as usize]
            .seal_in_place_separate_tag(nonce, Aad::from(associated), text)
            .map_err(|_| RandomError)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// Opens a value that a ring with one of these keys sealed for the same server, purpose and associated data.
    #[must_use]
    pub fn open(&self, purpose: SealPurpose, sealed: &[u8], associated: &[u8]) -> Option<Vec<u8>> {
        let (id, sealed) = sealed.split_at_checked(KEY_ID_LENGTH)?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let keys = self.keys.load();
        let key = keys.iter().find(|key| key.id == id)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = sealed.to_vec();
        let opened = key.purposes[purpose as usize]
            .open_in_place(nonce, Aad::from(associated), &mut text)
            .ok()?;
        let length = opened.len();
        text.truncate(length);
        Some(text)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.keys.load().len()).finish_non_exhaustive()
    }
}

fn derive_keys(server: &str, keys: &[SealKey]) -> Result<Vec<RingKey>, KeyRingError> {
    if keys.is_empty() {
        return Err(KeyRingError::Empty);
    }
    if keys.len() > MAX_KEYS {
        return Err(KeyRingError::TooManyKeys(keys.len()));
    }
    for (second, key) in keys.iter().enumerate() {
        if let Some(first) = keys[..second].iter().position(|other| other.bytes() == key.bytes()) {
            return Err(KeyRingError::EqualKeys(first + 1, second + 1));
        }
    }
    Ok(keys.iter().map(|key| RingKey::derive(server, key)).collect())
}

/// Returns the newest key that each replica has. Files of one mount may all be as old as the process: then the second key, which
/// sealed before the newest one was added.
fn sealing_key(keys: &[RingKey], now: SystemTime) -> &RingKey {
    let is_known = |key: &&RingKey| key.made_at + SEAL_DELAY <= now;
    keys.iter()
        .find(is_known)
        .or_else(|| keys.get(1))
        .or_else(|| keys.first())
        .expect("a ring has at least one key")
}

// === impl RingKey ===

impl RingKey {
    fn derive(server: &str, key: &SealKey) -> Self {
        const INFALLIBLE: &str = "the lengths are far below the limit of HKDF";
        let prk = Salt::new(HKDF_SHA256, b"vmcp seal v1").extract(key.bytes());
        let mut id = [0; KEY_ID_LENGTH];
        prk.expand(&[b"id"], KeyIdLength).and_then(|okm| okm.fill(&mut id)).expect(INFALLIBLE);
        let purpose_key = |purpose: SealPurpose| {
            let info = [purpose.name().as_bytes(), b"\0", server.as_bytes()];
            let key = Prk::expand(&prk, &info, &AES_256_GCM).expect(INFALLIBLE);
            LessSafeKey::new(UnboundKey::from(key))
        };
        Self { id, made_at: key.time(), purposes: SealPurpose::ALL.map(purpose_key) }
    }
}

impl KeyType for KeyIdLength {
    fn len(&self) -> usize {
        KEY_ID_LENGTH
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWNER: &[u8] = b"iss\nsub";

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn key(byte: u8) -> SealKey {
        SealKey::from_bytes([byte; 32])
    }

    fn ring(keys: &[SealKey]) -> KeyRing {
        KeyRing::new("server", keys, Clock::manual(at(1000))).unwrap()
    }

    fn opens(ring: &KeyRing, sealed: &[u8]) -> bool {
        ring.open(SealPurpose::SessionId, sealed, OWNER).is_some()
    }

    #[test]
    fn opens_for_same_server_purpose_and_data_only() {
        let ring = ring(&[key(1)]);
        for purpose in SealPurpose::ALL {
            let sealed = ring.seal(purpose, b"value", OWNER).unwrap();
            for other in SealPurpose::ALL {
                let opened = ring.open(other, &sealed, OWNER);
                assert_eq!(opened.as_deref(), (other == purpose).then_some(&b"value"[..]));
            }
            assert_eq!(ring.open(purpose, &sealed, b"iss\nother"), None);
            let server = KeyRing::new("other", &[key(1)], Clock::system()).unwrap();
            assert_eq!(server.open(purpose, &sealed, OWNER), None);
        }
    }

    #[test]
    fn purposes_index_their_keys() {
        for (index, purpose) in SealPurpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose as usize, index);
        }
    }

    #[test]
    fn new_key_seals_after_delay() {
        let clock = Clock::manual(at(1000));
        let new = key(2).made_at(at(1000));
        let ring = KeyRing::new("server", &[key(1)], clock.clone()).unwrap();
        let old_only = KeyRing::new("server", &[key(1)], clock.clone()).unwrap();
        ring.replace(&[new.clone(), key(1)]).unwrap();
        let seal = || ring.seal(SealPurpose::SessionId, b"", OWNER).unwrap();
        assert!(opens(&old_only, &seal()));
        // It opens at once what a faster replica sealed with it.
        let newer = KeyRing::new("server", &[key(2)], clock.clone()).unwrap();
        assert!(opens(&ring, &newer.seal(SealPurpose::SessionId, b"", OWNER).unwrap()));
        let former = ring.sealing_key();
        clock.advance(SEAL_DELAY);
        assert!(!opens(&old_only, &seal()));
        assert_ne!(ring.sealing_key(), former);
        let touched = key(2).made_at(clock.now());
        ring.replace(&[touched, key(1)]).unwrap();
        assert!(!opens(&old_only, &seal()), "the same key is not new again");
    }

    #[test]
    fn second_key_seals_while_all_are_new() {
        let keys: Vec<_> = (1..=3).map(|byte| key(byte).made_at(at(1000))).collect();
        let sealed = ring(&keys).seal(SealPurpose::SessionId, b"", OWNER).unwrap();
        assert!(opens(&ring(&keys[1..2]), &sealed));
        let sealed = ring(&keys[..1]).seal(SealPurpose::SessionId, b"", OWNER).unwrap();
        assert!(opens(&ring(&keys[..1]), &sealed));
    }

    #[test]
    fn rejects_unusable_rings_and_keeps_old_one() {
        let new = |keys: &[SealKey]| KeyRing::new("server", keys, Clock::system()).err();
        assert_eq!(new(&[]), Some(KeyRingError::Empty));
        let equal = [key(1), key(2), key(1)];
        assert_eq!(new(&equal), Some(KeyRingError::EqualKeys(1, 3)));
        let many: Vec<_> = (0..9).map(key).collect();
        assert_eq!(new(&many), Some(KeyRingError::TooManyKeys(9)));
        let ring = ring(&[key(1)]);
        let sealed = ring.seal(SealPurpose::SessionId, b"", OWNER).unwrap();
        assert_eq!(ring.replace(&equal), Err(KeyRingError::EqualKeys(1, 3)));
        assert!(opens(&ring, &sealed));
        ring.replace(&[key(9)]).unwrap();
        assert!(!opens(&ring, &sealed), "a removed key opens nothing");
    }

    #[test]
    fn debug_output_shows_no_key() {
        assert_eq!(format!("{:?}", ring(&[key(1)])), "KeyRing { keys: 1, .. }");
    }

    proptest! {
        #[test]
        fn rejects_changed_values(
            value: Vec<u8>,
            at: prop::sample::Index,
            bit in 0_u8..8,
        ) {
            let ring = ring(&[key(1), key(2)]);
            let sealed = ring.seal(SealPurpose::SessionId, &value, OWNER).unwrap();
            prop_assert_eq!(ring.open(SealPurpose::SessionId, &sealed, OWNER), Some(value));
            let mut changed = sealed.clone();
            changed[at.index(sealed.len())] ^= 1_u8 << bit;
            prop_assert!(!opens(&ring, &changed));
            prop_assert!(!opens(&ring, &sealed[..at.index(sealed.len())]));
        }
    }
}
