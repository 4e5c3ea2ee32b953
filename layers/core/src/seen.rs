//! What came once before.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tells tokens that come for the first time from others, roughly: it forgets one when another one takes its place,
/// and two are taken for the same once in 2^64 times. Eight bytes for each.
pub(crate) struct Seen(Box<[AtomicU64]>);

impl Seen {
    /// With about `places` places.
    pub(crate) fn new(places: usize) -> Self {
        let places = places.max(1).next_power_of_two();
        Self((0..places).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether the token with this SHA-256 is new, as far as it is known. The next time it is not.
    pub(crate) fn is_new(&self, digest: &[u8; 32]) -> bool {
        let [first, second, ..] = digest.as_chunks::<8>().0 else { return true };
        // As many bits as needed are as good as any.
        let place = usize::try_from(u64::from_le_bytes(*first)).unwrap_or_default();
        // Nothing is 0 before it came.
        let mark = u64::from_le_bytes(*second) | 1;
        let Some(seen) = self.0.get(place % self.0.len()) else { return true };
        // Whoever reads an older mark verifies once more.
        seen.swap(mark, Ordering::Relaxed) != mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(token: u64) -> [u8; 32] {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &token.to_le_bytes());
        digest.as_ref().try_into().unwrap()
    }

    #[test]
    fn what_came_before_is_not_new() {
        let seen = Seen::new(1 << 14);
        let first = (0..100).filter(|token| seen.is_new(&digest(*token))).count();
        let again = (0..100).filter(|token| seen.is_new(&digest(*token))).count();
        // Few share a place among so many.
        assert_eq!(first, 100);
        assert!(again < 5, "{again} were forgotten");
    }

    #[test]
    fn many_others_push_it_out() {
        let seen = Seen::new(4);
        assert!(seen.is_new(&digest(0)));
        (1..100).for_each(|token| _ = seen.is_new(&digest(token)));
        assert!(seen.is_new(&digest(0)));
    }
}
