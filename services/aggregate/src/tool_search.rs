//! Tool search in place of tool lists: `find_tool` and `call_tool` (seed section 2.9.8).

mod search_counters;
mod tool_sets;

use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use http::Response;
use vmcp_core::{Body, McpRequest, Rejection};
use vmcp_optimize::{
    CALL_TOOL, CALL_TOOL_DEFINITION, CallToolArguments, FIND_TOOL, FIND_TOOL_DEFINITION,
    ToolSearch, find_tool_result, parse_find_tool,
};
use vmcp_wire::{Key, Span, Splice, find, scan};

pub(crate) use self::tool_sets::ToolSets;
use crate::call::{Call, Origin, client_capabilities};
use crate::capabilities::UI;
use crate::catalog::{Kind, List, Page, define_literal};
use crate::list_source::{ListSource, offered, write_gaps};
use crate::response;
use crate::snapshot::BackendCatalog;

/// Call of one of the two tools.
pub(crate) enum MetaToolCall {
    /// The response of `find_tool`.
    Found(Response<Body>),
    /// The call that `call_tool` stands for.
    Forward(Arc<Call>),
}

/// Handles a call of one of the two tools. Returns `None` for another tool.
pub(crate) async fn call(
    call: &Arc<Call>,
    search: &ToolSearch,
    tool_sets: &Arc<ToolSets>,
) -> Option<Result<MetaToolCall, Rejection>> {
    let name = call.message.text(Key::Name)?.read(&call.message.bytes);
    match &*name {
        FIND_TOOL => Some(find_tool(call, search, tool_sets).await.map(MetaToolCall::Found)),
        CALL_TOOL => Some(forward(call).map(MetaToolCall::Forward)),
        _ => None,
    }
}

async fn find_tool(
    call: &Arc<Call>,
    search: &ToolSearch,
    tool_sets: &Arc<ToolSets>,
) -> Result<Response<Body>, Rejection> {
    let query = parse_find_tool(call.message.param(Key::Arguments).unwrap_or(b"{}"))
        .map_err(|error| Rejection::invalid_params(error.to_string()))?;
    let ListSource { catalog, gaps } = offered(call).await?;
    let view = tool_sets.view(&catalog, call.permissions.as_ref(), call.generation()).await;
    let view = view.ok_or_else(Rejection::internal)?;
    let found = search.search(&view, &query).await;
    let result = find_tool_result(&view, &found);
    tool_sets.counters.record(&found.mode, &result);
    let (result, mut splice) = (&result.json, Splice::new(&result.json));
    if call.session.is_none() {
        splice.set_member(Span::whole(result), "resultType", br#""complete""#);
    }
    if !gaps.is_empty() {
        let mut meta = vec![b'{'];
        write_gaps(call, &gaps, &mut meta);
        meta.push(b'}');
        splice.set_member(Span::whole(result), "_meta", &meta);
    }
    Ok(response::result(&call.id(), &splice.finish()))
}

/// Returns the call that `call_tool` stands for: the same request under the name and with the arguments of the tool.
fn forward(call: &Arc<Call>) -> Result<Arc<Call>, Rejection> {
    let bytes = &call.message.bytes;
    let arguments = call.message.span(Key::Arguments);
    let given = arguments.map_or_else(|| Bytes::from_static(b"{}"), |span| span.slice(bytes));
    let parsed = CallToolArguments::parse(&given)
        .map_err(|error| Rejection::invalid_params(error.to_string()))?;
    let (Some(name), Some(arguments)) = (call.message.text(Key::Name), arguments) else {
        return Err(Rejection::internal());
    };
    let mut splice = Splice::new(bytes);
    splice.replace(name.span, define_literal(&parsed.name));
    let parameters = parsed.parameters_of(&given);
    splice.replace(arguments, &parameters[..]);
    let bytes = splice.finish();
    let envelope = scan(&bytes)
        .map_err(|error| Rejection::invalid_params(format!("parameters of call_tool: {error}")))?;
    let message = McpRequest { bytes, envelope, generation: call.message.generation };
    if let Some(request_context) = &call.request_context {
        request_context.record_forwarded_message(&message);
    }
    Ok(Arc::new(Call {
        context: Arc::clone(&call.context),
        snapshot: Arc::clone(&call.snapshot),
        caller: call.caller.clone(),
        session: call.session.clone(),
        message,
        headers: call.headers.clone(),
        permissions: call.permissions.clone(),
        request_context: call.request_context.clone(),
        parent: None,
        origin: Origin::CallTool,
        is_forwarded: call.is_forwarded,
        auditor: call.auditor.clone(),
        address: call.address,
        active: OnceLock::new(),
        reservations: Mutex::default(),
    }))
}

/// Returns a page of the list of tools: the two tools, and for clients with support for user interfaces the visible tools that
/// have one.
pub(crate) fn page(
    call: &Call,
    catalog: &BackendCatalog,
    visible: &List,
    cursor: Option<&str>,
) -> Option<Page> {
    let mut listed: Vec<(&str, Bytes)> = vec![
        (CALL_TOOL, Bytes::from_static(CALL_TOOL_DEFINITION.as_bytes())),
        (FIND_TOOL, Bytes::from_static(FIND_TOOL_DEFINITION.as_bytes())),
    ];
    if has_interface_support(call) {
        listed.extend(visible.entries().filter(|(name, _)| {
            let is_meta_tool = [CALL_TOOL, FIND_TOOL].contains(name);
            !is_meta_tool && catalog.tools.get(name).is_some_and(|route| route.interface)
        }));
        listed.sort_by_key(|(name, _)| *name);
    }
    let size = listed.iter().map(|(_, definition)| definition.len()).sum();
    let list = List::new(listed.into_iter(), size, |_, definition, out| {
        out.extend_from_slice(&definition);
    });
    list.page(Kind::Tools, cursor)
}

/// Returns `true` if the client declares MCP Apps.
fn has_interface_support(call: &Call) -> bool {
    find(client_capabilities(call), "extensions")
        .is_some_and(|extensions| find(extensions, UI).is_some())
}
