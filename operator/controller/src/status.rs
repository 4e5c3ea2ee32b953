//! Writes of a status, all of whose fields the operator has.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::json;

use crate::apply::{ApplyError, within};
use crate::conditions::is_same;
use crate::key::Key;
use crate::names::FIELD_MANAGER;
use crate::store::Versioned;
use crate::stores::{Stores, WatchedWhole, version_of};

/// Applies the fields of a status that the operator has.
pub(crate) async fn write_status<W>(
    client: &Client,
    stores: &Stores,
    object: &W,
    status: &impl Serialize,
) -> Result<(), ApplyError>
where
    W: WatchedWhole,
{
    let key = Key::of(object);
    // With the uid, the status of a deleted object does not reach one of the same name.
    let patch = json!({
        "apiVersion": W::api_version(&()), "kind": W::kind(&()),
        "metadata": {"name": &*key.name, "namespace": &*key.namespace, "uid": object.meta().uid},
        "status": status,
    });
    let api: Api<W> = Api::namespaced(client.clone(), &key.namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(&patch);
    let request = api.patch_status(&key.name, &parameters, &patch);
    let written = within(W::KIND.as_str(), &key, request).await?;
    let version = version_of(written.meta());
    let written = Versioned { version, value: Arc::new(written.keep()) };
    stores.record_status::<W>(key, written);
    Ok(())
}

/// Returns whether two lists of conditions, sorted by type, are equal but for fractions of seconds.
pub(crate) fn are_same(a: &[Condition], b: &[Condition]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
}
