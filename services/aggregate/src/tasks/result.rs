//! Translation of backend messages about tasks to the ids that clients know.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tracing::Instrument;
use vmcp_core::BoxError;
use vmcp_wire::{Envelope, Outcome, Span, Splice, find, parse_json_string, scan};

use super::TaskId;
use super::related::replace_related;
use super::request::about;
use crate::backend::error::BackendError;
use crate::backend::handshake::ClientInfo;
use crate::backend::rpc::notify_or_log;
use crate::call::{Call, CallTarget};
use crate::capabilities::{TASKS, TASKS_REQUIRED, declares};
use crate::catalog::define_literal;

/// Maximum lifetime reported to clients: keys that open ids are kept for this long.
const MAX_TTL_MS: u32 = 7 * 24 * 60 * 60 * 1000;

const UNDECLARED: &str = "created a task, but the client did not declare the tasks extension";

/// Cancels a task of a client that did not declare the extension, and returns the failure of its call.
pub(crate) fn undeclared(call: &Call, target: &CallTarget, message: &[u8]) -> BoxError {
    if let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(message)
        && let Some(id) = find(result.of(message), "taskId").and_then(parse_json_string)
    {
        abandon(call, target, &id);
    }
    BackendError::Task(UNDECLARED).into()
}

/// Returns the response to a call that became a task, with an id for its owner.
pub(crate) fn created(
    call: &Call,
    target: &CallTarget,
    message: &Bytes,
) -> Result<Bytes, BoxError> {
    let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(message) else {
        return Err(BackendError::Malformed("a body that is not a JSON-RPC response").into());
    };
    let id =
        find(result.of(message), "taskId").and_then(parse_json_string).filter(|id| !id.is_empty());
    let id = id.ok_or(BackendError::Malformed("a task without an id"))?;
    let refuse = |problem: &'static str| {
        abandon(call, target, &id);
        Err(BackendError::Task(problem).into())
    };
    if target.method != "tools/call" {
        return refuse("created a task for a method other than tools/call");
    }
    if !declares(&call.message, TASKS) {
        return refuse(UNDECLARED);
    }
    let (backend, tool) = (target.backend.name().into(), Box::from(&*target.name()));
    let task = TaskId { backend, tool, id: Box::from(&*id) };
    let Some(sealed) = task.seal(&call.context.seal, call.caller.identity())? else {
        return refuse("created a task whose id is too long");
    };
    Ok(translated(message, result, &id, &define_literal(&sealed))?)
}

/// Returns a message with the backend's id `own` replaced by `known`, a JSON string; `object` is the result or the parameters.
pub(crate) fn translated(
    message: &[u8],
    object: Span,
    own: &str,
    known: &[u8],
) -> Result<Bytes, BackendError> {
    let mut splice = Splice::new(message);
    let fields = object.of(message);
    if let Some(id) = find(fields, "taskId") {
        if parse_json_string(id).is_none_or(|id| id != own) {
            return Err(BackendError::Malformed("a result for another task"));
        }
        splice.set_member(object, "taskId", known);
    }
    if find(fields, "ttlMs").is_some_and(|ttl| !is_short(ttl)) {
        splice.set_member(object, "ttlMs", MAX_TTL_MS.to_string().as_bytes());
    }
    // Clients must not carry state that is not sealed for them.
    splice.remove_member(object, "requestState");
    replace_related(&mut splice, message, object, (own, known));
    Ok(splice.finish())
}

/// Returns `true` if a lifetime is a number of milliseconds within the limit.
fn is_short(ttl: &[u8]) -> bool {
    let ttl = std::str::from_utf8(ttl).ok().and_then(|ttl| ttl.parse::<f64>().ok());
    ttl.is_some_and(|ttl| (0.0..=f64::from(MAX_TTL_MS)).contains(&ttl))
}

/// Cancels a task that remains unknown to the client, in the background.
fn abandon(call: &Call, target: &CallTarget, id: &str) {
    let Ok(runtime) = Handle::try_current() else { return };
    let gateway = call.context.catalogs.client_info();
    let capabilities = TASKS_REQUIRED.as_bytes();
    let client_info = ClientInfo { capabilities, ..gateway.on_behalf_of(&call.caller) };
    let backend = Arc::clone(&target.backend);
    let Some((request, _)) = about(&backend, "tasks/cancel", id, client_info) else { return };
    let notifying = async move {
        notify_or_log(&backend, request, "failed to cancel a task").await;
    };
    runtime.spawn(notifying.in_current_span());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Translates the result `object` of the task `raw` for the client that knows it as `known`.
    fn translate(object: &str) -> String {
        let span = Span { start: 0, end: u32::try_from(object.len()).unwrap() };
        let message = translated(object.as_bytes(), span, "raw", br#""k\u006eown""#).unwrap();
        String::from_utf8(message.to_vec()).unwrap()
    }

    #[test]
    fn repeats_task_id_of_client() {
        let own = r#"{"taskId":"ra\u0077","x":1.0,"taskId":"raw"}"#;
        assert_eq!(translate(own), r#"{"taskId":"k\u006eown","x":1.0}"#);
        assert_eq!(translate(r#"{"resultType":"complete"}"#), r#"{"resultType":"complete"}"#);
    }

    #[test]
    fn rejects_response_about_other_task() {
        for id in ["\"other\"", "7", "null"] {
            let object = format!(r#"{{"taskId":{id}}}"#);
            let span = Span { start: 0, end: u32::try_from(object.len()).unwrap() };
            assert!(translated(object.as_bytes(), span, "raw", b"\"k\"").is_err(), "{id}");
        }
    }

    #[test]
    fn caps_task_lifetime() {
        for (own, expected) in [
            ("0", "0"),
            ("60000", "60000"),
            ("1e3", "1e3"),
            ("604800000", "604800000"),
            ("604800001", "604800000"),
            ("null", "604800000"),
            ("-1", "604800000"),
            ("1e400", "604800000"),
            ("\"1\"", "604800000"),
            (r#"{"days":30}"#, "604800000"),
        ] {
            let translated = translate(&format!(r#"{{"ttlMs":{own}}}"#));
            assert_eq!(translated, format!(r#"{{"ttlMs":{expected}}}"#));
        }
    }

    #[test]
    fn maps_related_task() {
        let related = |id: &str| {
            format!(
                r#"{{"_meta":{{"a":1,"io.modelcontextprotocol/related-task":{{"taskId":{id},"b":2}}}}}}"#
            )
        };
        assert_eq!(translate(&related("\"raw\"")), related(r#""k\u006eown""#));
        assert_eq!(translate(&related("\"other\"")), r#"{"_meta":{"a":1}}"#);
        assert_eq!(
            translate(r#"{"requestState":"s","result":{"requestState":"t"}}"#),
            r#"{"result":{"requestState":"t"}}"#
        );
    }
}
