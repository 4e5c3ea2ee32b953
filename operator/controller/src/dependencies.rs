//! Index from what a reconcile read to the objects that it was for.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::{Key, ObjectKey};

/// Something that a reconcile depends on, whether it exists or not.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Topic {
    /// One object.
    Object(ObjectKey),
    /// The members of a group.
    Members(Key),
    /// The resources that refer to a shared one.
    Referrers(ObjectKey),
    /// The servers that require an audience.
    Audience(Arc<str>),
    /// The servers with an embedded authorization server of an issuer.
    Issuer(Arc<str>),
    /// The servers of a namespace with a telemetry service name; the key has both.
    ServiceName(Key),
}

/// Index from topics to the objects that depend on them.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    dependents: HashMap<Topic, HashSet<ObjectKey>>,
    topics: HashMap<ObjectKey, BTreeSet<Topic>>,
}

// === impl Dependencies ===

impl Dependencies {
    /// Replaces the topics of an object.
    pub(crate) fn set(&self, target: &ObjectKey, topics: BTreeSet<Topic>) {
        let mut index = self.lock();
        let old = index.topics.remove(target).unwrap_or_default();
        for topic in old.difference(&topics) {
            if let Some(dependents) = index.dependents.get_mut(topic) {
                dependents.remove(target);
                if dependents.is_empty() {
                    index.dependents.remove(topic);
                }
            }
        }
        for topic in topics.difference(&old) {
            index.dependents.entry(topic.clone()).or_default().insert(target.clone());
        }
        if !topics.is_empty() {
            index.topics.insert(target.clone(), topics);
        }
    }

    /// Adds a topic of an object to the present ones.
    pub(crate) fn add(&self, target: &ObjectKey, topic: &Topic) {
        let mut index = self.lock();
        if index.topics.entry(target.clone()).or_default().insert(topic.clone()) {
            index.dependents.entry(topic.clone()).or_default().insert(target.clone());
        }
    }

    /// Returns the objects that depend on a topic.
    pub(crate) fn dependents(&self, topic: &Topic) -> Vec<ObjectKey> {
        self.lock().dependents.get(topic).into_iter().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        // No code panics while it holds the lock.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Kind;

    #[test]
    fn replaced_topics_lose_their_dependent() {
        let dependencies = Dependencies::default();
        let target = ObjectKey::new(Kind::VirtualMCPServer, Key::new("ns", "a"));
        let members = |group| Topic::Members(Key::new("ns", group));
        dependencies.set(&target, [members("one"), members("two")].into());
        dependencies.set(&target, [members("two"), members("three")].into());
        assert_eq!(dependencies.dependents(&members("one")), []);
        assert_eq!(dependencies.dependents(&members("two")), std::slice::from_ref(&target));
        assert_eq!(dependencies.dependents(&members("three")), std::slice::from_ref(&target));
        dependencies.set(&target, BTreeSet::new());
        assert!(dependencies.lock().dependents.is_empty());
    }
}
