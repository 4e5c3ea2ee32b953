//! Related tasks in the `_meta` of messages.

use std::borrow::Cow;

use bytes::Bytes;
use vmcp_core::{Identity, McpRequest};
use vmcp_wire::{Key, MetaKey, Params, Span, Splice, find, find_span, parse_json_string};

use super::TaskId;
use crate::backend::BackendHandle;
use crate::capabilities::rescan;
use crate::catalog::define_literal;
use crate::seal::Seal;

/// The member of `_meta`.
const RELATED: &str = MetaKey::RelatedTask.name();

/// Returns `true` if a request names a related task.
pub(crate) fn is_related(request: &McpRequest) -> bool {
    request.params().is_some_and(|params| params.meta(MetaKey::RelatedTask).is_some())
}

/// Replaces the id of a request's related task by the backend's own. A task of another caller or backend is removed.
pub(crate) fn map_related(
    message: Bytes,
    backend: &BackendHandle,
    seal: &Seal,
    caller: &Identity,
) -> Bytes {
    let (_, params) = rescan(&message);
    let (Some(meta), Some(related)) = (params.get(Key::Meta), params.meta(MetaKey::RelatedTask))
    else {
        return message;
    };
    let id = find(related.of(&message), "taskId").and_then(parse_json_string);
    let task = id.and_then(|id| TaskId::open(&id, seal, caller));
    let task = task.filter(|task| *task.backend == *backend.name());
    let mut splice = Splice::new(&message);
    match task {
        Some(task) => splice.set_member(related, "taskId", &define_literal(&task.id)),
        None => splice.remove_member(meta, RELATED),
    };
    splice.finish()
}

/// Returns a notification without its related task, because the backend's own id is unknown to the client.
pub(crate) fn remove_related(message: Bytes, params: &Params) -> Bytes {
    let related = params.meta(MetaKey::RelatedTask).and_then(|_| params.get(Key::Meta));
    let Some(meta) = related else { return message };
    let mut splice = Splice::new(&message);
    splice.remove_member(meta, RELATED);
    splice.finish()
}

/// Replaces the backend's own id by the client's, a JSON string, in the `_meta` of `object`.
pub(super) fn replace_related(
    splice: &mut Splice<'_>,
    message: &[u8],
    object: Span,
    (own, known): (&str, &[u8]),
) {
    let Some(meta) = find_span(message, object, "_meta") else { return };
    let Some(related) = find_span(message, meta, RELATED) else { return };
    let id: Option<Cow<'_, str>> = find(related.of(message), "taskId").and_then(parse_json_string);
    if id.is_some_and(|id| id == own) {
        splice.set_member(related, "taskId", known);
    } else {
        splice.remove_member(meta, RELATED);
    }
}
