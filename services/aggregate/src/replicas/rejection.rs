//! Rejections of requests that another replica does not process.

use http::{Response, StatusCode};
use vmcp_core::{Body, Rejection, code};
use vmcp_peer::ForwardError;

/// Seconds after which a request that reached no replica may succeed.
const RETRY_AFTER: u32 = 1;

/// Seconds after which a replica that received a request may respond again.
const RETRY_AFTER_SENT: u32 = 5;

/// Returns the response of a client whose server request or stream is at another replica. A session that the replica has not does not
/// end for the client, unlike one of status 404.
pub(crate) fn adapt(
    result: Result<Response<Body>, ForwardError>,
    gone: &'static str,
) -> Result<Response<Body>, Rejection> {
    match result {
        Ok(response) if response.status() == StatusCode::NOT_FOUND => {
            Err(Rejection::malformed(code::INVALID_REQUEST, gone))
        }
        Ok(response) => Ok(response),
        Err(error) if error.is_gone() => Err(Rejection::malformed(code::INVALID_REQUEST, gone)),
        Err(error) => Err(temporary(&error)),
    }
}

/// Returns the rejection of a request about a task that another replica has.
pub(crate) fn task_rejection(error: &ForwardError) -> Rejection {
    if error.is_gone() { lost(false) } else { temporary(error) }
}

/// Returns the rejection of a retry of a call that another replica has. `repeatable` marks calls that have no additional effect when
/// repeated.
pub(crate) fn call_rejection(error: &ForwardError, repeatable: bool) -> Rejection {
    match error {
        ForwardError::Unresponsive(_) | ForwardError::ResponseTimeout { .. } => {
            unresponsive(repeatable)
        }
        error if error.is_gone() || error.is_sent() => lost(repeatable),
        error => temporary(error),
    }
}

/// Rejects the retry of a call whose replica is gone.
fn lost(repeatable: bool) -> Rejection {
    let message = if repeatable {
        "the call was lost with its replica: send it again without requestState"
    } else {
        "the call was lost with its replica: it may have acted, check before trying again"
    };
    call_failure(message, "replica_lost", repeatable)
}

/// Rejects the retry of a call whose replica received it, and does not respond.
pub(crate) fn unresponsive(repeatable: bool) -> Rejection {
    let message = if repeatable {
        "the replica that has the call does not respond: send the call again without requestState"
    } else {
        "the replica that has the call does not respond: the call may have acted, check before trying again"
    };
    call_failure(message, "replica_unresponsive", repeatable)
}

fn call_failure(message: &'static str, reason: &str, repeatable: bool) -> Rejection {
    let data = format!(r#"{{"reason":"{reason}","retryable":{repeatable}}}"#);
    Rejection::new(StatusCode::OK, code::INTERNAL, message)
        .with_data(data.into_bytes())
        .with_layer("replica")
}

/// Rejects a request after a failure from which the replica may recover.
fn temporary(error: &ForwardError) -> Rejection {
    if error.is_sent() {
        let message = "the replica that processes the request did not respond in time: it may have processed it, or may do so later";
        Rejection::overloaded(message, RETRY_AFTER_SENT)
    } else {
        let message = "the replica that processes the request cannot be reached now: nothing was sent to it, try again";
        Rejection::overloaded(message, RETRY_AFTER)
    }
}
