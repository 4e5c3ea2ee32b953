//! Controller of the configuration that servers and workloads share: it is judged by itself, and kept while anything refers to
//! it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::object::{HasSpec, HasStatus};
use serde::Serialize;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::{
    Available, Checks, ConditionUpdate, ResourceError, SecretSource, SharedResource, SourceKind,
};
use vmcp_api::{DeletionBlocked, KeyRefsValidated};

use super::finalizer::{has_finalizer, protect, release};
use super::referrers::Referrers;
use super::transition::{notice, publish};
use super::{Context, REFUSED_INTERVAL, RESYNC_INTERVAL};
use crate::apply::{ApplyError, hash};
use crate::conditions::{Conditions, Transition};
use crate::events::Notice;
use crate::key::{Kind, ObjectKey};
use crate::lookup::Lookup;
use crate::server_checks::ServerChecks;
use crate::status::{are_same, write_status};
use crate::stores::WatchedWhole;

/// Reason of the event about a deletion that waits.
const DELETION_BLOCKED: &str = "DeletionBlocked";

/// Configuration that servers and workloads share: what differs between its kinds.
pub(super) trait SharedConfig:
    WatchedWhole<Kept = Self>
    + SharedResource
    + HasSpec<Spec: Serialize>
    + HasStatus<Status: ConfigStatus>
{
    /// Types of the conditions that the operator writes.
    const TYPES: &'static [&'static str];

    /// Types of conditions that warn with the status True.
    const WARNINGS: &'static [&'static str] = &[DeletionBlocked::TYPE];

    /// Returns a status without conditions.
    fn new_status(fields: StatusFields, referrers: &Referrers) -> Self::Status;

    /// Returns the condition `Valid`; `error` is what is wrong.
    fn valid(error: Option<String>) -> ConditionUpdate;

    /// Returns further conditions.
    fn advice(&self) -> Option<ConditionUpdate> {
        None
    }

    /// Returns whether a server with a reference to the configuration reports the keys that do not exist.
    fn has_reporter(&self, referrers: &Referrers) -> bool {
        referrers.include(Kind::VirtualMCPServer)
    }
}

/// Status of a shared configuration.
pub(super) trait ConfigStatus:
    Clone + Default + PartialEq + Serialize + Send + Sync
{
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
}

/// Fields that the status of all kinds has.
pub(super) struct StatusFields {
    pub(super) config_hash: String,
    pub(super) observed_generation: Option<i64>,
}

/// Reconciles an object, and returns the time after which it is due again.
pub(super) async fn reconcile<C: SharedConfig>(
    context: &Context,
    target: &ObjectKey,
) -> Result<Option<Duration>, ApplyError> {
    let Some(mut config) = C::store(&context.stores).get(&target.key) else { return Ok(None) };
    let is_deleted = config.meta().deletion_timestamp.is_some();
    if is_deleted && !has_finalizer(&*config) {
        return Ok(None);
    }
    let mut lookup = Lookup::new(&context.stores, target.clone());
    let mut referrers = Referrers::of(&mut lookup);
    if is_deleted && referrers.is_empty() {
        // A referrer of which the watch has not told yet.
        referrers = Referrers::live(context, target).await?;
        if referrers.is_empty() {
            lookup.finish();
            release(context, &*config).await?;
            return Ok(None);
        }
    }
    let keys = key_refs(context, &mut lookup, &*config, &referrers).await?;
    lookup.finish();
    if !is_deleted {
        config = protect(context, config).await?;
    }
    let mut updates = vec![C::valid(error_of(&*config))];
    updates.extend(config.advice());
    updates.extend(keys);
    updates.extend(is_deleted.then(|| deletion_blocked(&referrers)));
    report(context, &*config, &referrers, updates).await?;
    let delay = if is_deleted { REFUSED_INTERVAL } else { RESYNC_INTERVAL };
    Ok(Some(context.environment.jitter(delay)))
}

/// Returns what is wrong with a resource by itself.
pub(crate) fn errors_of(resource: &impl SharedResource) -> Vec<ResourceError> {
    let checks: Arc<dyn Checks> = Arc::new(ServerChecks);
    resource.errors(&checks)
}

fn error_of(resource: &impl SharedResource) -> Option<String> {
    let errors: Vec<_> = errors_of(resource).iter().map(ToString::to_string).collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}

fn deletion_blocked(referrers: &Referrers) -> ConditionUpdate {
    let message = format!(
        "still referenced by {}; remove the references, or delete these resources",
        referrers.describe()
    );
    ConditionUpdate::new(DeletionBlocked::Referenced, message)
}

/// Returns the condition about the keys that the configuration names, if it names some and no server reports them.
async fn key_refs<C: SharedConfig>(
    context: &Context,
    lookup: &mut Lookup<'_>,
    config: &C,
    referrers: &Referrers,
) -> Result<Option<ConditionUpdate>, ApplyError> {
    let entries = config.key_references();
    if entries.is_empty() || config.has_reporter(referrers) {
        return Ok(None);
    }
    let mut available = Available::default();
    for entry in entries {
        let SecretSource { kind, name, key, form: _ } = &entry.source;
        let kind = match kind {
            SourceKind::ConfigMap => Kind::ConfigMap,
            SourceKind::Secret => Kind::Secret,
        };
        let object = lookup.source(kind, name);
        let values = context.sources.digests(&object).await?;
        if values.is_some_and(|values| values.contains_key(key)) {
            available.insert(&entry.source);
        }
    }
    let missing = config.missing_keys(&available);
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    Ok(Some(match missing.as_slice() {
        [] => ConditionUpdate::new(KeyRefsValidated::Valid, "all keys exist"),
        missing => ConditionUpdate::new(KeyRefsValidated::NotFound, missing.join("; ")),
    }))
}

/// Writes the status unless it is already so, and the events of transitions.
async fn report<C: SharedConfig>(
    context: &Context,
    config: &C,
    referrers: &Referrers,
    updates: Vec<ConditionUpdate>,
) -> Result<(), ApplyError> {
    let mut live = config.status().cloned().unwrap_or_default();
    let old = std::mem::take(live.conditions_mut());
    let before = Conditions::of(&old, |type_| C::TYPES.contains(&type_));
    let observed_generation = config.meta().generation;
    let now = context.environment.now();
    let conditions = before.updated(updates, true, observed_generation, now);
    let spec = serde_json::to_value(config.spec()).expect("a spec is JSON");
    let fields = StatusFields { config_hash: hash(&spec), observed_generation };
    let mut status = C::new_status(fields, referrers);
    if live != status || !are_same(conditions.list(), before.list()) {
        *status.conditions_mut() = conditions.list().to_vec();
        write_status(&context.client, &context.stores, config, &status).await?;
    }
    let transitions = conditions.transitions(&before);
    let notices = transitions.iter().filter_map(|one| event(one, C::WARNINGS)).collect();
    publish(context, config, notices).await;
    Ok(())
}

fn event(transition: &Transition, warnings: &[&str]) -> Option<Notice> {
    let notice = notice(transition, warnings)?;
    if transition.condition.type_ == DeletionBlocked::TYPE {
        return Some(Notice { reason: DELETION_BLOCKED.to_owned(), ..notice });
    }
    Some(notice)
}
