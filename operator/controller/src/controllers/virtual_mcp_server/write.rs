//! Writes of the objects of a server.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::Serialize;
use serde_json::{Value, json};
use vmcp_api::conversion::{Conversion, SecretEntry, SecretSource, SourceKind};
use vmcp_api::names::{account_name, optional_object_name};

use crate::apply::{ApplyError, Desired, Effect, Owner, hexadecimal};
use crate::controllers::Context;
use crate::events::Notice;
use crate::key::{Key, Kind, ObjectKey};
use crate::plan::{Access, OptionalObjects, Plan, SEAL_KEY};
use crate::stores::{Owned, Watched};

/// Bytes of a key that replicas share.
const SEAL_KEY_LENGTH: usize = 32;

/// Maximum size of the data of a Secret, which is that of the API server.
const MAX_SECRET: usize = 1_048_576;

/// Writes the objects of a plan that are not so already, in an order in which each finds what it refers to, and deletes those
/// that are not planned any more. Returns events about what was written.
pub(super) async fn write(
    context: &Context,
    owner: &Owner,
    plan: Plan,
    conversion: &Conversion,
    digests: &BTreeMap<SecretSource, [u8; 32]>,
) -> Result<Vec<Notice>, ApplyError> {
    let Plan {
        access,
        seal_secret,
        owned_secret,
        config_map,
        deployment,
        service,
        peer_service,
        status_lease,
        optional,
    } = plan;
    let namespace = &owner.object.key.namespace;
    let applier = &context.applier;
    if let Some(Access { service_account, role, role_binding }) = &access {
        applier.apply(owner, Desired::new(namespace, service_account)).await?;
        applier.apply(owner, Desired::new(namespace, role)).await?;
        applier.apply(owner, Desired::new(namespace, role_binding)).await?;
    }
    write_seal_secret(context, owner, &seal_secret).await?;
    write_owned_secret(context, owner, &owned_secret, &conversion.secrets, digests).await?;
    applier.apply(owner, Desired::new(namespace, &config_map)).await?;
    applier.apply(owner, Desired::new(namespace, &peer_service)).await.map(drop)?;
    let mut notices = Vec::new();
    let service = Desired::new(namespace, &service);
    if applier.apply(owner, service).await? == Effect::Created {
        notices.push(Notice::normal("ServiceCreated", "the Service was created"));
    }
    let deployment = Desired::new(namespace, &deployment);
    match applier.apply(owner, deployment).await? {
        Effect::Created => {
            notices.push(Notice::normal("DeploymentCreated", "the Deployment was created"));
        }
        Effect::Updated => {
            notices.push(Notice::normal("DeploymentUpdated", "the Deployment was changed"));
        }
        Effect::Unchanged => {}
    }
    applier.apply(owner, Desired::new(namespace, &status_lease)).await?;
    if access.is_none() {
        delete_access(context, owner).await?;
    }
    write_optional(context, owner, optional).await?;
    Ok(notices)
}

/// Creates the Secret with the key that replicas share, once: its key seals what clients hold.
async fn write_seal_secret(
    context: &Context,
    owner: &Owner,
    secret: &Secret,
) -> Result<(), ApplyError> {
    let desired = Desired::new(&owner.object.key.namespace, secret);
    let key = desired.key().clone();
    let fill = |object: &mut Value| {
        let ring = hexadecimal(&context.environment.random::<SEAL_KEY_LENGTH>());
        object["data"] = json!({ SEAL_KEY: ByteString(ring.into_bytes()) });
    };
    let effect = context.applier.create_once(owner, desired, fill).await?;
    if effect == Effect::Unchanged {
        let object = ObjectKey::new(Kind::Secret, key.clone());
        let digests = context.sources.digests(&object).await?;
        if digests.is_some_and(|digests| digests.is_empty()) {
            return Err(ApplyError::Refused {
                kind: "Secret".to_owned(),
                key,
                message: format!(
                    "it has no key {SEAL_KEY}; delete it, and the operator creates it"
                ),
            });
        }
    }
    Ok(())
}

