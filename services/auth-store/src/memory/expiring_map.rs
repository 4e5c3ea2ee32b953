//! Bounded map with expiring entries.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::{StoreError, Timestamp};

/// Map with a capacity, whose entries are ordered by expiry.
#[derive(Debug)]
pub(super) struct ExpiringMap<K, V> {
    kind: &'static str,
    cap: usize,
    entries: HashMap<K, Entry<V>>,
    /// Keys by expiry, then by sequence number, because several entries may expire at once.
    ///
    /// Invariant: has one entry for each entry of `entries`, under its `expiry_key`.
    order: BTreeMap<(Timestamp, u64), K>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    expiry_key: (Timestamp, u64),
}

impl<K: Eq + Hash + Clone, V> ExpiringMap<K, V> {
    pub(super) fn new(kind: &'static str, cap: usize) -> Self {
        Self { kind, cap, entries: HashMap::new(), order: BTreeMap::new(), next_sequence: 0 }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(super) fn expires(&self, key: &K) -> Option<Timestamp> {
        self.entries.get(key).map(|entry| entry.expiry_key.0)
    }

    pub(super) fn insert(
        &mut self,
        key: K,
        value: V,
        expires: Timestamp,
    ) -> Result<(), StoreError> {
        if self.remove(&key).is_none() && self.is_full() {
            return Err(self.full_error());
        }
        let expiry_key = (expires, self.next_sequence);
        self.next_sequence += 1;
        self.order.insert(expiry_key, key.clone());
        self.entries.insert(key, Entry { value, expiry_key });
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let Entry { value, expiry_key } = self.entries.remove(key)?;
        self.order.remove(&expiry_key);
        Some(value)
    }

    /// Changes the expiry of an entry. Returns whether it exists.
    pub(super) fn expire_at(&mut self, key: &K, expires: Timestamp) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        let kept = self.order.remove(&entry.expiry_key);
        entry.expiry_key = (expires, self.next_sequence);
        self.next_sequence += 1;
        if let Some(key) = kept {
            self.order.insert(entry.expiry_key, key);
        }
        true
    }

    /// Extends the expiry of an entry to at least `expires`. Returns whether it exists.
    pub(super) fn extend_until(&mut self, key: &K, expires: Timestamp) -> bool {
        match self.expires(key) {
            Some(at) if at < expires => self.expire_at(key, expires),
            at => at.is_some(),
        }
    }

    /// Returns the entry that expires first.
    pub(super) fn first(&self) -> Option<(&K, Timestamp)> {
        self.order.first_key_value().map(|((expires, _), key)| (key, *expires))
    }

    /// Removes the entry that expires first.
    pub(super) fn remove_first(&mut self) -> Option<V> {
        let key = self.first()?.0.clone();
        self.remove(&key)
    }

    /// Removes and returns an expired entry.
    pub(super) fn pop_expired(&mut self, now: Timestamp) -> Option<(K, V)> {
        let (key, expires) = self.first()?;
        if expires > now {
            return None;
        }
        let key = key.clone();
        let value = self.remove(&key)?;
        Some((key, value))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.order.values().filter_map(|key| self.get(key))
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.cap
    }

    pub(super) fn full_error(&self) -> StoreError {
        StoreError::Full { what: self.kind }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
