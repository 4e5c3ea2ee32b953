//! Status and events of a server.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use vmcp_api::VirtualMCPServer;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::{ConditionUpdate, LeftOut, LeftOutReason};
use vmcp_api::virtual_mcp_server::{
    AudienceUnique, AuthConfigured, AuthServerConfigValidated, AuthzUpstreamSelection,
    BackendAuthConfig, CompositeToolRefsValidated, DefaultAuthConfig, DiscoveredAuthConfig,
    EmbeddingServerReady, GroupRefValidated, IdentitySynthesized, IssuerUnique, MembersIncluded,
    ObjectsApplied, OidcConfigRefValidated, Phase, PodTemplateSpecValid, ServerReady, ServerValid,
    ServiceNameUnique, SessionStorageWarning, TelemetryConfigRefValidated, VirtualMCPServerStatus,
};

use super::phase::readiness;
use crate::apply::ApplyError;
use crate::conditions::{Conditions, Transition};
use crate::controllers::Context;
use crate::controllers::transition::{notice, publish};
use crate::events::Notice;
use crate::status::{are_same, write_status};
use crate::stores::Rollout;

/// Types of conditions that the operator writes. The pods write others.
const TYPES: [&str; 19] = [
    AudienceUnique::TYPE,
    AuthConfigured::TYPE,
    AuthServerConfigValidated::TYPE,
    AuthzUpstreamSelection::TYPE,
    CompositeToolRefsValidated::TYPE,
    DefaultAuthConfig::TYPE,
    EmbeddingServerReady::TYPE,
    GroupRefValidated::TYPE,
    IdentitySynthesized::TYPE,
    IssuerUnique::TYPE,
    MembersIncluded::TYPE,
    ObjectsApplied::TYPE,
    OidcConfigRefValidated::TYPE,
    PodTemplateSpecValid::TYPE,
    ServerReady::TYPE,
    ServerValid::TYPE,
    ServiceNameUnique::TYPE,
    SessionStorageWarning::TYPE,
    TelemetryConfigRefValidated::TYPE,
];

/// Types of conditions that warn with the status True.
const WARNINGS: [&str; 3] =
    [AuthzUpstreamSelection::TYPE, IdentitySynthesized::TYPE, SessionStorageWarning::TYPE];

/// Result of a reconcile, for status and events.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) updates: Vec<ConditionUpdate>,
    /// `true` if all conditions were determined: others go.
    pub(super) is_complete: bool,
    /// Phase and message, if the configuration of this generation is not in force.
    pub(super) blocked: Option<(Phase, String)>,
    pub(super) left_out: Vec<LeftOut>,
    /// Warnings about the spec, which are events once a generation.
    pub(super) warnings: Vec<Notice>,
    /// Reasons of events by the type of the condition that they are about, where they differ from its reason.
    pub(super) events: BTreeMap<String, &'static str>,
    /// Events about what was done.
    pub(super) notices: Vec<Notice>,
    pub(super) url: String,
    pub(super) oidc_config_hash: Option<String>,
    pub(super) telemetry_config_hash: Option<String>,
}

/// Fields of a status that the operator writes.
#[derive(Debug)]
struct OwnStatus {
    phase: Phase,
    message: String,
    url: String,
    observed_generation: Option<i64>,
    oidc_config_hash: Option<String>,
    telemetry_config_hash: Option<String>,
    conditions: Conditions,
}

/// Writes the status unless it is already so, and the events of transitions.
pub(super) async fn report(
    context: &Context,
    server: &VirtualMCPServer,
    rollout: Option<&Rollout>,
    outcome: Outcome,
) -> Result<(), ApplyError> {
    let live = server.status.clone().unwrap_or_default();
    let updated: BTreeSet<_> = outcome.updates.iter().map(|update| update.type_.clone()).collect();
    let before = Conditions::of(&live.conditions, |type_| is_own(type_) || updated.contains(type_));
    let left_out = outcome.left_out.clone();
    let reasons = outcome.events.clone();
    let mut notices = outcome.notices.clone();
    if live.observed_generation != server.metadata.generation {
        notices.extend(outcome.warnings.iter().cloned());
    }
    let status = next_status(context, server, rollout, &before, outcome);
    if !status.is_in(&live, &before) {
        write_status(&context.client, &context.stores, server, &status.to_value()).await?;
    }
    let transitions = status.conditions.transitions(&before);
    notices.extend(transitions.iter().filter_map(|one| notice_of(one, &reasons)));
    notices.extend(left_out_notices(&before, &left_out));
    publish(context, server, notices).await;
    Ok(())
}

