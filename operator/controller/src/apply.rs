//! Writes of generated objects: server-side apply with one field manager, and nothing is written that is already so.

mod coverage;
mod error;
mod hash;
mod owner;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

pub(crate) use self::error::ApplyError;
pub(crate) use self::hash::{hash, hexadecimal};
pub(crate) use self::owner::Owner;
use crate::key::{Key, Kind, ObjectKey};
use crate::names::{APPLIED_HASH, FIELD_MANAGER, REPLICAS_MANAGER, SERVER_GENERATION};
use crate::store::Versioned;
use crate::stores::{MANAGED_BY, Owned, Stores};

/// Time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Writer of generated objects.
#[derive(Clone)]
pub(crate) struct Applier {
    client: Client,
    stores: Arc<Stores>,
}

/// Generated object.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    resource: ApiResource,
    /// The kind, if it is watched.
    watched: Option<Kind>,
    key: Key,
    object: Value,
}

/// Effect of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Effect {
    Unchanged,
    Created,
    Updated,
}

// === impl Desired ===

impl Desired {
    /// Takes a generated object of the owner's namespace.
    pub(crate) fn new<K>(namespace: &str, object: &K) -> Self
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let resource = ApiResource::erase::<K>(&());
        let name = object.meta().name.clone().unwrap_or_default();
        let mut value = serde_json::to_value(object).expect("objects of Kubernetes are JSON");
        value["apiVersion"] = resource.api_version.clone().into();
        value["kind"] = resource.kind.clone().into();
        value["metadata"]["namespace"] = namespace.into();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        Self {
            watched: watched(&resource),
            resource,
            key: Key::new(namespace, &name),
            object: value,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn object_mut(&mut self) -> &mut Value {
        &mut self.object
    }

    /// Adds owner, label and annotations, and returns the hash of all.
    fn complete(&mut self, owner: &Owner) -> String {
        let metadata = &mut self.object["metadata"];
        metadata["ownerReferences"] = json!([owner.reference]);
        metadata["labels"][MANAGED_BY] = FIELD_MANAGER.into();
        if self.watched == Some(Kind::ConfigMap) {
            metadata["annotations"][SERVER_GENERATION] = owner.generation.to_string().into();
        }
        let hash = hash(&self.object);
        self.object["metadata"]["annotations"][APPLIED_HASH] = hash.clone().into();
        hash
    }
}

/// Returns the kind of a resource, if the operator watches it.
fn watched(resource: &ApiResource) -> Option<Kind> {
    let kinds = [
        (Kind::ConfigMap, ""),
        (Kind::Secret, ""),
        (Kind::ServiceAccount, ""),
        (Kind::Service, ""),
        (Kind::Role, "rbac.authorization.k8s.io"),
        (Kind::RoleBinding, "rbac.authorization.k8s.io"),
        (Kind::Deployment, "apps"),
        (Kind::StatefulSet, "apps"),
        (Kind::PodDisruptionBudget, "policy"),
        (Kind::NetworkPolicy, "networking.k8s.io"),
        (Kind::Ingress, "networking.k8s.io"),
        (Kind::HTTPRoute, "gateway.networking.k8s.io"),
        (Kind::ServiceMonitor, "monitoring.coreos.com"),
    ];
    let is_same =
        |(kind, group): &(Kind, &str)| kind.as_str() == resource.kind && *group == resource.group;
    kinds.into_iter().find(is_same).map(|(kind, _)| kind)
}

// === impl Applier ===

impl Applier {
    pub(crate) fn new(client: Client, stores: Arc<Stores>) -> Self {
        Self { client, stores }
    }

    /// Applies an object unless it is already so.
    pub(crate) async fn apply(
        &self,
        owner: &Owner,
        desired: Desired,
    ) -> Result<Effect, ApplyError> {
        self.apply_with(owner, desired, async |_: &mut Value| Ok(())).await
    }

    /// Applies an object, whose secret values `fill` puts in place of their digests only when the object is written.
    pub(crate) async fn apply_with(
        &self,
        owner: &Owner,
        mut desired: Desired,
        fill: impl AsyncFnOnce(&mut Value) -> Result<(), ApplyError>,
    ) -> Result<Effect, ApplyError> {
        let hash = desired.complete(owner);
        let present = self.present(&desired).await?;
        if let Some(present) = &present {
            check_owner(&desired, owner, present)?;
            let fields = present.fields.as_deref().and_then(|text| serde_json::from_str(text).ok());
            let is_same = present.applied_hash.as_deref() == Some(&*hash);
            if is_same && fields.is_some_and(|fields| coverage::covers(&fields, &desired.object)) {
                return Ok(Effect::Unchanged);
            }
            self.release_replicas(owner, &desired, present).await?;
        }
        fill(&mut desired.object).await?;
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let api = self.api(&desired);
        let patch = Patch::Apply(&desired.object);
        let written =
            self.limit(&desired, api.patch(&desired.key.name, &parameters, &patch)).await?;
        self.record(owner, &desired, written);
        let effect = if present.is_some() { Effect::Updated } else { Effect::Created };
        tracing::info!(
            kind = %desired.resource.kind, object = %desired.key, ?effect, "object applied"
        );
        Ok(effect)
    }

