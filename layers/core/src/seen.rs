//! Filter of values that were seen before.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells what comes for the first time from what came before, so that a [`Cache`](crate::Cache) need not keep what is
/// asked for once.
///
/// Roughly: it forgets one when another one takes its place, and two are taken for the same once in 2^63 times. Eight
/// bytes for each place.
pub struct Seen(Box<[AtomicU64]>);

impl Seen {
    /// With about `places` places.
    #[must_use]
    pub fn new(places: usize) -> Self {
        let places = places.max(1).next_power_of_two();
        Self((0..places).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns `true` if the value with this digest, such as a SHA-256, is new as far as is known, and remembers it.
    #[must_use]
    pub fn is_new(&self, digest: &[u8; 32]) -> bool {
        let [first, second, ..] = digest.as_chunks::<8>().0 else { return true };
        // As many bits as needed are as good as any.
        let place = usize::try_from(u64::from_le_bytes(*first)).unwrap_or_default();
        // Nothing is 0 before it came.
        let mark = u64::from_le_bytes(*second) | 1;
        let Some(seen) = self.0.get(place % self.0.len()) else { return true };
        // Of two that come at once, either may be taken for new.
        seen.swap(mark, Ordering::Relaxed) != mark
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("places", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: u64) -> [u8; 32] {
        let mut digest = [0; 32];
        digest[..16].copy_from_slice(&crate::ViewKey::of(&of).0);
        digest
    }

    #[test]
    fn what_came_before_is_not_new() {
        let seen = Seen::new(1 << 14);
        let first = (0..100).filter(|one| seen.is_new(&digest(*one))).count();
        let again = (0..100).filter(|one| seen.is_new(&digest(*one))).count();
        // Few share a place among so many.
        assert_eq!(first, 100);
        assert!(again < 5, "{again} were forgotten");
    }

    #[test]
    fn many_others_push_it_out() {
        let seen = Seen::new(4);
        assert!(seen.is_new(&digest(0)));
        (1..100).for_each(|other| _ = seen.is_new(&digest(other)));
        assert!(seen.is_new(&digest(0)));
    }
}
