//! Consumer of a watch: it fills the store of a kind.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Owned, Stores, Watched, WatchedWhole, version_of};
use crate::key::Key;
use crate::store::Versioned;
use crate::watch::Consumer;

/// Consumer that fills a store and queues what depends on its changes.
pub(super) struct Filler<W> {
    stores: Arc<Stores>,
    namespace: Option<String>,
    is_listed: AtomicBool,
    kind: PhantomData<fn() -> W>,
}

// === impl Filler ===

impl<W: Watched> Filler<W> {
    /// Fills the part of a store that a namespace has, or all of it.
    pub(super) fn new(stores: Arc<Stores>, namespace: Option<&str>) -> Self {
        let namespace = namespace.map(str::to_owned);
        Self { stores, namespace, is_listed: false.into(), kind: PhantomData }
    }

    fn fill(&self, listed: Vec<(Key, Versioned<W::Kept>)>) {
        self.stores.lists.fetch_add(1, Ordering::AcqRel);
        let changes = W::store(&self.stores).replace(self.namespace.as_deref(), listed);
        for change in changes {
            self.stores.follow::<W>(&change);
        }
        if !self.is_listed.swap(true, Ordering::Relaxed) {
            self.stores.count_list();
        }
    }

    fn insert(&self, (key, object): (Key, Versioned<W::Kept>)) {
        if let Some(change) = W::store(&self.stores).put(key, object) {
            self.stores.follow::<W>(&change);
        }
    }

    fn delete(&self, (key, object): (Key, Versioned<W::Kept>)) {
        if let Some(change) = W::store(&self.stores).remove(key, object.version) {
            self.stores.follow::<W>(&change);
        }
    }
}

impl<W: WatchedWhole> Consumer<W> for Filler<W> {
    type Item = (Key, Versioned<W::Kept>);

    fn convert(&self, object: W) -> Self::Item {
        let (key, version) = (Key::of(&object), version_of(object.meta()));
        (key, Versioned { version, value: Arc::new(object.keep()) })
    }

    fn replace(&self, items: Vec<Self::Item>) {
        self.fill(items);
    }

    fn put(&self, item: Self::Item) {
        self.insert(item);
    }

    fn remove(&self, item: Self::Item) {
        self.delete(item);
    }
}

impl<W: Watched<Kept = Owned>> Consumer<kube::core::PartialObjectMeta<W>> for Filler<W> {
    type Item = (Key, Versioned<Owned>);

    fn convert(&self, object: kube::core::PartialObjectMeta<W>) -> Self::Item {
        let key = Key::of(&object);
        let kept = Owned::of_metadata(object.metadata);
        (key, Versioned { version: kept.version, value: Arc::new(kept) })
    }

    fn replace(&self, items: Vec<Self::Item>) {
        self.fill(items);
    }

    fn put(&self, item: Self::Item) {
        self.insert(item);
    }

    fn remove(&self, item: Self::Item) {
        self.delete(item);
    }
}
