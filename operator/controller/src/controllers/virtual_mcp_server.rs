//! Controller of VirtualMCPServer: resolve, convert, plan, apply, report.

mod phase;
mod report;
mod resolve;
mod uniqueness;
mod write;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use vmcp_api::conversion::{ConditionUpdate, Conversion, ConversionError, convert};
use vmcp_api::names::{config_map_name, deployment_name, service_url};
use vmcp_api::virtual_mcp_server::{Phase, PodTemplateSpecValid, ServerValid};
use vmcp_api::{MCPGroup, MCPServerEntry, VirtualMCPServer};

use self::report::{Outcome, report};
use self::resolve::{Resolved, resolve};
pub(crate) use self::resolve::{Resources, resources};
pub(crate) use self::uniqueness::conditions as uniqueness_conditions;
use self::write::write;
use super::write_outcome::WriteOutcome;
use super::{Context, FIRST_STATUS_INTERVAL, RESYNC_INTERVAL};
use crate::apply::{ApplyError, Owner, hash};
use crate::conditions::joined;
use crate::events::Notice;
use crate::key::{Key, ObjectKey};
use crate::lookup::Lookup;
use crate::plan::{Plan, plan};

/// Reconciles a server, and returns the time after which it is due again.
pub(crate) async fn reconcile(
    context: &Context,
    target: &ObjectKey,
) -> Result<Option<Duration>, ApplyError> {
    let Some(server) = context.stores.servers.get(&target.key) else { return Ok(None) };
    if server.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the objects of the server with it.
        return Ok(None);
    }
    let mut lookup = Lookup::new(&context.stores, target.clone());
    if awaits_first_status(&mut lookup, &server) {
        return Ok(Some(FIRST_STATUS_INTERVAL));
    }
    let uniqueness = uniqueness::conditions(&context.stores, &mut lookup, &server);
    let resolved = resolve(context, &mut lookup, Arc::clone(&server)).await?;
    lookup.finish();
    let spec_hash = |spec: Option<serde_json::Value>| spec.map(|spec| hash(&spec));
    let oidc = resolved.inputs.oidc_config.as_ref().map(|config| to_value(&config.spec));
    let telemetry = resolved.inputs.telemetry_config.as_ref().map(|config| to_value(&config.spec));
    let mut outcome = Outcome {
        updates: uniqueness,
        url: service_url(&target.key.name, &target.key.namespace, &resolved.inputs.defaults),
        oidc_config_hash: spec_hash(oidc),
        telemetry_config_hash: spec_hash(telemetry),
        ..Outcome::default()
    };
    outcome.updates.push(resolved.group.clone());
    let mut delay = RESYNC_INTERVAL;
    match prepare(context, &server, &resolved, &mut outcome) {
        Some((conversion, plan)) => {
            let owner = Owner::of(target, &*server)?;
            let written = write(context, &owner, plan, &conversion, &resolved.digests);
            // Boxed: it holds the objects of the plan, which are large.
            let written = Box::pin(written).await;
            let WriteOutcome { notices, condition, refusal, delay: due } =
                WriteOutcome::of(written)?;
            outcome.notices = notices;
            outcome.updates.push(condition);
            outcome.blocked = refusal.map(|message| (Phase::Failed, message));
            delay = due;
        }
        None => explain_running(context, &server, &mut outcome),
    }
    let deployment = target.key.sibling(&deployment_name(&target.key.name));
    let deployment = context.stores.deployments.get(&deployment);
    let rollout = deployment.as_ref().and_then(|deployment| deployment.rollout.as_ref());
    // The store may have a newer status than the one that the reconcile began with.
    let server = context.stores.servers.get(&target.key).unwrap_or(server);
    report(context, &server, rollout, outcome).await?;
    Ok(Some(context.environment.jitter(delay)))
}

