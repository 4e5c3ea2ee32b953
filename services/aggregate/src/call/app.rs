//! Requests from user interfaces of tools (MCP Apps). An app runs at the client, and its requests are indistinguishable from
//! other requests of the client.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::Response;
use vmcp_core::{Body, Item, ItemKind, MediaType, Rejection};
use vmcp_wire::{
    Envelope, Outcome, Span, Splice, element_spans, find_span, parse_json_string, scan,
};

use super::{Call, CallTarget};
use crate::backend::BackendHandle;
use crate::catalog::{Route, define_literal};
use crate::response::ResponseBuffer;
use crate::snapshot::BackendCatalog;

/// Maximum number of contents of a resource that are examined.
const MAX_CONTENTS: usize = 1024;

/// Tool with its advertised name.
type NamedRoute<'a> = (&'a str, &'a Route<Arc<BackendHandle>>);

/// Finds the tool that an app calls by its backend's own name. If several backends have such a tool, the only one whose user
/// interface this session has opened is selected; a guess could call a tool of another backend.
pub(super) fn tool<'a>(
    call: &Call,
    all: &'a BackendCatalog,
    own: &str,
) -> Result<Option<NamedRoute<'a>>, Rejection> {
    let Some(names) = all.originals.get(own) else { return Ok(None) };
    let permissions = call.permissions.as_ref();
    let candidates: Vec<_> = names
        .iter()
        .filter_map(|name| Some((&**name, all.tools.get(name)?)))
        .filter(|(name, route)| {
            let (kind, annotations) = (ItemKind::Tool, route.annotations.get());
            let item =
                Item { kind, name, annotations, backend: call.item_backend(all, &route.backend) };
            permissions.is_none_or(|permissions| permissions.is_visible(&item))
        })
        .collect();
    if let [] | [_] = candidates[..] {
        return Ok(candidates.into_iter().next());
    }
    let open: Vec<_> =
        candidates.iter().filter(|(_, route)| has_opened(call, &route.backend)).collect();
    if let [only] = open[..] {
        return Ok(Some(*only));
    }
    let names: Vec<_> = candidates.iter().map(|(name, _)| *name).collect();
    let own: String = own.chars().take(256).collect();
    Err(Rejection::invalid_params(format!(
        "several backends have a tool named {own}: call it {}",
        names.join(" or ")
    )))
}

/// Returns `true` if the session has opened a user interface of the backend. Without a session, requests may come from several
/// clients.
fn has_opened(call: &Call, backend: &Arc<BackendHandle>) -> bool {
    let Some(session) = &call.session else { return false };
    let backend_slots = session.backend_slots();
    let mut backend_slots = backend_slots.iter().filter(|slot| slot.backend.id == backend.id);
    // Relaxed: the flag does not guard other memory.
    backend_slots.any(|slot| slot.has_open_app.load(Ordering::Relaxed))
}

/// Records that a session opens a user interface of a backend, by calling a tool that has one or by reading one.
pub(super) fn record_opened(call: &Call, backend: &Arc<BackendHandle>) {
    if let Some(session) = &call.session {
        session.slot(backend).has_open_app.store(true, Ordering::Relaxed);
    }
}

/// Replaces the backend's own URI in the read contents by the one that the client knows. Streaming responses pass unchanged.
pub(crate) async fn rename_contents(
    response: Response<Body>,
    target: &CallTarget,
    known: &[u8],
    call: &Call,
) -> Result<Response<Body>, Rejection> {
    if !response.status().is_success() || MediaType::of(response.headers()) != MediaType::Json {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let most = call.context.max_buffered_bytes;
    let body = ResponseBuffer::new(call).collect(Bytes::new(), body, most, |_| true).await;
    let body = body.map_err(|failure| target.rejection(&failure))?;
    let message = renamed(body, &target.name(), known);
    Ok(Response::from_parts(parts, Body::from(message)))
}

/// Returns the result of `resources/read` with each URI `own` replaced by `known`, a JSON string.
fn renamed(message: Bytes, own: &str, known: &[u8]) -> Bytes {
    let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(&message) else {
        return message;
    };
    let Some(contents) = find_span(&message, result, "contents") else { return message };
    let mut splice = Splice::new(&message);
    for content in element_spans(&message, contents).take(MAX_CONTENTS) {
        let uri = find_span(&message, content, "uri")
            .map(|uri| (uri, parse_json_string(uri.of(&message))));
        if let Some((uri, Some(name))) = uri
            && name == own
        {
            splice.replace(uri, Cow::Owned(known.to_vec()));
        }
    }
    splice.finish()
}

/// Returns the request with the client's URI replaced by the backend's own, and the client's URI as JSON.
pub(super) fn with_own_uri(message: &Bytes, uri: Span, own: &str) -> (Bytes, Bytes) {
    let own = define_literal(own);
    let mut splice = Splice::new(message);
    splice.replace(uri, own.clone());
    (splice.finish(), own.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_contents_of_requested_uri_only() {
        let read = |uri: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"contents":[{{"uri":{uri},"text":"\"ui://own\""}}, {{"uri":"ui://else"}},7,{{"uri":7}}],"uri":"ui://own"}}}}"#
            )
        };
        for own in ["\"ui://own\"", r#""ui:\/\/own""#] {
            let message = renamed(read(own).into(), "ui://own", b"\"ui://k\\u006eown\"");
            assert_eq!(message, read("\"ui://k\\u006eown\""));
        }
        let error =
            Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#);
        assert_eq!(renamed(error.clone(), "ui://own", b"\"\""), error);
    }
}
