//! Controller of EmbeddingServer: a StatefulSet of text-embeddings-inference, its Service, and whether a replica is ready.

use std::time::Duration;

use vmcp_api::condition::{ConditionReason, ConditionStatus};
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::names::{embedding_set_name, embedding_url};
use vmcp_api::{
    EmbeddingPhase, EmbeddingPodTemplate, EmbeddingReady, EmbeddingServer, EmbeddingServerStatus,
    EmbeddingToken, EmbeddingValid,
};

use super::transition::{notice, publish};
use super::write_outcome::WriteOutcome;
use super::{Context, RESYNC_INTERVAL};
use crate::apply::{ApplyError, Desired, Effect, Owner};
use crate::conditions::{Conditions, Transition};
use crate::events::Notice;
use crate::key::{Kind, ObjectKey};
use crate::lookup::Lookup;
use crate::plan::{EmbeddingPlan, plan_embedding_server};
use crate::status::{are_same, write_status};
use crate::stores::Rollout;

/// Result of a reconcile, for status and events.
#[derive(Debug, Default)]
struct Outcome {
    updates: Vec<ConditionUpdate>,
    /// Reason for which the objects are not those of this generation.
    obstacle: Option<String>,
    notices: Vec<Notice>,
}

/// Reconciles an embedding server, and returns the time after which it is due again.
pub(super) async fn reconcile(
    context: &Context,
    target: &ObjectKey,
) -> Result<Option<Duration>, ApplyError> {
    let Some(server) = context.stores.embedding_servers.get(&target.key) else { return Ok(None) };
    let mut lookup = Lookup::new(&context.stores, target.clone());
    let token = token(context, &mut lookup, &server).await?;
    lookup.finish();
    if server.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the objects of the server.
        report_deletion(context, &server).await?;
        return Ok(None);
    }
    let mut outcome = Outcome { updates: token.into_iter().collect(), ..Outcome::default() };
    let mut delay = RESYNC_INTERVAL;
    match plan_embedding_server(&server, &context.settings) {
        Ok(plan) => {
            outcome.updates.extend(valid(&server));
            // Boxed: it holds the objects of the plan, which are large.
            let written = Box::pin(write(context, &server, target, plan)).await;
            let WriteOutcome { notices, condition, refusal, delay: due } =
                WriteOutcome::of(written)?;
            outcome.notices = notices;
            outcome.updates.push(condition);
            outcome.obstacle = refusal;
            delay = due;
        }
        Err(error) => {
            let update = if error.is_of_pod_template() {
                ConditionUpdate::new(EmbeddingPodTemplate::Invalid, error.to_string())
            } else {
                ConditionUpdate::new(EmbeddingValid::Invalid, error.to_string())
            };
            outcome.updates.push(update);
            outcome.obstacle = Some(error.to_string());
        }
    }
    report(context, target, &server, outcome).await?;
    Ok(Some(context.environment.jitter(delay)))
}

/// Returns the condition about the Secret with the token, if the server has one. Pods wait for it by themselves.
async fn token(
    context: &Context,
    lookup: &mut Lookup<'_>,
    server: &EmbeddingServer,
) -> Result<Option<ConditionUpdate>, ApplyError> {
    let Some(reference) = &server.spec.hf_token_secret_ref else { return Ok(None) };
    let object = lookup.source(Kind::Secret, &reference.name);
    let values = context.sources.digests(&object).await?;
    if values.is_some_and(|values| values.contains_key(&reference.key)) {
        return Ok(Some(ConditionUpdate::new(EmbeddingToken::Valid, "the token exists")));
    }
    let message = format!(
        "spec.hfTokenSecretRef: key {} of Secret {} does not exist, or is empty",
        reference.key, reference.name
    );
    Ok(Some(ConditionUpdate::new(EmbeddingToken::NotFound, message)))
}

/// Returns the conditions of a valid spec.
fn valid(server: &EmbeddingServer) -> Vec<ConditionUpdate> {
    let mut updates = vec![ConditionUpdate::new(EmbeddingValid::Valid, "the spec is valid")];
    if server.spec.pod_template_spec.is_some() {
        let message = "spec.podTemplateSpec is valid";
        updates.push(ConditionUpdate::new(EmbeddingPodTemplate::Valid, message));
    }
    updates
}

