//! Fingerprints of what a decision depends on.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

use crate::ViewKey;

/// Two SipHashes under keys that this process drew.
struct Digest(DefaultHasher, DefaultHasher);

impl ViewKey {
    /// The key of what `seen` says. 128 bits that nobody outside can aim at, though clients write what goes
    /// into it (names, claims), where a plain hash could be made to collide. Another process has other keys.
    #[must_use]
    pub fn of<T: Hash + ?Sized>(seen: &T) -> Self {
        static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
        let (first, second) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
        let mut digest = Digest(first.build_hasher(), second.build_hasher());
        seen.hash(&mut digest);
        let both = u128::from(digest.0.finish()) << 64 | u128::from(digest.1.finish());
        Self(both.to_be_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_has_one_key_and_what_is_not_has_another() {
        assert_eq!(ViewKey::of(&("a", 1)), ViewKey::of(&("a", 1)));
        assert_ne!(ViewKey::of(&("a", 1)), ViewKey::of(&("a", 2)));
        assert_ne!(ViewKey::of(&("ab", "c")), ViewKey::of(&("a", "bc")));
    }
}