/// Applies the Secret with copies of all keys that the server refers to. Those that do not exist yet are absent.
async fn write_owned_secret(
    context: &Context,
    owner: &Owner,
    secret: &Secret,
    entries: &[SecretEntry],
    digests: &BTreeMap<SecretSource, [u8; 32]>,
) -> Result<(), ApplyError> {
    let mut desired = Desired::new(&owner.object.key.namespace, secret);
    let present = entries.iter().filter_map(|entry| {
        let digest = digests.get(&key_of(&entry.source))?;
        Some((entry, hexadecimal(digest)))
    });
    let present: Vec<(&SecretEntry, String)> = present.collect();
    // Digests stand for the values until they are needed.
    let data: serde_json::Map<_, _> =
        present.iter().map(|(entry, digest)| (entry.file.clone(), digest.clone().into())).collect();
    if !data.is_empty() {
        desired.object_mut()["data"] = Value::Object(data);
    }
    let key = desired.key().clone();
    let entries: Vec<&SecretEntry> = present.into_iter().map(|(entry, _)| entry).collect();
    let fill = async |object: &mut Value| fill_values(context, &key, &entries, object).await;
    context.applier.apply_with(owner, desired, fill).await.map(drop)
}

/// Returns a source as a key of its object, whatever the form of its copy.
fn key_of(source: &SecretSource) -> SecretSource {
    SecretSource::new(source.kind, &source.name, &source.key)
}

/// Puts the values in place of their digests.
async fn fill_values(
    context: &Context,
    key: &Key,
    entries: &[&SecretEntry],
    object: &mut Value,
) -> Result<(), ApplyError> {
    let mut objects: BTreeMap<ObjectKey, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    let mut size = 0;
    for entry in entries {
        let kind = match entry.source.kind {
            SourceKind::ConfigMap => Kind::ConfigMap,
            SourceKind::Secret => Kind::Secret,
        };
        let source = ObjectKey::new(kind, key.sibling(&entry.source.name));
        if !objects.contains_key(&source) {
            let values = context.sources.values(&source).await?.unwrap_or_default();
            objects.insert(source.clone(), values);
        }
        // A value that went meanwhile leads to another reconcile.
        let value = objects.get(&source).and_then(|values| values.get(&entry.source.key));
        let copy = entry.source.content(value.map_or(&[], Vec::as_slice));
        size += copy.len();
        object["data"][&entry.file] = json!(ByteString(copy));
    }
    if size > MAX_SECRET {
        return Err(ApplyError::Refused {
            kind: "Secret".to_owned(),
            key: key.clone(),
            message: format!(
                "copies of the referenced keys have {size} bytes, more than the {MAX_SECRET} of a Secret; refer to smaller ones"
            ),
        });
    }
    Ok(())
}

/// Deletes the account of a server whose spec names an existing one.
async fn delete_access(context: &Context, owner: &Owner) -> Result<(), ApplyError> {
    let name = account_name(&owner.object.key.name);
    let writer = Writer { context, owner, name: &name };
    // A binding goes before what it binds.
    writer.write(None::<RoleBinding>).await?;
    writer.write(None::<Role>).await?;
    writer.write(None::<ServiceAccount>).await
}

/// Writes the objects that the spec asks for, and deletes those that it does not ask for any more.
async fn write_optional(
    context: &Context,
    owner: &Owner,
    optional: OptionalObjects,
) -> Result<(), ApplyError> {
    let OptionalObjects { disruption_budget, network_policy, ingress, http_route, service_monitor } =
        optional;
    let name = optional_object_name(&owner.object.key.name);
    let writer = Writer { context, owner, name: &name };
    writer.write(disruption_budget).await?;
    writer.write(network_policy).await?;
    writer.write(ingress).await?;
    writer.write(http_route).await?;
    writer.write(service_monitor).await
}

/// Writer of objects of one name that not every server has.
#[derive(Clone, Copy)]
struct Writer<'a> {
    context: &'a Context,
    owner: &'a Owner,
    name: &'a str,
}

impl Writer<'_> {
    /// Applies an object; without it, deletes the one that the owner has.
    async fn write<W>(self, object: Option<W>) -> Result<(), ApplyError>
    where
        W: Watched<Kept = Owned> + Serialize,
    {
        let Self { context, owner, name } = self;
        let key = owner.object.key.sibling(name);
        if let Some(object) = object {
            let desired = Desired::new(&key.namespace, &object);
            return context.applier.apply(owner, desired).await.map(drop);
        }
        let Some(present) = W::store(&context.stores).get(&key) else { return Ok(()) };
        let controller = present.controller.as_ref();
        let is_own = present.is_labeled
            && controller.is_some_and(|controller| *controller.uid == *owner.reference.uid);
        if is_own { context.applier.delete::<W>(&key, &present.uid).await } else { Ok(()) }
    }
}