fn is_own(type_: &str) -> bool {
    let of_backends = [BackendAuthConfig::TYPE, DiscoveredAuthConfig::TYPE];
    let is_of_backend =
        |kind: &&str| type_.strip_prefix(kind).is_some_and(|backend| backend.starts_with('-'));
    TYPES.contains(&type_) || of_backends.iter().any(is_of_backend)
}

fn next_status(
    context: &Context,
    server: &VirtualMCPServer,
    rollout: Option<&Rollout>,
    before: &Conditions,
    outcome: Outcome,
) -> OwnStatus {
    let Outcome {
        mut updates,
        is_complete,
        blocked,
        left_out,
        warnings: _,
        notices: _,
        events: _,
        url,
        oidc_config_hash,
        telemetry_config_hash,
    } = outcome;
    let backends = server.status.as_ref().map(|status| status.discovered_backends.as_slice());
    let readiness = readiness(rollout, backends.unwrap_or_default(), &left_out);
    let (phase, message) =
        blocked.unwrap_or_else(|| (readiness.phase, readiness.ready.message.clone()));
    updates.push(readiness.ready);
    if is_complete {
        updates.push(members_included(&left_out));
    }
    let generation = server.metadata.generation;
    let now = context.environment.now();
    OwnStatus {
        phase,
        message,
        url,
        observed_generation: generation,
        oidc_config_hash,
        telemetry_config_hash,
        conditions: before.updated(updates, is_complete, generation, now),
    }
}

fn members_included(left_out: &[LeftOut]) -> ConditionUpdate {
    if left_out.is_empty() {
        return ConditionUpdate::new(MembersIncluded::All, "all members of the group are backends");
    }
    let lines: Vec<_> = left_out.iter().map(line).collect();
    ConditionUpdate::new(MembersIncluded::LeftOut, lines.join("; "))
}

fn line(member: &LeftOut) -> String {
    let LeftOut { backend, kind, reason, message } = member;
    format!("{} {backend}: {}: {message}", kind.as_str(), reason.as_str())
}

/// Returns the events about members that were not left out for the same reason before. A new entry is not checked at first, which
/// is none.
fn left_out_notices(before: &Conditions, left_out: &[LeftOut]) -> Vec<Notice> {
    let known = before.get(MembersIncluded::TYPE).map_or("", |condition| &condition.message);
    let lasting = left_out.iter().filter(|member| member.reason != LeftOutReason::EntryPending);
    let new = lasting.filter(|member| !known.contains(&line(member)));
    new.map(|member| Notice::warning(member.reason.as_str(), line(member))).collect()
}

/// Returns the event of a transition, with the reason that `reasons` has for the condition.
fn notice_of(transition: &Transition, reasons: &BTreeMap<String, &'static str>) -> Option<Notice> {
    let Condition { type_, reason, .. } = &transition.condition;
    // Members have events of their own, and a new server is not ready at first.
    let is_silent = type_ == MembersIncluded::TYPE
        || *reason == ServerReady::DeploymentNotReady.as_str()
        || *reason == ServerReady::BackendsUnknown.as_str();
    if is_silent {
        return None;
    }
    let notice = notice(transition, &WARNINGS)?;
    match reasons.get(type_) {
        Some(reason) if notice.is_warning => {
            Some(Notice { reason: (*reason).to_owned(), ..notice })
        }
        Some(_) | None => Some(notice),
    }
}

// === impl OwnStatus ===

impl OwnStatus {
    /// Returns whether the live status has all of it.
    fn is_in(&self, live: &VirtualMCPServerStatus, before: &Conditions) -> bool {
        let Self {
            phase,
            message,
            url,
            observed_generation,
            oidc_config_hash,
            telemetry_config_hash,
            conditions,
        } = self;
        live.phase == Some(*phase)
            && live.message.as_deref().unwrap_or_default() == message
            && live.url.as_deref().unwrap_or_default() == url
            && live.observed_generation == *observed_generation
            && live.oidc_config_hash == *oidc_config_hash
            && live.telemetry_config_hash == *telemetry_config_hash
            && are_same(conditions.list(), before.list())
    }

    fn to_value(&self) -> Value {
        let status = VirtualMCPServerStatus {
            phase: Some(self.phase),
            message: Some(self.message.clone()),
            url: Some(self.url.clone()),
            observed_generation: self.observed_generation,
            oidc_config_hash: self.oidc_config_hash.clone(),
            telemetry_config_hash: self.telemetry_config_hash.clone(),
            conditions: self.conditions.list().to_vec(),
            backend_count: None,
            discovered_backends: Vec::new(),
        };
        serde_json::to_value(status).expect("a status is JSON")
    }
}
