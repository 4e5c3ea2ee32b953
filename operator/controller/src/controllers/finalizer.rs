//! Finalizer of resources that servers and workloads share.

use std::sync::Arc;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Context;
use crate::apply::{ApplyError, within};
use crate::key::Key;
use crate::names::{FIELD_MANAGER, FINALIZER};
use crate::store::Versioned;
use crate::stores::{WatchedWhole, version_of};

/// Returns whether an object has the finalizer.
pub(super) fn has_finalizer<W: WatchedWhole>(object: &W) -> bool {
    object.meta().finalizers.iter().flatten().any(|one| one == FINALIZER)
}

/// Adds the finalizer unless it is there. Returns the object with it.
pub(super) async fn protect<W>(context: &Context, object: Arc<W>) -> Result<Arc<W>, ApplyError>
where
    W: WatchedWhole<Kept = W>,
{
    if has_finalizer(&*object) {
        return Ok(object);
    }
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.push(FINALIZER.to_owned());
    let written = write(context, &*object, &finalizers).await?;
    let version = version_of(written.meta());
    let written = Arc::new(written.keep());
    let versioned = Versioned { version, value: Arc::clone(&written) };
    context.stores.record_status::<W>(Key::of(&*written), versioned);
    Ok(written)
}

/// Removes the finalizer. The API server then deletes the object, unless it has others.
pub(super) async fn release<W: WatchedWhole>(
    context: &Context,
    object: &W,
) -> Result<(), ApplyError> {
    let finalizers = object.meta().finalizers.iter().flatten();
    let others: Vec<_> = finalizers.filter(|one| *one != FINALIZER).cloned().collect();
    write(context, object, &others).await?;
    tracing::info!(kind = W::KIND.as_str(), object = %Key::of(object), "finalizer removed");
    Ok(())
}

/// Replaces the finalizers of an object, unless it changed since it was read: another manager may have finalizers of its own.
async fn write<W: WatchedWhole>(
    context: &Context,
    object: &W,
    finalizers: &[String],
) -> Result<W, ApplyError> {
    let key = Key::of(object);
    let version = &object.meta().resource_version;
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    let api: Api<W> = Api::namespaced(context.client.clone(), &key.namespace);
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(&patch);
    within(W::KIND.as_str(), &key, api.patch(&key.name, &parameters, &patch)).await
}
