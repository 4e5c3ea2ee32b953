//! Controller of MCPGroup: the names of its members. A deleted group needs no farewell: what refers to it sees that it is gone.

use std::time::Duration;

use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{
    GroupPhase, MCPGroupStatus, MCPRemoteProxy, MCPServer, MCPServerEntry, MembersChecked,
};

use super::{Context, RESYNC_INTERVAL};
use crate::apply::ApplyError;
use crate::conditions::Conditions;
use crate::dependencies::Topic;
use crate::key::ObjectKey;
use crate::lookup::Lookup;
use crate::status::{are_same, write_status};

/// Reconciles a group, and returns the time after which it is due again.
pub(super) async fn reconcile(
    context: &Context,
    target: &ObjectKey,
) -> Result<Option<Duration>, ApplyError> {
    let Some(group) = context.stores.groups.get(&target.key) else { return Ok(None) };
    let mut lookup = Lookup::new(&context.stores, target.clone());
    lookup.depend(Topic::Members(target.key.clone()));
    let name = &*target.key.name;
    let servers = lookup.list::<MCPServer>(|server| {
        server.spec.group_ref.as_ref().is_some_and(|group| group.name == name)
    });
    let proxies = lookup.list::<MCPRemoteProxy>(|proxy| {
        proxy.spec.group_ref.as_ref().is_some_and(|group| group.name == name)
    });
    let entries = lookup.list::<MCPServerEntry>(|entry| entry.spec.group_ref.name == name);
    lookup.finish();
    let names = |names: Vec<Option<&String>>| -> Vec<String> {
        names.into_iter().flatten().cloned().collect()
    };
    let servers = names(servers.iter().map(|server| server.metadata.name.as_ref()).collect());
    let proxies = names(proxies.iter().map(|proxy| proxy.metadata.name.as_ref()).collect());
    let entries = names(entries.iter().map(|entry| entry.metadata.name.as_ref()).collect());
    let live = group.status.clone().unwrap_or_default();
    let update = ConditionUpdate::new(MembersChecked::Succeeded, "the members are known");
    let before = Conditions::of(&live.conditions, |_| true);
    let generation = group.metadata.generation;
    let now = context.environment.now();
    let count = |names: &[String]| i32::try_from(names.len()).unwrap_or(i32::MAX);
    let status = MCPGroupStatus {
        phase: GroupPhase::Ready,
        server_count: count(&servers),
        remote_proxy_count: count(&proxies),
        entry_count: count(&entries),
        servers,
        remote_proxies: proxies,
        entries,
        observed_generation: generation,
        conditions: before.updated(vec![update], true, generation, now).list().to_vec(),
    };
    if !is_equal(&live, &status) {
        write_status(&context.client, &context.stores, &*group, &status).await?;
    }
    Ok(Some(context.environment.jitter(RESYNC_INTERVAL)))
}

fn is_equal(live: &MCPGroupStatus, status: &MCPGroupStatus) -> bool {
    let without =
        |status: &MCPGroupStatus| MCPGroupStatus { conditions: Vec::new(), ..status.clone() };
    without(live) == without(status) && are_same(&live.conditions, &status.conditions)
}
