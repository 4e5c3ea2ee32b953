//! Questions of a workflow to a client without a session (MCP 2026-07-28, multi round-trip requests).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use vmcp_compose::{InputRequired, RoundAnswers, RunId, RunOwner};
use vmcp_core::Rejection;
use vmcp_peer::ReplicaHandle;
use vmcp_seal::RandomError;
use vmcp_wire::Key;

use super::elicit::{elicitation_params, parse_answer, parse_responses};
use crate::bridge::stateless_to_stateless::carried;
use crate::call::Call;
use crate::seal::{Purpose, principal};

/// Run and answers that a client repeats in its next request.
pub(super) struct RoundState {
    pub(super) run: RunId,
    pub(super) owner: RunOwner,
    pub(super) answers: RoundAnswers,
}

impl RoundState {
    /// Reads `requestState` and `inputResponses`. `None` for a request that begins a run.
    pub(super) fn of(call: &Call) -> Result<Option<Self>, Rejection> {
        let Some(state) = carried(call)? else {
            return if call.message.param(Key::InputResponses).is_some() {
                Err(Rejection::invalid_params(
                    "params.inputResponses needs the params.requestState of the same response",
                ))
            } else {
                Ok(None)
            };
        };
        let invalid = || {
            Rejection::invalid_params(
                "params.requestState is not valid for this request or has expired: \
                 send the request again without it",
            )
        };
        let sealed = state.read(&call.message.bytes);
        let opened = call.context.seal.open(&sealed, purpose(call)).ok_or_else(invalid)?;
        let (_, state) = split_replica(&opened);
        let mut parts = state.splitn(3, '/');
        let mut part = || parts.next().ok_or_else(invalid);
        let (run, round, owner) = (part()?, part()?, part()?);
        let round = round.parse().map_err(|_| invalid())?;
        let answers = RoundAnswers { round, answers: answers(call)? };
        Ok(Some(Self { run: RunId::new(run), owner: RunOwner::new(owner), answers }))
    }
}

/// Returns the other replica that has the run which a request continues in its memory.
pub(super) fn replica(call: &Call) -> Option<ReplicaHandle> {
    if call.is_forwarded || call.session.is_some() {
        return None;
    }
    let sealed = carried(call).ok()??.read(&call.message.bytes);
    let opened = call.context.seal.open(&sealed, purpose(call))?;
    call.context.replicas.other(split_replica(&opened).0?)
}

/// Splits a state into the replica that has the run in its memory, if it names one, and the run.
fn split_replica(state: &str) -> (Option<&str>, &str) {
    let named = state.strip_prefix('@').and_then(|named| named.split_once('@'));
    named.map_or((None, state), |(replica, state)| (Some(replica), state))
}

/// Reads the answers by step.
fn answers(call: &Call) -> Result<Vec<(Arc<str>, vmcp_compose::Answer)>, Rejection> {
    let Some(given) = call.message.param(Key::InputResponses) else { return Ok(Vec::new()) };
    parse_responses(given)?
        .into_iter()
        .map(|(step, result)| {
            let answer = parse_answer(&result).map_err(|problem| {
                Rejection::invalid_params(format!("params.inputResponses.{step}: {problem}"))
            })?;
            Ok((step.into(), answer))
        })
        .collect()
}

/// Returns the result that asks the client for input.
pub(super) fn result(
    call: &Call,
    owner: &RunOwner,
    input: &InputRequired,
) -> Result<Value, RandomError> {
    let InputRequired { run, round, questions } = input;
    let requests: Map<_, _> = questions
        .iter()
        .map(|question| {
            let params = elicitation_params(question, None);
            let request = json!({ "method": "elicitation/create", "params": params });
            (question.step.to_string(), request)
        })
        .collect();
    let replica = call.context.run_replica().map(|replica| format!("@{replica}@"));
    let replica = replica.unwrap_or_default();
    let state = format!("{replica}{run}/{round}/{}", owner.as_str());
    let state = call.context.seal.seal(&state, purpose(call))?;
    Ok(json!({
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": state,
    }))
}

/// Returns the purpose that binds a state to the same call of the same caller.
fn purpose(call: &Call) -> Purpose<'_> {
    let name = call.message.text(Key::Name).map(|name| name.span.of(&call.message.bytes));
    Purpose {
        principal: principal(call.caller.identity()),
        backend: "",
        method: "tools/call",
        target: name.unwrap_or_default(),
        arguments: call.message.param(Key::Arguments).unwrap_or_default(),
    }
}
