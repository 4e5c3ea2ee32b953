//! Secrets and ConfigMaps that resources refer to. The operator keeps digests of their values, and no value.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};
use sha2::{Digest as _, Sha256};

use crate::apply::{ApplyError, within};
use crate::key::{Key, Kind, ObjectKey};
use crate::stores::{Stores, version_of};

/// Reader of Secrets and ConfigMaps.
pub(crate) struct Sources {
    client: Client,
    stores: Arc<Stores>,
    digests: Mutex<HashMap<ObjectKey, Cached>>,
}

/// Digests of the values of an object, by key. An empty value counts as absent.
pub(crate) type Digests = BTreeMap<String, [u8; 32]>;

struct Cached {
    version: u64,
    epoch: u64,
    digests: Arc<Digests>,
}

// === impl Sources ===

impl Sources {
    pub(crate) fn new(client: Client, stores: Arc<Stores>) -> Self {
        Self { client, stores, digests: Mutex::default() }
    }

    /// Returns the digests of an object's values; `None` if it does not exist.
    pub(crate) async fn digests(
        &self,
        object: &ObjectKey,
    ) -> Result<Option<Arc<Digests>>, ApplyError> {
        let store = self.stores.owned(object.kind);
        let Some(present) = store.and_then(|store| store.get(&object.key)) else {
            self.lock().remove(object);
            return Ok(None);
        };
        let epoch = self.stores.epoch();
        if let Some(cached) = self.lock().get(object)
            && cached.epoch == epoch
            && cached.version >= present.version.max(1)
        {
            return Ok(Some(Arc::clone(&cached.digests)));
        }
        let Some((version, values)) = self.read(object).await? else { return Ok(None) };
        let digest = |value: Vec<u8>| Sha256::digest(value).into();
        let values = values.into_iter().filter(|(_, value)| !value.is_empty());
        let digests: Digests = values.map(|(key, value)| (key, digest(value))).collect();
        let digests = Arc::new(digests);
        let cached = Cached { version, epoch, digests: Arc::clone(&digests) };
        self.lock().insert(object.clone(), cached);
        Ok(Some(digests))
    }

    /// Returns the values of an object; `None` if it does not exist.
    pub(crate) async fn values(
        &self,
        object: &ObjectKey,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, ApplyError> {
        Ok(self.read(object).await?.map(|(_, values)| values))
    }

    /// Returns a value of a ConfigMap as text; `None` if it does not exist.
    pub(crate) async fn text(&self, map: &Key, entry: &str) -> Result<Option<String>, ApplyError> {
        let object = ObjectKey::new(Kind::ConfigMap, map.clone());
        if self.stores.config_maps.get(map).is_none() {
            return Ok(None);
        }
        let mut values = self.values(&object).await?.unwrap_or_default();
        Ok(values.remove(entry).map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    async fn read(
        &self,
        object: &ObjectKey,
    ) -> Result<Option<(u64, BTreeMap<String, Vec<u8>>)>, ApplyError> {
        let kind = object.kind.as_str();
        if object.kind == Kind::Secret {
            let request = self.api::<Secret>(object);
            let found = within(kind, &object.key, request.get_opt(&object.key.name)).await?;
            return Ok(found.map(|secret| {
                let version = version_of(&secret.metadata);
                let values = secret.data.unwrap_or_default();
                (version, values.into_iter().map(|(key, value)| (key, value.0)).collect())
            }));
        }
        let request = self.api::<ConfigMap>(object);
        let found = within(kind, &object.key, request.get_opt(&object.key.name)).await?;
        Ok(found.map(|map| {
            let version = version_of(&map.metadata);
            let texts = map.data.unwrap_or_default();
            let texts = texts.into_iter().map(|(key, value)| (key, value.into_bytes()));
            let bytes = map.binary_data.unwrap_or_default();
            let bytes = bytes.into_iter().map(|(key, value)| (key, value.0));
            (version, texts.chain(bytes).collect())
        }))
    }

    fn api<K>(&self, object: &ObjectKey) -> Api<K>
    where
        K: ResourceExt<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &object.key.namespace)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Cached>> {
        // No code panics while it holds the lock.
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sources")
    }
}
