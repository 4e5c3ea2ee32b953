//! Cache of values that never become stale.

use std::hash::Hash;
use std::time::{Duration, SystemTime};

use vmcp_core::Cache;

/// Cache of values that depend on their key and on immutable policies alone: it only limits their
/// number.
pub(crate) struct ImmutableCache<K, V>(Cache<K, V>);

impl<K: Eq + Hash + Clone, V: Clone> ImmutableCache<K, V> {
    /// Creates a cache of at most `capacity` values.
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Cache::new(capacity))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.0.get(key, NOW)
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.0.insert(key, value, NOW + Duration::from_secs(1), NOW);
    }

    /// Returns the cached value of `key`, or creates it.
    pub(crate) fn get_or_insert_with(&self, key: K, make: impl FnOnce(&K) -> V) -> V {
        if let Some(cached) = self.get(&key) {
            return cached;
        }
        let value = make(&key);
        self.insert(key, value.clone());
        value
    }

    #[cfg(test)]
    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

/// The same time for each access, so that no value expires.
const NOW: SystemTime = SystemTime::UNIX_EPOCH;