/// Returns whether the group gets its first status now, or for a new server one of its entries: pods that start without an entry
/// would be replaced at once.
fn awaits_first_status(lookup: &mut Lookup<'_>, server: &VirtualMCPServer) -> bool {
    let group = &server.spec.group_ref.name;
    if lookup.awaits_first_status::<MCPGroup>(group, |group| group.status.is_some()) {
        return true;
    }
    if server.status.is_some() {
        return false;
    }
    let entries = lookup.list::<MCPServerEntry>(|entry| {
        entry.status.is_none() && entry.spec.group_ref.name == *group
    });
    entries.iter().any(|entry| {
        let name = entry.metadata.name.as_deref().unwrap_or_default();
        lookup.awaits_first_status::<MCPServerEntry>(name, |entry| entry.status.is_some())
    })
}

/// Converts and plans. Returns `None` if the configuration cannot come into force.
fn prepare(
    context: &Context,
    server: &VirtualMCPServer,
    resolved: &Resolved,
    outcome: &mut Outcome,
) -> Option<(Conversion, Plan)> {
    if let Some(phase) = resolved.blocked {
        outcome.blocked = Some((phase, resolved.group.message.clone()));
        return None;
    }
    let conversion = match convert(&resolved.inputs) {
        Ok(conversion) => conversion,
        Err(errors) => {
            record_errors(outcome, errors);
            return None;
        }
    };
    outcome.left_out.clone_from(&conversion.left_out);
    let warnings = conversion.warnings.iter();
    outcome.warnings = warnings
        .map(|warning| Notice::warning(warning.reason.as_str(), &warning.message))
        .collect();
    let plan = match plan(server, &conversion, &context.settings) {
        Ok(plan) => plan,
        Err(error) => {
            outcome.updates.push(error.condition());
            outcome.blocked = Some((Phase::Failed, error.to_string()));
            return None;
        }
    };
    outcome.updates.extend(conversion.conditions.iter().cloned());
    for update in valid(server) {
        if outcome.updates.iter().all(|present| present.type_ != update.type_) {
            outcome.updates.push(update);
        }
    }
    outcome.is_complete = true;
    Some((conversion, plan))
}

/// Returns the conditions of a valid server.
fn valid(server: &VirtualMCPServer) -> Vec<ConditionUpdate> {
    let mut updates = vec![ConditionUpdate::new(ServerValid::Valid, "the configuration is valid")];
    if server.spec.pod_template_spec.is_some() {
        let message = "spec.podTemplateSpec is valid";
        updates.push(ConditionUpdate::new(PodTemplateSpecValid::Valid, message));
    }
    updates
}

fn record_errors(outcome: &mut Outcome, errors: Vec<ConversionError>) {
    let is_failed = errors.iter().any(|error| error.phase == Phase::Failed);
    let phase = if is_failed { Phase::Failed } else { Phase::Pending };
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    outcome.blocked = Some((phase, texts.join("; ")));
    let updates = errors.into_iter().map(|error| {
        let ConversionError { path, condition, phase: _, event } = error;
        if let Some(reason) = event {
            outcome.events.insert(condition.type_.clone(), reason);
        }
        let message = format!("{path}: {}", condition.message);
        ConditionUpdate { message, ..condition }
    });
    let updates = joined(updates.collect::<Vec<_>>());
    outcome.updates.extend(updates);
}

/// Adds to the message which generation the pods run.
fn explain_running(context: &Context, server: &VirtualMCPServer, outcome: &mut Outcome) {
    let key = Key::of(server);
    let map = context.stores.config_maps.get(&key.sibling(&config_map_name(&key.name)));
    let running = map.and_then(|map| map.server_generation);
    let Some(running) = running.filter(|running| server.metadata.generation != Some(*running))
    else {
        return;
    };
    let note = format!("; the pods run generation {running}");
    if let Some((_, message)) = &mut outcome.blocked {
        message.push_str(&note);
    }
    for update in &mut outcome.updates {
        if update.type_ == <ServerValid as vmcp_api::condition::ConditionReason>::TYPE {
            update.message.push_str(&note);
        }
    }
}

fn to_value(spec: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(spec).expect("a spec is JSON")
}
