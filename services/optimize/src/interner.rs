//! Shared values, each present once for as long as it is in use.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};

use vmcp_core::{Fingerprint, lock};

/// Map of the values in use, by the fingerprint of what they are made of. It holds no value itself: an entry leaves with the
/// last reference to its value.
pub(crate) struct Interner<T> {
    entries: Mutex<HashMap<Fingerprint, Weak<InternedValue<T>>>>,
}

/// Value of an [`Interner`].
pub(crate) struct InternedValue<T> {
    value: T,
    key: Fingerprint,
    interner: Weak<Interner<T>>,
}

impl<T> Interner<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default() })
    }

    /// Returns the value of `key`, made by `create` if none is in use. `create` runs without the lock, so that two callers may
    /// create the same value; both get the first.
    pub(crate) fn intern<E>(
        self: &Arc<Self>,
        key: Fingerprint,
        create: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<InternedValue<T>>, E> {
        if let Some(value) = lock(&self.entries).get(&key).and_then(Weak::upgrade) {
            return Ok(value);
        }
        let value =
            Arc::new(InternedValue { value: create()?, key, interner: Arc::downgrade(self) });
        let mut entries = lock(&self.entries);
        let present = entries.get(&key).and_then(Weak::upgrade);
        if present.is_none() {
            entries.insert(key, Arc::downgrade(&value));
        }
        // The lock is released before `value` is dropped, because the drop takes it.
        drop(entries);
        Ok(present.unwrap_or(value))
    }

    /// Returns the number of values in use: a gauge.
    pub(crate) fn len(&self) -> usize {
        lock(&self.entries).len()
    }
}

impl<T> InternedValue<T> {
    pub(crate) fn key(&self) -> Fingerprint {
        self.key
    }
}

impl<T> Deref for InternedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for InternedValue<T> {
    fn drop(&mut self) {
        let Some(interner) = self.interner.upgrade() else { return };
        let mut entries = lock(&interner.entries);
        // The entry may be that of a successor, made after the last reference to this value was gone.
        if entries.get(&self.key).is_some_and(|entry| entry.strong_count() == 0) {
            entries.remove(&self.key);
        }
        // Released before the interner, of which this may be the last reference.
        drop(entries);
    }
}

impl<T> fmt::Debug for Interner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interner").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn intern(interner: &Arc<Interner<u32>>, key: u32, value: u32) -> Arc<InternedValue<u32>> {
        let Ok(value) = interner.intern(Fingerprint::of(&key), || Ok::<_, Infallible>(value));
        value
    }

    #[test]
    fn equal_keys_share_one_value() {
        let interner = Interner::new();
        let (one, other) = (intern(&interner, 1, 10), intern(&interner, 1, 20));
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!((**one, interner.len()), (10, 1));
    }

    #[test]
    fn entry_leaves_with_last_reference() {
        let interner = Interner::new();
        let one = intern(&interner, 1, 10);
        let same = Arc::clone(&one);
        drop(one);
        assert_eq!(interner.len(), 1);
        drop(same);
        assert_eq!(interner.len(), 0);
        assert_eq!(**intern(&interner, 1, 20), 20);
    }

    #[test]
    fn failed_value_leaves_no_entry() {
        let interner = Interner::<u32>::new();
        assert!(interner.intern(Fingerprint::of(&1), || Err("no")).is_err());
        assert_eq!(interner.len(), 0);
    }
}
