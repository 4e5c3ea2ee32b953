//! Random names of events.

use std::cell::RefCell;

/// Random bytes are fetched for so many events at once.
const IDS_PER_REFILL: usize = 64;

thread_local! {
    static AVAILABLE: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

/// 16 random bytes that nobody else was given.
///
/// # Errors
/// The operating system has none to give.
pub(crate) fn next() -> Result<[u8; 16], getrandom::Error> {
    AVAILABLE.with_borrow_mut(|available| {
        if let Some(id) = available.pop() {
            return Ok(id);
        }
        let mut refill = [[0; 16]; IDS_PER_REFILL];
        getrandom::fill(refill.as_flattened_mut())?;
        let (first, others) = refill.split_first().unwrap_or((&[0; 16], &[]));
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