/// Writes the objects of a plan that are not so already. Returns events about what was written.
async fn write(
    context: &Context,
    server: &EmbeddingServer,
    target: &ObjectKey,
    plan: EmbeddingPlan,
) -> Result<Vec<Notice>, ApplyError> {
    let EmbeddingPlan { stateful_set, service } = plan;
    let owner = Owner::of(target, server)?;
    let namespace = &target.key.namespace;
    let mut notices = Vec::new();
    // The StatefulSet names the Service.
    if context.applier.apply(&owner, Desired::new(namespace, &service)).await? == Effect::Created {
        notices.push(Notice::normal("ServiceCreated", "the Service was created"));
    }
    match context.applier.apply(&owner, Desired::new(namespace, &stateful_set)).await? {
        Effect::Created => {
            notices.push(Notice::normal("StatefulSetCreated", "the StatefulSet was created"));
        }
        Effect::Updated => {
            notices.push(Notice::normal("StatefulSetUpdated", "the StatefulSet was changed"));
        }
        Effect::Unchanged => {}
    }
    Ok(notices)
}

/// Returns phase and message. Replicas of an earlier generation serve until those of this one replace them.
fn phase(rollout: Option<&Rollout>, outcome: &Outcome) -> (EmbeddingPhase, String) {
    let ready = rollout.map_or(0, |rollout| rollout.ready_replicas);
    let current = rollout.map_or(0, |rollout| rollout.current_replicas);
    let token = outcome.updates.iter().find(|update| {
        update.type_ == EmbeddingToken::TYPE && update.status == ConditionStatus::False
    });
    match (ready, current, &outcome.obstacle) {
        (1.., _, None) => (EmbeddingPhase::Ready, format!("{ready} replicas are ready")),
        (1.., _, Some(obstacle)) => {
            let message = format!("replicas of an earlier generation serve: {obstacle}");
            (EmbeddingPhase::Ready, message)
        }
        (_, _, Some(obstacle)) => (EmbeddingPhase::Failed, obstacle.clone()),
        (_, _, None) if let Some(token) = token => (EmbeddingPhase::Pending, token.message.clone()),
        (_, 1.., None) => {
            (EmbeddingPhase::Downloading, "replicas download the model, and load it".to_owned())
        }
        (_, _, None) => (EmbeddingPhase::Pending, "no replica exists yet".to_owned()),
    }
}

/// Writes the status unless it is already so, and the events of transitions.
async fn report(
    context: &Context,
    target: &ObjectKey,
    server: &EmbeddingServer,
    mut outcome: Outcome,
) -> Result<(), ApplyError> {
    let set = target.key.sibling(&embedding_set_name(&target.key.name));
    let set = context.stores.stateful_sets.get(&set);
    let rollout = set.as_ref().and_then(|set| set.rollout.as_ref());
    let (phase, message) = phase(rollout, &outcome);
    let reason = match phase {
        EmbeddingPhase::Ready => EmbeddingReady::StatefulSetReady,
        _ => EmbeddingReady::StatefulSetNotReady,
    };
    outcome.updates.push(ConditionUpdate::new(reason, &message));
    let Outcome { updates, obstacle, mut notices } = outcome;
    let live = server.status.clone().unwrap_or_default();
    let before = Conditions::of(&live.conditions, |_| true);
    let generation = server.metadata.generation;
    // An obstacle leaves conditions undetermined, which stay.
    let is_complete = obstacle.is_none();
    let conditions = before.updated(updates, is_complete, generation, context.environment.now());
    notices.extend(conditions.transitions(&before).iter().filter_map(notice_of));
    let settings = &context.settings.defaults;
    let status = EmbeddingServerStatus {
        phase,
        message: Some(message),
        url: Some(embedding_url(
            &target.key.name,
            &target.key.namespace,
            server.spec.port,
            settings,
        )),
        ready_replicas: rollout.map_or(0, |rollout| rollout.ready_replicas),
        observed_generation: generation,
        conditions: conditions.list().to_vec(),
    };
    if !is_equal(&live, &status) {
        write_status(&context.client, &context.stores, server, &status).await?;
    }
    publish(context, server, notices).await;
    Ok(())
}

/// Tells those that wait for the server that it goes.
async fn report_deletion(context: &Context, server: &EmbeddingServer) -> Result<(), ApplyError> {
    let live = server.status.clone().unwrap_or_default();
    let status = EmbeddingServerStatus {
        phase: EmbeddingPhase::Terminating,
        message: Some("the embedding server is being deleted".to_owned()),
        ..live.clone()
    };
    if !is_equal(&live, &status) {
        write_status(&context.client, &context.stores, server, &status).await?;
    }
    Ok(())
}

fn is_equal(live: &EmbeddingServerStatus, status: &EmbeddingServerStatus) -> bool {
    let without = |status: &EmbeddingServerStatus| EmbeddingServerStatus {
        conditions: Vec::new(),
        ..status.clone()
    };
    without(live) == without(status) && are_same(&live.conditions, &status.conditions)
}

/// Returns the event of a transition. A new server is not ready at first, which is none.
fn notice_of(transition: &Transition) -> Option<Notice> {
    let is_silent = transition.condition.reason == EmbeddingReady::StatefulSetNotReady.as_str();
    notice(transition, &[]).filter(|_| !is_silent)
}
