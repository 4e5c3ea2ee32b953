//! The task that a message says it is related to, in its `_meta`.

use std::borrow::Cow;

use bytes::Bytes;
use vmcp_core::{Identity, McpRequest};
use vmcp_wire::{Envelope, Key, Params, Said, Span, Splice, find, find_span, scan, unquote};

use super::TaskId;
use crate::backend::Link;
use crate::catalog::define_literal;
use crate::seal::Seal;

/// The member of `_meta`.
const RELATED: &str = Said::RelatedTask.name();

/// Whether a request says that it is related to a task.
pub(crate) fn is_related(request: &McpRequest) -> bool {
    request.params().is_some_and(|params| params.said(Said::RelatedTask).is_some())
}

/// Gives the task that a request is related to the backend's own id. A task that is not the caller's, or not the
/// backend's, is left out.
pub(crate) fn map_related(message: Bytes, link: &Link, seal: &Seal, caller: &Identity) -> Bytes {
    let Ok(Envelope::Request { params, .. }) = scan(&message) else { return message };
    let (Some(meta), Some(related)) = (params.get(Key::Meta), params.said(Said::RelatedTask))
    else {
        return message;
    };
    let id = find(related.of(&message), "taskId").and_then(unquote);
    let task = id.and_then(|id| TaskId::open(&id, seal, caller));
    let task = task.filter(|task| *task.backend == *link.name());
    let mut splice = Splice::new(&message);
    match task {
        Some(task) => _ = splice.set_member(related, "taskId", &define_literal(&task.id)),
        None => _ = splice.remove_member(meta, RELATED),
    }
    splice.finish()
}

/// Returns a notification without the task that it is related to: a backend's own id leads nowhere here.
pub(crate) fn remove_related(message: Bytes, params: &Params) -> Bytes {
    let related = params.said(Said::RelatedTask).and_then(|_| params.get(Key::Meta));
    let Some(meta) = related else { return message };
    let mut splice = Splice::new(&message);
    splice.remove_member(meta, RELATED);
    splice.finish()
}

/// Replaces the backend's own id by the one that the client knows, a JSON string, in the `_meta` of `object`.
pub(super) fn replace_related(
    splice: &mut Splice<'_>,
    message: &[u8],
    object: Span,
    (own, known): (&str, &[u8]),
) {
    let Some(meta) = find_span(message, object, "_meta") else { return };
    let Some(related) = find_span(message, meta, RELATED) else { return };
    let id: Option<Cow<'_, str>> = find(related.of(message), "taskId").and_then(unquote);
    if id.is_some_and(|id| id == own) {
        splice.set_member(related, "taskId", known);
    } else {
        splice.remove_member(meta, RELATED);
    }
}
