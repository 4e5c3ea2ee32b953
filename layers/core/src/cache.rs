//! Bounded map whose entries expire.

use crate::lock;
use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

/// Shards keep threads apart; each has a lock of its own.
const SHARDS: usize = 16;

/// Bounded cache whose entries expire.
///
/// A full cache evicts an entry that was not used lately (second chance). A lookup or insert holds the lock of one shard, and
/// awaits nothing under it.
pub struct Cache<K, V> {
    shards: Box<[Mutex<Shard<K, V>>]>,
    per_shard: usize,
    hasher: RandomState,
}

struct Shard<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Each key once, in the order of eviction.
    order: VecDeque<K>,
}

struct Entry<V> {
    value: V,
    expires_at: SystemTime,
    used: bool,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// Creates a cache of about `capacity` entries, at least one for each of its 16 shards.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let shard = || Mutex::new(Shard { entries: HashMap::new(), order: VecDeque::new() });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            per_shard: capacity.div_ceil(SHARDS).max(1),
            hasher: RandomState::new(),
        }
    }

    /// Returns the value, if there is one that is valid at `now`.
    #[must_use]
    pub fn get<Q>(&self, key: &Q, now: SystemTime) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut shard = self.shard(key);
        let entry = shard.entries.get_mut(key)?;
        if entry.expires_at <= now {
            return None;
        }
        entry.used = true;
        Some(entry.value.clone())
    }

    /// Inserts `value` until `expires_at`, replacing an older one. A value that has expired already is ignored.
    pub fn insert(&self, key: K, value: V, expires_at: SystemTime, now: SystemTime) {
        if expires_at <= now {
            return;
        }
        let mut shard = self.shard(&key);
        let entry = Entry { value, expires_at, used: false };
        if let Some(old) = shard.entries.get_mut(&key) {
            *old = entry;
            return;
        }
        shard.evict_expired(now);
        if shard.entries.len() >= self.per_shard {
            shard.evict_one(now);
        }
        shard.order.push_back(key.clone());
        shard.entries.insert(key, entry);
    }

    /// Removes one entry.
    pub fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut shard = self.shard(key);
        if shard.entries.remove(key).is_some() {
            shard.order.retain(|kept| kept.borrow() != key);
        }
    }

    /// Removes all entries.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.entries.clear();
            shard.order.clear();
        }
    }

    /// Returns the number of entries, with expired ones that no other has replaced: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }

    /// Returns `true` if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> MutexGuard<'_, Shard<K, V>> {
        let hash = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        // In bounds: there are SHARDS of them.
        lock(&self.shards[hash])
    }
}

impl<K: Eq + Hash, V> Shard<K, V> {
    /// Evicts up to two expired entries per insert, so that a cache of secrets does not stay full after a peak.
    fn evict_expired(&mut self, now: SystemTime) {
        for _ in 0..2 {
            let Some(key) = self.order.front() else { return };
            if self.entries.get(key).is_some_and(|entry| entry.expires_at > now) {
                return;
            }
            if let Some(key) = self.order.pop_front() {
                self.entries.remove(&key);
            }
        }
    }

    /// Evicts the first entry that was not used since the last pass.
    fn evict_one(&mut self, now: SystemTime) {
        // After each entry has lost its second chance, the first one is evicted.
        for _ in 0..=self.order.len() {
            let Some(key) = self.order.pop_front() else { return };
            match self.entries.get_mut(&key) {
                Some(entry) if entry.used && entry.expires_at > now => {
                    entry.used = false;
                    self.order.push_back(key);
                }
                Some(_) => {
                    self.entries.remove(&key);
                    return;
                }
                None => {}
            }
        }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("per_shard", &self.per_shard).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn returns_no_expired_value() {
        let cache = Cache::new(16);
        cache.insert("a", 1, at(10), at(0));
        assert_eq!(cache.get("a", at(9)), Some(1));
        assert_eq!(cache.get("a", at(10)), None);
    }

    #[test]
    fn inserts_evict_expired_entries() {
        let cache = Cache::new(1024);
        for key in 0..500 {
            cache.insert(key, key, at(10), at(0));
        }
        assert_eq!(cache.len(), 500);
        for key in 1000..1500 {
            cache.insert(key, key, at(30), at(20));
        }
        assert!(cache.len() < 600, "{}", cache.len());
    }

    #[test]
    fn never_exceeds_its_capacity() {
        let cache = Cache::new(64);
        for key in 0..10_000 {
            cache.insert(key, key, at(10), at(0));
        }
        assert!(cache.len() <= 64, "{}", cache.len());
    }

    #[test]
    fn evicts_no_entry_in_use() {
        let cache = Cache::new(64);
        cache.insert(u64::MAX, 0, at(10), at(0));
        for key in 0..10_000 {
            cache.insert(key, 0, at(10), at(0));
            assert!(cache.get(&u64::MAX, at(1)).is_some(), "gone after {key}");
        }
    }

    #[test]
    fn reinserted_entry_is_present_once() {
        let cache = Cache::new(16);
        for _ in 0..100 {
            cache.insert("a", 1, at(10), at(0));
            cache.remove("a");
        }
        cache.insert("a", 2, at(10), at(0));
        assert_eq!((cache.get("a", at(1)), cache.len()), (Some(2), 1));
    }
}
