//! Fingerprints of what a decision depends on.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// 128 bits that nobody outside can aim at: two SipHashes under keys that this process drew. What
/// clients write (names, claims) goes into it, so a plain hash could be made to collide.
pub(crate) struct Digest(DefaultHasher, DefaultHasher);

impl Digest {
    pub(crate) fn new() -> Self {
        static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
        let (first, second) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
        Self(first.build_hasher(), second.build_hasher())
    }

    pub(crate) fn key(&self) -> [u8; 16] {
        let both = u128::from(self.0.finish()) << 64 | u128::from(self.1.finish());
        both.to_be_bytes()
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}
