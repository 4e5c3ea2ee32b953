//! Result of a step's call.

use std::fmt;

use bytes::Bytes;
use http::Response;
use serde_json::Value;
use vmcp_compose::limits::MAX_STEP_OUTPUT_BYTES;
use vmcp_compose::{CallError, CallErrorKind, ToolOutcome};
use vmcp_core::{Body, BoxError, MediaType, code};
use vmcp_wire::{Envelope, Member, Outcome, members, parse_json_string, scan};

use crate::backend::error::{BackendError, is_too_large};
use crate::backend::event_reader::EventReader;
use crate::call::Call;
use crate::response::ResponseBuffer;
use crate::stream::{MessageClass, Stream};

/// Maximum size of a response: text may be there twice, as content and as `structuredContent`.
const MAX_RESPONSE: usize = 2 * MAX_STEP_OUTPUT_BYTES + (64 << 10);

/// Returns the response message. Other messages of the backend go to the client, on the stream of the composite tool.
/// Notifications are dropped if its queue is full.
pub(super) async fn read_response(
    call: &Call,
    response: Response<Body>,
    stream: &Stream,
) -> Result<Bytes, CallError> {
    if MediaType::of(response.headers()) != MediaType::EventStream {
        let body = response.into_body();
        let read = ResponseBuffer::new(call).collect(Bytes::new(), body, MAX_RESPONSE, |_| true);
        return read.await.map_err(|error| broken(&error));
    }
    let mut events = EventReader::new(response.into_body(), MAX_RESPONSE);
    loop {
        let event = events.next().await.ok_or_else(|| {
            CallError::new(CallErrorKind::Transport, "the stream ended without a response")
        })?;
        let message = event.map_err(|error| broken(&error))?.data;
        let (class, is_request) = match scan(&message) {
            Ok(Envelope::Response { .. }) => return Ok(message),
            Ok(Envelope::Request { .. }) => (MessageClass::Required, true),
            Ok(Envelope::Notification { method, .. }) => {
                (MessageClass::of_notification(&method.read(&message)), false)
            }
            Err(_) => continue,
        };
        if !stream.push(message, class) && is_request {
            return Err(CallError::new(
                CallErrorKind::ServerError,
                "the tool sent a server request while the client's queue is full",
            ));
        }
    }
}

fn broken(error: &BoxError) -> CallError {
    let message = if is_too_large(error) {
        format!("its backend {}: ask the tool for less", BackendError::StepOutput)
    } else {
        error.to_string()
    };
    CallError::new(CallErrorKind::Transport, message)
}

/// Returns the explanation of a step whose backend asks the client for input that the step cannot get.
pub(super) fn unanswerable(call: &Call) -> &'static str {
    match call.session {
        Some(_) => {
            "its backend asks the client for input; use a client that declares the capability"
        }
        // The gateway declared no capabilities to the backend.
        None => {
            "its backend asks the client for input, which a step passes on to clients with a session \
             only; use such a client, or call the tool directly"
        }
    }
}

/// Reads the response to `tools/call`.
pub(super) fn to_outcome(call: &Call, message: &[u8]) -> Result<ToolOutcome, CallError> {
    match scan(message) {
        Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) => {
            read_result(result.of(message))
        }
        Ok(Envelope::Response { outcome: Outcome::Error(error), .. }) => {
            let error = serde_json::from_slice(error.of(message)).map_err(invalid)?;
            Err(read_error(call, &error))
        }
        Ok(Envelope::Request { .. } | Envelope::Notification { .. }) => {
            Err(invalid("it has no result"))
        }
        Err(error) => Err(invalid(error)),
    }
}

fn invalid(problem: impl fmt::Display) -> CallError {
    CallError::new(CallErrorKind::ServerError, format!("the response is invalid: {problem}"))
}

fn read_error(call: &Call, error: &Value) -> CallError {
    let mut text = error["message"].as_str().unwrap_or("no message").to_owned();
    let kind = match error["code"].as_i64() {
        Some(number) if number == i64::from(code::INVALID_PARAMS) => {
            CallErrorKind::InvalidArguments
        }
        Some(number) if number == i64::from(code::FORBIDDEN) => CallErrorKind::Denied,
        Some(number) if number == i64::from(code::MISSING_CAPABILITY) => {
            text = format!("{text}: {}", unanswerable(call));
            CallErrorKind::InputRequired
        }
        _ => CallErrorKind::ServerError,
    };
    CallError::new(kind, text)
}

/// Reads the result. Only what later steps may read becomes a tree of values.
fn read_result(result: &[u8]) -> Result<ToolOutcome, CallError> {
    if result.first() != Some(&b'{') {
        return Err(invalid("it has no result"));
    }
    let (mut content, mut structured_content) = (None, None);
    let (mut result_type, mut is_question, mut is_error) = (None, false, false);
    for Member { key, value, .. } in members(result) {
        if key.is("content") {
            content = Some(value);
        } else if key.is("structuredContent") {
            structured_content = Some(value);
        } else if key.is("isError") {
            is_error = value == b"true";
        } else if key.is("resultType") {
            result_type = parse_json_string(value);
        } else if key.is("inputRequests") {
            // The response to a stateless client is marked as complete if its backend is stateful.
            is_question = true;
        }
    }
    match result_type.as_deref() {
        None | Some("complete") if !is_question => {}
        None | Some("complete" | "input_required") => {
            let message = "its backend asked for input in a result, which a step cannot give: call the tool directly";
            return Err(CallError::new(CallErrorKind::InputRequired, message));
        }
        Some(other) => {
            let message = format!("the tool answered {other}, which a step cannot handle");
            return Err(CallError::new(CallErrorKind::ServerError, message));
        }
    }
    let content = match content {
        Some(content) if content.first() != Some(&b'[') => {
            return Err(invalid("content is not an array"));
        }
        Some(content) => serde_json::from_slice(content).map_err(invalid)?,
        None => Vec::new(),
    };
    let structured_content =
        structured_content.map(serde_json::from_slice).transpose().map_err(invalid)?;
    Ok(ToolOutcome { content, structured_content, is_error })
}
