//! Fingerprints of what a decision depends on.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

/// Number of bytes that are collected before they are hashed.
const BUFFER_SIZE: usize = 256;

/// Keyed 128-bit digest of the data that a decision depends on, such as the claims that policies read. The keys are those of
/// this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// Hasher of two keyed SipHashes with a buffer, because input comes in many small pieces and each call of a hasher has a
/// fixed cost.
struct BufferedHasher {
    hashers: (DefaultHasher, DefaultHasher),
    buffer: [u8; BUFFER_SIZE],
    used: usize,
}

impl Fingerprint {
    /// Returns the fingerprint of `value`. Clients choose names and claims, but cannot construct two that collide, because
    /// the keys are secret.
    #[must_use]
    pub fn of<T: Hash + ?Sized>(value: &T) -> Self {
        static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
        let (first, second) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
        let hashers = (first.build_hasher(), second.build_hasher());
        let mut hasher = BufferedHasher { hashers, buffer: [0; BUFFER_SIZE], used: 0 };
        value.hash(&mut hasher);
        Self(hasher.finish_both().to_be_bytes())
    }
}

impl BufferedHasher {
    fn flush(&mut self) {
        let buffered = self.buffer.get(..self.used).unwrap_or_default();
        self.hashers.0.write(buffered);
        self.hashers.1.write(buffered);
        self.used = 0;
    }

    fn finish_both(mut self) -> u128 {
        self.flush();
        u128::from(self.hashers.0.finish()) << 64 | u128::from(self.hashers.1.finish())
    }
}

impl Hasher for BufferedHasher {
    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() > BUFFER_SIZE - self.used {
            self.flush();
        }
        if let Some(space) = self.buffer.get_mut(self.used..self.used + bytes.len()) {
            space.copy_from_slice(bytes);
            self.used += bytes.len();
        } else {
            // The buffer is empty: it was flushed above.
            self.hashers.0.write(bytes);
            self.hashers.1.write(bytes);
        }
    }

    fn finish(&self) -> u64 {
        let mut hasher = self.hashers.0.clone();
        hasher.write(self.buffer.get(..self.used).unwrap_or_default());
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_fingerprints() {
        assert_eq!(Fingerprint::of(&("a", 1)), Fingerprint::of(&("a", 1)));
        assert_ne!(Fingerprint::of(&("a", 1)), Fingerprint::of(&("a", 2)));
        assert_ne!(Fingerprint::of(&("ab", "c")), Fingerprint::of(&("a", "bc")));
    }

    #[test]
    fn pieces_of_any_length_count() {
        let of = |pieces: &[String]| Fingerprint::of(pieces);
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
