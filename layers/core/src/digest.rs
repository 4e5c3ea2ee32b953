//! Fingerprints of what a decision depends on.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

use crate::ViewKey;

/// Number of bytes that are collected before they are hashed.
const ROOM: usize = 256;

/// Two SipHashes under keys that this process drew, of what is gathered first: what is looked at comes in many small
/// pieces, each of which would cost as much as the hashing itself.
struct Digest {
    hashers: (DefaultHasher, DefaultHasher),
    room: [u8; ROOM],
    used: usize,
}

impl ViewKey {
    /// Returns the key of `seen`: 128 bits under keys of this process. Clients choose names and claims, but cannot construct
    /// two that collide.
    #[must_use]
    pub fn of<T: Hash + ?Sized>(seen: &T) -> Self {
        static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
        let (first, second) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
        let hashers = (first.build_hasher(), second.build_hasher());
        let mut digest = Digest { hashers, room: [0; ROOM], used: 0 };
        seen.hash(&mut digest);
        Self(digest.both().to_be_bytes())
    }
}

impl Digest {
    fn flush(&mut self) {
        let gathered = self.room.get(..self.used).unwrap_or_default();
        self.hashers.0.write(gathered);
        self.hashers.1.write(gathered);
        self.used = 0;
    }

    fn both(mut self) -> u128 {
        self.flush();
        u128::from(self.hashers.0.finish()) << 64 | u128::from(self.hashers.1.finish())
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() > ROOM - self.used {
            self.flush();
        }
        if let Some(room) = self.room.get_mut(self.used..self.used + bytes.len()) {
            room.copy_from_slice(bytes);
            self.used += bytes.len();
        } else {
            // Nothing is gathered any more.
            self.hashers.0.write(bytes);
            self.hashers.1.write(bytes);
        }
    }

    fn finish(&self) -> u64 {
        let mut hasher = self.hashers.0.clone();
        hasher.write(self.room.get(..self.used).unwrap_or_default());
        hasher.finish()
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

    #[test]
    fn every_piece_counts_however_long_it_is() {
        let of = |pieces: &[String]| ViewKey::of(pieces);
        for length in [1, 7, 100, 246, 247, 248, 255, 256, 257, 600] {
            let pieces = vec!["a".repeat(length), "b".repeat(3), "c".repeat(length)];
            assert_eq!(of(&pieces), of(&pieces));
            for at in 0..pieces.len() {
                let mut other = pieces.clone();
                other[at].replace_range(..1, "x");
                assert_ne!(of(&pieces), of(&other), "{length} {at}");
                let mut other = pieces.clone();
                other[at].pop();
                assert_ne!(of(&pieces), of(&other), "{length} {at}");
            }
        }
    }
}
