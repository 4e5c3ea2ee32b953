//! Reads of a reconcile from the stores. Each one is a dependency: a change of what was read repeats the reconcile.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::dependencies::Topic;
use crate::key::{Key, Kind, ObjectKey};
use crate::stores::{Stores, Watched};

/// Reads of one reconcile from the stores, in the namespace of its object.
pub(crate) struct Lookup<'s> {
    stores: &'s Stores,
    target: ObjectKey,
    topics: BTreeSet<Topic>,
}

// === impl Lookup ===

impl<'s> Lookup<'s> {
    /// Begins the reads for an object, on which it depends itself.
    pub(crate) fn new(stores: &'s Stores, target: ObjectKey) -> Self {
        let own = Topic::Object(target.clone());
        let mut lookup = Self { stores, target, topics: BTreeSet::new() };
        lookup.depend(own);
        lookup
    }

    pub(crate) fn target(&self) -> &ObjectKey {
        &self.target
    }

    pub(crate) fn key(&self) -> &Key {
        &self.target.key
    }

    /// Adds a dependency. It counts at once, so that no change between a read and the end of the reconcile is missed.
    pub(crate) fn depend(&mut self, topic: Topic) {
        self.stores.dependencies.add(&self.target, &topic);
        self.topics.insert(topic);
    }

    /// Returns an object of the namespace.
    pub(crate) fn get<W: Watched>(&mut self, name: &str) -> Option<Arc<W::Kept>> {
        let key = self.target.key.sibling(name);
        self.depend(Topic::Object(ObjectKey::new(W::KIND, key.clone())));
        W::store(self.stores).get(&key)
    }

    /// Returns whether another object gets its first status now: judged without it, an object would get a status of its own that
    /// holds for a moment. The object depends on the other one.
    pub(crate) fn awaits_first_status<W>(
        &mut self,
        name: &str,
        has_status: impl FnOnce(&W::Kept) -> bool,
    ) -> bool
    where
        W: Watched,
    {
        let key = self.target.key.sibling(name);
        // Before the object is read: a reconcile that ends in between has stored its status.
        let is_busy = self.stores.queue.is_busy_with(&ObjectKey::new(W::KIND, key));
        is_busy && self.get::<W>(name).is_some_and(|object| !has_status(&object))
    }

    /// Returns the objects of a kind in the namespace that match. The caller depends on a topic that covers them.
    pub(crate) fn list<W: Watched>(&self, matches: impl Fn(&W::Kept) -> bool) -> Vec<Arc<W::Kept>> {
        let objects = W::store(self.stores).list(Some(&self.target.key.namespace));
        objects.into_iter().map(|(_, object)| object).filter(|object| matches(object)).collect()
    }

    /// Adds a dependency on a Secret or ConfigMap, and returns its name as an object.
    pub(crate) fn source(&mut self, kind: Kind, name: &str) -> ObjectKey {
        let object = ObjectKey::new(kind, self.target.key.sibling(name));
        self.depend(Topic::Object(object.clone()));
        object
    }

    /// Ends the dependencies of former reconciles.
    pub(crate) fn finish(self) {
        self.stores.dependencies.set(&self.target, self.topics);
    }
}
