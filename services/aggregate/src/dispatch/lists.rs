//! List requests: pages are slices of the catalog, framed for the client's generation without copying.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use vmcp_core::{AlreadyFiltered, Body, Rejection};
use vmcp_wire::{Key, write_json_string};

use crate::cache::list_views::Views;
use crate::call::Call;
use crate::catalog::{Kind, Page, define_literal};
use crate::event_stream::event_stream;
use crate::list_source::{ListSource, offered, write_gaps};
use crate::snapshot::MissingBackend;
use crate::tool_search;

/// Lists the items that the caller may see. A cursor contains the last visible key, so neither the cursor nor the page length
/// reveals hidden items.
pub(crate) async fn list(
    call: &Call,
    kind: Kind,
    views: &Arc<Views>,
) -> Result<Response<Body>, Rejection> {
    let cursor = match (call.message.param(Key::Cursor), call.message.text(Key::Cursor)) {
        (None | Some(b"null"), _) => None,
        (Some(_), Some(text)) => Some(text.read(&call.message.bytes)),
        (Some(_), None) => return Err(Rejection::invalid_params("params.cursor must be a string")),
    };
    let ListSource { catalog, gaps } = offered(call).await?;
    let whole = catalog.list(kind);
    let view = match &call.permissions {
        None => None,
        Some(permissions) => {
            let view = views.of(&catalog, kind, permissions, call.generation()).await;
            Some(view.ok_or_else(Rejection::internal)?)
        }
    };
    let visible = view.as_ref().map_or(whole, |view| view.list(whole));
    let page = if kind == Kind::Tools && call.snapshot.search.is_some() {
        tool_search::page(call, &catalog, visible, cursor.as_deref())
    } else {
        visible.page(kind, cursor.as_deref())
    };
    let page = page.ok_or_else(|| {
        Rejection::invalid_params("params.cursor is not valid for this list: start without one")
    })?;
    let mut response = framed(call, kind, page, &gaps);
    if call.permissions.is_some() {
        response.extensions_mut().insert(AlreadyFiltered);
    }
    Ok(response)
}

/// Frames a page as the response for the client's generation.
fn framed(call: &Call, kind: Kind, page: Page, gaps: &[MissingBackend]) -> Response<Body> {
    let mut head = Vec::with_capacity(256);
    head.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    head.extend_from_slice(&call.id());
    head.extend_from_slice(b",\"result\":{");
    if call.session.is_none() {
        head.extend_from_slice(
            b"\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\",\
              \"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":",
        );
        write_json_string(&call.snapshot.name, &mut head);
        head.extend_from_slice(b",\"version\":");
        write_json_string(&call.snapshot.version, &mut head);
        head.push(b'}');
        if !gaps.is_empty() {
            head.push(b',');
            write_gaps(call, gaps, &mut head);
        }
        head.extend_from_slice(b"},");
    } else if !gaps.is_empty() {
        head.extend_from_slice(b"\"_meta\":{");
        write_gaps(call, gaps, &mut head);
        head.extend_from_slice(b"},");
    }
    head.push(b'"');
    head.extend_from_slice(kind.member().as_bytes());
    head.extend_from_slice(b"\":[");
    let mut tail = b"]".to_vec();
    if let Some(next) = page.next {
        tail.extend_from_slice(b",\"nextCursor\":");
        tail.extend_from_slice(&define_literal(&next));
    }
    tail.extend_from_slice(b"}}");
    if vmcp_decode::prefers_event_stream(&call.headers) {
        head.splice(0..0, *b"data: ");
        tail.extend_from_slice(b"\n\n");
        // A backend may have formatted its definitions over several lines.
        let items = single_line(page.items);
        return event_stream(Body::chain([Bytes::from(head), items, Bytes::from(tail)]));
    }
    let body = Body::chain([Bytes::from(head), page.items, Bytes::from(tail)]);
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Replaces line ends by spaces; in JSON, they only occur between tokens.
fn single_line(items: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &items).is_none() {
        return items;
    }
    let line = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    items.iter().map(line).collect()
}