    /// Creates an object that is never changed, unless it exists.
    pub(crate) async fn create_once(
        &self,
        owner: &Owner,
        mut desired: Desired,
        fill: impl FnOnce(&mut Value),
    ) -> Result<Effect, ApplyError> {
        desired.complete(owner);
        if let Some(present) = self.present(&desired).await? {
            check_owner(&desired, owner, &present)?;
            return Ok(Effect::Unchanged);
        }
        fill(&mut desired.object);
        let object: DynamicObject = serde_json::from_value(desired.object.clone())
            .expect("the object has the metadata of an object");
        let api = self.api(&desired);
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.limit(&desired, api.create(&parameters, &object)).await {
            Ok(written) => {
                self.record(owner, &desired, written);
                tracing::info!(kind = %desired.resource.kind, object = %desired.key, "object created");
                Ok(Effect::Created)
            }
            Err(ApplyError::Request { source: kube::Error::Api(status), .. })
                if status.reason == "AlreadyExists" =>
            {
                // Another replica of the operator made it, or the watch is late.
                let present = self.live(&desired).await?;
                let present =
                    present.map_or(Ok(()), |present| check_owner(&desired, owner, &present));
                present.map(|()| Effect::Unchanged)
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes an object of the owner that is not generated any more.
    pub(crate) async fn delete<K>(&self, key: &Key, uid: &str) -> Result<(), ApplyError>
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters =
            DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        match within(&resource.kind, key, api.delete(&key.name, &parameters)).await {
            Ok(_) => {
                tracing::info!(kind = %resource.kind, object = %key, "object deleted");
                Ok(())
            }
            Err(ApplyError::Refused { .. })
                if api.get_opt(&key.name).await.is_ok_and(|found| found.is_none()) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Lets another manager of the operator hold the replicas of a Deployment before they leave its manifest: a field
    /// without a manager would get its default.
    async fn release_replicas(
        &self,
        owner: &Owner,
        desired: &Desired,
        present: &Owned,
    ) -> Result<(), ApplyError> {
        let replicas = present.rollout.as_ref().and_then(|rollout| rollout.replicas);
        let (Some(replicas), Some(fields)) = (replicas, &present.fields) else { return Ok(()) };
        let fields: Value = serde_json::from_str(fields).unwrap_or_default();
        let is_held = fields["f:spec"].get("f:replicas").is_some();
        if !is_held || desired.object["spec"].get("replicas").is_some() {
            return Ok(());
        }
        let object = json!({
            "apiVersion": desired.resource.api_version, "kind": desired.resource.kind,
            "metadata": {"name": &*desired.key.name, "namespace": &*desired.key.namespace},
            "spec": {"replicas": replicas},
        });
        let parameters = PatchParams::apply(REPLICAS_MANAGER);
        let api = self.api(desired);
        let patch = Patch::Apply(&object);
        let written =
            self.limit(desired, api.patch(&desired.key.name, &parameters, &patch)).await?;
        self.record(owner, desired, written);
        Ok(())
    }

    /// Returns the object from the store, or from the API server if it may exist all the same: of most kinds, objects without
    /// the operator's label are not watched.
    async fn present(&self, desired: &Desired) -> Result<Option<Owned>, ApplyError> {
        if let Some(present) = self.stored(desired) {
            return Ok(Some(present));
        }
        if desired.watched.is_some_and(Kind::is_watched_without_label) {
            return Ok(None);
        }
        self.live(desired).await
    }

    fn stored(&self, desired: &Desired) -> Option<Owned> {
        let store = desired.watched.and_then(|kind| self.stores.owned(kind))?;
        store.get(&desired.key).map(|present| (*present).clone())
    }

    async fn live(&self, desired: &Desired) -> Result<Option<Owned>, ApplyError> {
        let api = self.api(desired);
        let found = self.limit(desired, api.get_opt(&desired.key.name)).await?;
        Ok(found.map(|object| to_owned(desired, object)))
    }

    fn record(&self, owner: &Owner, desired: &Desired, written: DynamicObject) {
        let Some(kind) = desired.watched else { return };
        let Some(store) = self.stores.owned(kind) else { return };
        let kept = to_owned(desired, written);
        let written = Versioned { version: kept.version, value: Arc::new(kept) };
        let object = ObjectKey::new(kind, desired.key.clone());
        self.stores.record(store, &object, written, &owner.object);
    }

    fn api(&self, desired: &Desired) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &desired.key.namespace, &desired.resource)
    }

    async fn limit<T>(
        &self,
        desired: &Desired,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApplyError> {
        within(&desired.resource.kind, &desired.key, request).await
    }
}

/// Bounds the time of a request.
pub(crate) async fn within<T>(
    kind: &str,
    key: &Key,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApplyError> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(result) => result.map_err(|source| ApplyError::of_request(kind, key, source)),
        Err(_) => Err(ApplyError::Timeout {
            kind: kind.to_owned(),
            key: key.clone(),
            seconds: REQUEST_TIMEOUT.as_secs(),
        }),
    }
}

/// Returns what is kept of an object.
fn to_owned(desired: &Desired, object: DynamicObject) -> Owned {
    let workload = match desired.watched {
        Some(Kind::Deployment) => object.clone().try_parse().map(Owned::of_deployment).ok(),
        Some(Kind::StatefulSet) => object.clone().try_parse().map(Owned::of_stateful_set).ok(),
        _ => None,
    };
    workload.unwrap_or_else(|| Owned::of_metadata(object.metadata))
}

/// Refuses an object that is not the owner's. One without an owner that has the operator's label is adopted: its owner was
/// deleted without its dependents.
fn check_owner(desired: &Desired, owner: &Owner, present: &Owned) -> Result<(), ApplyError> {
    let found = match &present.controller {
        Some(controller) if *controller.uid == *owner.reference.uid => return Ok(()),
        Some(controller) => format!("belongs to {} {}", controller.kind, controller.name),
        None if present.is_labeled => return Ok(()),
        None => format!("does not belong to {}", owner.object),
    };
    let (kind, key) = (desired.resource.kind.clone(), desired.key.clone());
    Err(ApplyError::Foreign { kind, key, owner: found })
}
