//! Secrets and ConfigMaps of manifests. Values of Secrets are not kept.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::key::{Key, Kind, ObjectKey};

/// Secrets and ConfigMaps by name.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Keys with a value.
    keys: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Texts of ConfigMaps.
    texts: BTreeMap<Key, BTreeMap<String, String>>,
}

// === impl Sources ===

impl Sources {
    pub(super) fn add(&mut self, object: ObjectKey, manifest: &Value) {
        let mut keys = BTreeSet::new();
        for part in ["data", "stringData", "binaryData"] {
            let values = manifest[part].as_object().into_iter().flatten();
            let filled = values.filter(|(_, value)| !value.as_str().unwrap_or_default().is_empty());
            keys.extend(filled.map(|(key, _)| key.clone()));
        }
        if object.kind == Kind::ConfigMap {
            let texts = manifest["data"].as_object().into_iter().flatten();
            let texts = texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?)));
            let texts = texts.map(|(key, text)| (key, text.to_owned())).collect();
            self.texts.insert(object.key.clone(), texts);
        }
        self.keys.insert(object, keys);
    }

    /// Returns whether an object has a key; `None` if no manifest has the object.
    pub(super) fn has(&self, object: &ObjectKey, key: &str) -> Option<bool> {
        self.keys.get(object).map(|keys| keys.contains(key))
    }

    /// Returns a text of a ConfigMap.
    pub(super) fn text(&self, map: &Key, key: &str) -> Option<&str> {
        self.texts.get(map)?.get(key).map(String::as_str)
    }
}
