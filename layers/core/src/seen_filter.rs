//! Filter of values that were seen before.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Approximate set of the values that were seen before, so that a [`Cache`](crate::Cache) need not hold values that are
/// requested once.
///
/// A value replaces another one in the same slot. Two values in a slot are confused with a probability of 2^-63. A slot takes
/// eight bytes.
pub struct SeenFilter(Box<[AtomicU64]>);

impl SeenFilter {
    /// Creates a filter with about `slots` slots.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1).next_power_of_two();
        Self((0..slots).map(|_| AtomicU64::new(0)).collect())
    }

    /// Inserts the value with this digest, such as a SHA-256. Returns `true` if it was not in the filter.
    #[must_use]
    pub fn insert(&self, digest: &[u8; 32]) -> bool {
        let [first, second, ..] = digest.as_chunks::<8>().0 else { return true };
        // Truncation is fine: all bits of a digest are equally good.
        let slot = usize::try_from(u64::from_le_bytes(*first)).unwrap_or_default();
        // Never 0, the value of an empty slot.
        let mark = u64::from_le_bytes(*second) | 1;
        let Some(seen) = self.0.get(slot % self.0.len()) else { return true };
        // Relaxed: a slot protects no other memory, and of two concurrent inserts either may count as new.
        seen.swap(mark, Ordering::Relaxed) != mark
    }
}

impl fmt::Debug for SeenFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenFilter").field("slots", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: u64) -> [u8; 32] {
        let mut digest = [0; 32];
        digest[..16].copy_from_slice(&crate::Fingerprint::of(&of).0);
        digest
    }

    #[test]
    fn value_that_was_inserted_is_not_new() {
        let seen = SeenFilter::new(1 << 14);
        let first = (0..100).filter(|one| seen.insert(&digest(*one))).count();
        let repeated = (0..100).filter(|one| seen.insert(&digest(*one))).count();
        // Few values share a slot among so many.
        assert_eq!(first, 100);
        assert!(repeated < 5, "{repeated} were forgotten");
    }

    #[test]
    fn many_other_values_evict_value() {
        let seen = SeenFilter::new(4);
        assert!(seen.insert(&digest(0)));
        (1..100).for_each(|other| _ = seen.insert(&digest(other)));
        assert!(seen.insert(&digest(0)));
    }
}
