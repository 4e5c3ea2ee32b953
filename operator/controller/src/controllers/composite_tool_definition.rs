//! Controller of VirtualMCPCompositeToolDefinition: whether servers can use the definition, and which do.

use std::sync::Arc;
use std::time::Duration;

use vmcp_api::conversion::{Checks, ConditionUpdate, ResourceError};
use vmcp_api::{
    ValidationStatus, VirtualMCPCompositeToolDefinition, VirtualMCPCompositeToolDefinitionStatus,
    WorkflowReady, WorkflowValidated,
};

use super::referrers::Referrers;
use super::transition::{notice, publish};
use super::{Context, RESYNC_INTERVAL};
use crate::apply::ApplyError;
use crate::conditions::Conditions;
use crate::key::ObjectKey;
use crate::lookup::Lookup;
use crate::server_checks::ServerChecks;
use crate::status::{are_same, write_status};

/// Maximum number of errors in a status.
const MAX_ERRORS: usize = 20;

/// Maximum length of an error in a status, in characters.
const MAX_ERROR: usize = 1_024;

const TYPES: [&str; 2] = [
    <WorkflowReady as vmcp_api::condition::ConditionReason>::TYPE,
    <WorkflowValidated as vmcp_api::condition::ConditionReason>::TYPE,
];

/// Reconciles a definition, and returns the time after which it is due again.
pub(super) async fn reconcile(
    context: &Context,
    target: &ObjectKey,
) -> Result<Option<Duration>, ApplyError> {
    let store = &context.stores.composite_tool_definitions;
    let Some(definition) = store.get(&target.key) else { return Ok(None) };
    if definition.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let mut lookup = Lookup::new(&context.stores, target.clone());
    let referrers = Referrers::of(&mut lookup);
    lookup.finish();
    let (validation_status, validation_errors, updates) = judge(&definition);
    let live = definition.status.clone().unwrap_or_default();
    let before = Conditions::of(&live.conditions, |type_| TYPES.contains(&type_));
    let generation = definition.metadata.generation;
    let conditions = before.updated(updates, true, generation, context.environment.now());
    let status = VirtualMCPCompositeToolDefinitionStatus {
        validation_status,
        validation_errors,
        referencing_virtual_servers: referrers.servers(),
        observed_generation: generation,
        conditions: conditions.list().to_vec(),
    };
    let rest = |status: &VirtualMCPCompositeToolDefinitionStatus| {
        VirtualMCPCompositeToolDefinitionStatus { conditions: Vec::new(), ..status.clone() }
    };
    if rest(&live) != rest(&status) || !are_same(conditions.list(), before.list()) {
        write_status(&context.client, &context.stores, &*definition, &status).await?;
    }
    let transitions = conditions.transitions(&before);
    let validated = transitions.iter().filter(|one| one.condition.type_ == TYPES[1]);
    let notices = validated.filter_map(|one| notice(one, &[])).collect();
    publish(context, &*definition, notices).await;
    Ok(Some(context.environment.jitter(RESYNC_INTERVAL)))
}

/// Returns what is wrong with a definition, and the reason that all errors have in common.
pub(crate) fn check_definition(
    definition: &VirtualMCPCompositeToolDefinition,
) -> Result<(), (WorkflowValidated, Vec<ResourceError>)> {
    let checks: Arc<dyn Checks> = Arc::new(ServerChecks);
    definition.check(&checks)
}

/// Returns the result of the check, its errors, and the conditions.
fn judge(
    definition: &VirtualMCPCompositeToolDefinition,
) -> (ValidationStatus, Vec<String>, Vec<ConditionUpdate>) {
    let Err((reason, errors)) = check_definition(definition) else {
        let updates = vec![
            ConditionUpdate::new(WorkflowValidated::Success, "the workflow is valid"),
            ConditionUpdate::new(WorkflowReady::Ready, "servers can use the workflow"),
        ];
        return (ValidationStatus::Valid, Vec::new(), updates);
    };
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let updates = vec![
        ConditionUpdate::new(reason, texts.join("; ")),
        ConditionUpdate::new(WorkflowReady::NotReady, "the workflow is invalid"),
    ];
    (ValidationStatus::Invalid, bounded(texts), updates)
}

/// Returns the errors for a status. The last one counts those that it leaves out.
fn bounded(texts: Vec<String>) -> Vec<String> {
    let more = texts.len().saturating_sub(MAX_ERRORS);
    let shorten = |text: String| match text.char_indices().nth(MAX_ERROR) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    let mut kept: Vec<_> = texts.into_iter().take(MAX_ERRORS).map(shorten).collect();
    if more > 0 {
        kept.push(format!("and {more} more"));
    }
    kept
}
