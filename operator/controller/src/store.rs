//! Objects of one kind, as the last list and the watch after it tell.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::key::Key;

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Store<T> {
    objects: RwLock<BTreeMap<Key, Versioned<T>>>,
}

/// Object with its resource version. A version that is not a number counts as 0, which any other one replaces.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    pub(crate) version: u64,
    pub(crate) value: Arc<T>,
}

/// Change of a store. A created object has no `old`, a deleted one no `new`.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub(crate) key: Key,
    pub(crate) old: Option<Arc<T>>,
    pub(crate) new: Option<Arc<T>>,
}

// === impl Store ===

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { objects: RwLock::default() }
    }
}

impl<T> Store<T> {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.read().get(key).map(|object| Arc::clone(&object.value))
    }

    /// Returns the objects of a namespace, or of all of them, in order of their keys.
    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<(Key, Arc<T>)> {
        let objects = self.read();
        let pair = |(key, object): (&Key, &Versioned<T>)| (key.clone(), Arc::clone(&object.value));
        let Some(namespace) = namespace else { return objects.iter().map(pair).collect() };
        objects
            .range(Key::new(namespace, "")..)
            .take_while(|(key, _)| *key.namespace == *namespace)
            .map(pair)
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    /// Stores an object, unless the present one is newer.
    pub(crate) fn put(&self, key: Key, object: Versioned<T>) -> Option<Change<T>> {
        let mut objects = self.write();
        let is_old = |present: &Versioned<T>| present.version >= object.version.max(1);
        if objects.get(&key).is_some_and(is_old) {
            return None;
        }
        let new = Some(Arc::clone(&object.value));
        let old = objects.insert(key.clone(), object).map(|object| object.value);
        Some(Change { key, old, new })
    }

    /// Removes an object that was deleted at `version`.
    pub(crate) fn remove(&self, key: Key, version: u64) -> Option<Change<T>> {
        let mut objects = self.write();
        if objects.get(&key)?.version > version {
            return None;
        }
        let old = objects.remove(&key).map(|object| object.value);
        Some(Change { key, old, new: None })
    }

    /// Replaces the objects of a namespace, or of all of them, by those of a list. Equal versions are equal objects.
    pub(crate) fn replace(
        &self,
        namespace: Option<&str>,
        listed: Vec<(Key, Versioned<T>)>,
    ) -> Vec<Change<T>> {
        let mut objects = self.write();
        let is_inside = |key: &Key| namespace.is_none_or(|name| *key.namespace == *name);
        let mut present = std::mem::take(&mut *objects);
        objects.extend(present.extract_if(.., |key, _| !is_inside(key)));
        let mut changes = Vec::new();
        for (key, object) in listed {
            let old = present.remove(&key);
            if old.as_ref().is_none_or(|old| old.version != object.version || old.version == 0) {
                let new = Some(Arc::clone(&object.value));
                changes.push(Change { key: key.clone(), old: old.map(|old| old.value), new });
            }
            objects.insert(key, object);
        }
        let gone = present.into_iter();
        changes.extend(gone.map(|(key, old)| Change { key, old: Some(old.value), new: None }));
        changes
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Key, Versioned<T>>> {
        // No code panics while it holds the lock.
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Key, Versioned<T>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: u64) -> Versioned<u64> {
        Versioned { version, value: Arc::new(version) }
    }

    fn names(changes: &[Change<u64>]) -> Vec<String> {
        changes.iter().map(|change| change.key.to_string()).collect()
    }

    #[test]
    fn older_version_changes_nothing() {
        let store = Store::default();
        let key = || Key::new("ns", "a");
        assert!(store.put(key(), object(5)).is_some());
        assert!(store.put(key(), object(5)).is_none());
        assert!(store.put(key(), object(4)).is_none());
        assert!(store.remove(key(), 4).is_none());
        assert!(store.remove(key(), 6).is_some());
        assert_eq!(store.get(&key()), None);
    }

    #[test]
    fn list_reports_changes_of_its_namespace() {
        let store = Store::default();
        for (namespace, name) in [("a", "same"), ("a", "older"), ("a", "gone"), ("b", "other")] {
            store.put(Key::new(namespace, name), object(5));
        }
        let listed = [("same", 5), ("older", 3), ("new", 1)];
        let listed = listed.map(|(name, version)| (Key::new("a", name), object(version)));
        let changes = store.replace(Some("a"), listed.into());
        assert_eq!(names(&changes), ["a/older", "a/new", "a/gone"]);
        assert_eq!(store.list(Some("a")).len(), 3);
        assert_eq!(store.len(), 4);
        assert_eq!(names(&store.replace(None, Vec::new())).len(), 4);
    }
}
