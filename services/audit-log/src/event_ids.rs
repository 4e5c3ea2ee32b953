//! Random identifiers of events.

use std::cell::RefCell;

/// Number of identifiers per call of the random number generator.
const IDS_PER_REFILL: usize = 64;

thread_local! {
    static AVAILABLE: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

/// Returns 16 random bytes that are never returned again.
///
/// # Errors
/// The operating system has no random numbers.
pub(crate) fn next() -> Result<[u8; 16], getrandom::Error> {
    AVAILABLE.with_borrow_mut(|available| {
        if let Some(id) = available.pop() {
            return Ok(id);
        }
        let mut refill = [[0; 16]; IDS_PER_REFILL];
        getrandom::fill(refill.as_flattened_mut())?;
        let [first, others @ ..] = &refill;
        available.extend_from_slice(others);
        Ok(*first)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identifiers_are_unique() {
        let all: HashSet<_> = (0..1000).map(|_| next().unwrap()).collect();
        assert_eq!(all.len(), 1000);
    }
}
