//! Bounded cache that stores equal content once for any number of keys.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;

/// Values by key. The least recently used entries are evicted at the limit of keys or bytes.
#[derive(Debug)]
pub(crate) struct DedupLruCache<K, C, V> {
    entries: HashMap<K, Entry<C>>,
    contents: HashMap<C, Content<V>>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<C> {
    content: C,
    used: u64,
}

#[derive(Debug)]
struct Content<V> {
    value: Arc<V>,
    bytes: usize,
    users: usize,
}

impl<K: Eq + Hash + Clone, C: Eq + Hash + Clone, V> DedupLruCache<K, C, V> {
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        let (entries, contents) = (HashMap::new(), HashMap::new());
        Self { entries, contents, bytes: 0, most, most_bytes, clock: 0 }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&mut self, key: &K) -> Option<Arc<V>> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        entry.used = self.clock;
        self.contents.get(&entry.content).map(|content| Arc::clone(&content.value))
    }

    /// Returns the value of this content, if cached.
    pub(crate) fn content(&self, content: &C) -> Option<Arc<V>> {
        self.contents.get(content).map(|content| Arc::clone(&content.value))
    }

    /// Inserts a value of `bytes` bytes, unless it exceeds the limit by itself, and returns the cached value of this content.
    pub(crate) fn insert(&mut self, key: K, content: C, value: Arc<V>, bytes: usize) -> Arc<V> {
        self.remove(&key);
        if bytes > self.most_bytes {
            return value;
        }
        while !self.entries.is_empty() && self.is_full(&content, bytes) {
            self.make_room();
        }
        self.clock += 1;
        let kept = self.contents.entry(content.clone()).or_insert_with(|| {
            self.bytes += bytes;
            Content { value, bytes, users: 0 }
        });
        kept.users += 1;
        let value = Arc::clone(&kept.value);
        self.entries.insert(key, Entry { content, used: self.clock });
        value
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let Some(entry) = self.entries.remove(key) else { return };
        let Some(content) = self.contents.get_mut(&entry.content) else { return };
        content.users -= 1;
        if content.users == 0 {
            self.bytes -= content.bytes;
            self.contents.remove(&entry.content);
        }
    }

    /// Removes the keys for which `stays` returns `false`.
    pub(crate) fn retain(&mut self, stays: impl Fn(&K) -> bool) {
        let gone: Vec<K> = self.entries.keys().filter(|key| !stays(key)).cloned().collect();
        for key in &gone {
            self.remove(key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn is_full(&self, content: &C, bytes: usize) -> bool {
        let more = if self.contents.contains_key(content) { 0 } else { bytes };
        self.entries.len() >= self.most || self.bytes + more > self.most_bytes
    }

    /// Evicts an eighth of the entries, at least one, because each search for the oldest visits all of them.
    fn make_room(&mut self) {
        let mut used: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
        let place = used.len() / 8;
        let (_, last, _) = used.select_nth_unstable(place);
        let last = *last;
        let old = |entry: &Entry<C>| entry.used <= last;
        let gone: Vec<K> = self
            .entries
            .iter()
            .filter(|(_, entry)| old(entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            self.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_equal_content_until_last_key_goes() {
        let mut kept = DedupLruCache::new(10, 100);
        let first = kept.insert(1, "a", Arc::new(()), 60);
        let second = kept.insert(2, "a", Arc::new(()), 60);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((kept.len(), kept.bytes), (2, 60));
        kept.remove(&1);
        assert!(kept.content(&"a").is_some());
        kept.retain(|_| false);
        assert_eq!((kept.len(), kept.bytes, kept.content(&"a").is_some()), (0, 0, false));
    }

    #[test]
    fn limits_keys_and_bytes() {
        let mut kept = DedupLruCache::new(16, 100);
        for number in 0..1000_usize {
            kept.insert(number, number, Arc::new(number), number % 30);
            assert!(kept.len() <= 16 && kept.bytes <= 100, "{kept:?}");
        }
        kept.insert(0, 5000, Arc::new(0), 101);
        assert_eq!(kept.get(&0), None, "too large to be kept at all");
    }

    #[test]
    fn keeps_recently_used_entries() {
        let mut kept = DedupLruCache::new(16, 1000);
        kept.insert(usize::MAX, usize::MAX, Arc::new(0), 1);
        for number in 0..1000 {
            kept.insert(number, number, Arc::new(0), 1);
            assert!(kept.get(&usize::MAX).is_some(), "gone after {number}");
        }
    }
}
