//! Random names of events.

use std::cell::RefCell;

/// Random bytes are fetched for so many events at once.
const AHEAD: usize = 64;

thread_local! {
    static READY: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

/// 16 random bytes that nobody else was given.
///
/// # Errors
/// The operating system has none to give.
pub(crate) fn next() -> Result<[u8; 16], getrandom::Error> {
    READY.with_borrow_mut(|ready| {
        if let Some(id) = ready.pop() {
            return Ok(id);
        }
        let mut fresh = [[0; 16]; AHEAD];
        getrandom::fill(fresh.as_flattened_mut())?;
        let (first, others) = fresh.split_first().unwrap_or((&[0; 16], &[]));
        ready.extend_from_slice(others);
        Ok(*first)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let all: HashSet<_> = (0..1000).map(|_| next().unwrap()).collect();
        assert_eq!(all.len(), 1000);
    }
}
