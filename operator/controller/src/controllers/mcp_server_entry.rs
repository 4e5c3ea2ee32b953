//! Controller of MCPServerEntry: whether what it refers to exists. The remote server is never asked.

use std::time::Duration;

use vmcp_api::conversion::{ConditionUpdate, check_remote_url};
use vmcp_api::{
    EntryCaBundleRef, EntryExternalAuthConfig, EntryGroupRef, EntryHeaderSecrets, EntryPhase,
    EntryRemoteUrl, EntryValid, GroupPhase, MCPExternalAuthConfig, MCPGroup, MCPServerEntry,
    MCPServerEntryStatus,
};

use super::{Context, FIRST_STATUS_INTERVAL, RESYNC_INTERVAL};
use crate::apply::ApplyError;
use crate::conditions::Conditions;
use crate::key::{Kind, ObjectKey};
use crate::lookup::Lookup;
use crate::status::{are_same, write_status};

/// Reconciles an entry, and returns the time after which it is due again.
pub(super) async fn reconcile(
    context: &Context,
    target: &ObjectKey,
) -> Result<Option<Duration>, ApplyError> {
    let Some(entry) = context.stores.entries.get(&target.key) else { return Ok(None) };
    let mut lookup = Lookup::new(&context.stores, target.clone());
    let group_name = &entry.spec.group_ref.name;
    if lookup.awaits_first_status::<MCPGroup>(group_name, |group| group.status.is_some()) {
        return Ok(Some(FIRST_STATUS_INTERVAL));
    }
    let (group, is_group_pending) = group(&mut lookup, &entry);
    let mut updates = vec![url(&entry), credentials(&mut lookup, &entry)];
    updates.push(ca_bundle(context, &mut lookup, &entry).await?);
    updates.extend(header_secrets(context, &mut lookup, &entry).await?);
    lookup.finish();
    if !is_group_pending {
        updates.push(group.clone());
    }
    let is_bad =
        |update: &&ConditionUpdate| update.status == vmcp_api::condition::ConditionStatus::False;
    let errors: Vec<_> = updates.iter().filter(is_bad).map(|one| one.message.clone()).collect();
    let phase = match (errors.is_empty(), is_group_pending) {
        (false, _) => EntryPhase::Failed,
        (true, true) => EntryPhase::Pending,
        (true, false) => EntryPhase::Valid,
    };
    if is_group_pending {
        updates.push(group);
    }
    updates.push(match errors.as_slice() {
        [] => ConditionUpdate::new(EntryValid::Valid, "the entry is valid"),
        errors => ConditionUpdate::new(EntryValid::Invalid, errors.join("; ")),
    });
    let live = entry.status.clone().unwrap_or_default();
    let generation = entry.metadata.generation;
    let before = Conditions::of(&live.conditions, |_| true);
    let conditions = before.updated(updates, true, generation, context.environment.now());
    let conditions = conditions.list().to_vec();
    let is_equal = live.phase == phase
        && live.observed_generation == generation
        && are_same(&live.conditions, &conditions);
    if !is_equal {
        let status = MCPServerEntryStatus { phase, observed_generation: generation, conditions };
        write_status(&context.client, &context.stores, &*entry, &status).await?;
    }
    Ok(Some(context.environment.jitter(RESYNC_INTERVAL)))
}

/// Returns the condition about the group, and whether waiting for it may help.
fn group(lookup: &mut Lookup<'_>, entry: &MCPServerEntry) -> (ConditionUpdate, bool) {
    let name = &entry.spec.group_ref.name;
    let Some(group) = lookup.get::<MCPGroup>(name) else {
        let message = format!("spec.groupRef: MCPGroup {name} does not exist");
        return (ConditionUpdate::new(EntryGroupRef::NotFound, message), false);
    };
    if group.status.as_ref().map(|status| status.phase) == Some(GroupPhase::Ready) {
        let message = format!("MCPGroup {name} is ready");
        return (ConditionUpdate::new(EntryGroupRef::Valid, message), false);
    }
    let message = format!("MCPGroup {name} is not ready");
    (ConditionUpdate::new(EntryGroupRef::NotReady, message), true)
}

fn url(entry: &MCPServerEntry) -> ConditionUpdate {
    match check_remote_url(&entry.spec.remote_url, entry.spec.allow_private_endpoint) {
        Ok(()) => ConditionUpdate::new(EntryRemoteUrl::Valid, "the URL is permitted"),
        Err(reason) => {
            ConditionUpdate::new(EntryRemoteUrl::Invalid, format!("spec.remoteUrl: {reason}"))
        }
    }
}

fn credentials(lookup: &mut Lookup<'_>, entry: &MCPServerEntry) -> ConditionUpdate {
    let Some(reference) = &entry.spec.external_auth_config_ref else {
        let message = "the entry refers to no credentials";
        return ConditionUpdate::new(EntryExternalAuthConfig::NotConfigured, message);
    };
    let name = &reference.name;
    if lookup.get::<MCPExternalAuthConfig>(name).is_some() {
        let message = format!("MCPExternalAuthConfig {name} exists");
        return ConditionUpdate::new(EntryExternalAuthConfig::Valid, message);
    }
    let message =
        format!("spec.externalAuthConfigRef: MCPExternalAuthConfig {name} does not exist");
    ConditionUpdate::new(EntryExternalAuthConfig::NotFound, message)
}

async fn ca_bundle(
    context: &Context,
    lookup: &mut Lookup<'_>,
    entry: &MCPServerEntry,
) -> Result<ConditionUpdate, ApplyError> {
    let bundle = entry.spec.ca_bundle_ref.as_ref();
    let Some(map) = bundle.and_then(|bundle| bundle.config_map_ref.as_ref()) else {
        let message = "the entry refers to no CA bundle";
        return Ok(ConditionUpdate::new(EntryCaBundleRef::NotConfigured, message));
    };
    let object = lookup.source(Kind::ConfigMap, &map.name);
    let values = context.sources.digests(&object).await?;
    let exists = values.is_some_and(|values| values.contains_key(&map.key));
    if exists || map.optional == Some(true) {
        let message = "the CA bundle exists or is optional";
        return Ok(ConditionUpdate::new(EntryCaBundleRef::Valid, message));
    }
    let message = format!(
        "spec.caBundleRef: key {} of ConfigMap {} does not exist, or is empty",
        map.key, map.name
    );
    Ok(ConditionUpdate::new(EntryCaBundleRef::NotFound, message))
}

/// Returns the condition about the Secrets of headers, if there are some.
async fn header_secrets(
    context: &Context,
    lookup: &mut Lookup<'_>,
    entry: &MCPServerEntry,
) -> Result<Option<ConditionUpdate>, ApplyError> {
    let headers = entry.spec.header_forward.as_ref();
    let headers = headers.map_or(&[][..], |headers| &headers.add_headers_from_secret);
    let mut missing = Vec::new();
    for header in headers {
        let reference = &header.value_secret_ref;
        let object = lookup.source(Kind::Secret, &reference.name);
        let values = context.sources.digests(&object).await?;
        if !values.is_some_and(|values| values.contains_key(&reference.key)) {
            missing.push(format!(
                "spec.headerForward: header {}: key {} of Secret {} does not exist, or is empty",
                header.header_name, reference.key, reference.name
            ));
        }
    }
    if headers.is_empty() {
        return Ok(None);
    }
    Ok(Some(match missing.as_slice() {
        [] => ConditionUpdate::new(EntryHeaderSecrets::Valid, "the Secrets of the headers exist"),
        missing => ConditionUpdate::new(EntryHeaderSecrets::NotFound, missing.join("; ")),
    }))
}
