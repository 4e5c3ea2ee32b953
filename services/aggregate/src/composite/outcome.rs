//! Response to a call of a composite tool.

use bytes::Bytes;
use serde_json::{Value, json};
use vmcp_compose::{InputRequired, RunError, RunErrorKind, RunOutput, RunOwner};
use vmcp_core::{Rejection, cause_ref};
use vmcp_wire::write_json_string;

use super::input_required;
use super::step_calls::StepDenial;
use crate::call::Call;

/// Answer to the client.
pub(super) enum Answer {
    /// The whole JSON-RPC message.
    Message(Bytes),
    Rejected(Rejection),
}

impl Answer {
    pub(super) fn completed(call: &Call, output: &RunOutput) -> Self {
        let mut message = start_message(call);
        write_completed(output, call.session.is_none(), &mut message);
        message.push(b'}');
        Self::Message(message.into())
    }

    pub(super) fn input_required(call: &Call, owner: &RunOwner, input: &InputRequired) -> Self {
        match input_required::result(call, owner, input) {
            Ok(result) => Self::Message(message(call, &result)),
            Err(error) => {
                tracing::error!(%error, "failed to seal the state of a workflow");
                Self::Rejected(Rejection::internal())
            }
        }
    }

    pub(super) fn failed(call: &Call, error: &RunError) -> Self {
        match failed(error) {
            FailedRun::Result(result) => Self::result(call, result),
            FailedRun::Rejected(rejection) => Self::Rejected(rejection),
        }
    }

    fn result(call: &Call, mut result: Value) -> Self {
        if call.session.is_none() {
            result["resultType"] = "complete".into();
        }
        Self::Message(message(call, &result))
    }
}

/// Response to a call whose run failed.
pub(super) enum FailedRun {
    /// A result with `isError`.
    Result(Value),
    Rejected(Rejection),
}

/// Writes the result of a run that completed with this output, whose JSON is both text and structured content.
fn write_completed(output: &RunOutput, is_stateless: bool, message: &mut Vec<u8>) {
    let text = output.text();
    message.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    write_json_string(&text, message);
    message.extend_from_slice(b"}]");
    if output.structured_content().is_some() {
        message.extend_from_slice(br#","structuredContent":"#);
        message.extend_from_slice(text.as_bytes());
    }
    if is_stateless {
        message.extend_from_slice(br#","resultType":"complete""#);
    }
    message.push(b'}');
}

/// Returns the result of a run that completed with this output, for a task.
pub(super) fn completed(output: &Value) -> Value {
    let mut result = json!({ "content": [{ "type": "text", "text": output.to_string() }] });
    if output.is_object() {
        result["structuredContent"] = output.clone();
    }
    result
}

/// Returns the response for a failed run.
pub(super) fn failed(error: &RunError) -> FailedRun {
    match error.kind() {
        RunErrorKind::InvalidArguments
        | RunErrorKind::InvalidAnswer
        | RunErrorKind::UnknownRound
        | RunErrorKind::RoundConflict => {
            FailedRun::Rejected(Rejection::invalid_params(error.to_string()))
        }
        RunErrorKind::Denied => {
            // An error that was read from a store has no source.
            let denial = cause_ref::<StepDenial>(error).map(|denial| denial.0.clone());
            FailedRun::Rejected(denial.unwrap_or_else(Rejection::forbidden))
        }
        RunErrorKind::StepFailed
        | RunErrorKind::Declined
        | RunErrorKind::TimedOut
        | RunErrorKind::OutputFailed
        | RunErrorKind::OutcomeUnknown
        | RunErrorKind::DefinitionChanged
        | RunErrorKind::Cancelled
        | RunErrorKind::Superseded
        | RunErrorKind::Store
        | RunErrorKind::StoreFull => {
            let content = json!([{ "type": "text", "text": error.to_string() }]);
            FailedRun::Result(json!({ "content": content, "isError": true }))
        }
    }
}

/// Frames a result as the response to the client's request.
fn message(call: &Call, result: &Value) -> Bytes {
    let mut message = start_message(call);
    message.extend_from_slice(result.to_string().as_bytes());
    message.push(b'}');
    message.into()
}

/// Returns the response to the client's request up to the result.
fn start_message(call: &Call) -> Vec<u8> {
    let mut message = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    message.extend_from_slice(&call.id());
    message.extend_from_slice(br#","result":"#);
    message
}
