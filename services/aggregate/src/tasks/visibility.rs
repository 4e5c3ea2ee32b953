//! Visibility of the tool that created a task.

use std::sync::Arc;

use vmcp_core::{Item, ItemKind, Rejection, ToolAnnotations};
use vmcp_wire::parse_json_string;

use crate::backend::BackendHandle;
use crate::call::Call;
use crate::catalog::{Kind, Route, contested, hidden_by, wanted};
use crate::snapshot::BackendCatalog;

/// Returns the advertised name of a backend's tool `own` if it is visible to the caller.
///
/// Waits for a backend whose offer is pending and otherwise rejects the request as unavailable instead of unknown, so clients
/// do not abandon a task because its backend restarts.
pub(crate) async fn visible_tool(
    call: &Call,
    backend: &Arc<BackendHandle>,
    own: &str,
) -> Result<Option<Box<str>>, Rejection> {
    let generation = call.generation();
    let known = if call.snapshot.per_caller {
        call.context.catalogs.known_to(&call.snapshot, &call.caller, call.cause())
    } else {
        Some(call.snapshot.catalogs())
    };
    match known.map_or(Tool::Missing, |all| look(call, backend, own, all.of(generation))) {
        Tool::Visible(name) => return Ok(Some(name)),
        Tool::Hidden => return Ok(None),
        Tool::Missing => {}
    }
    let (_, seen) = call.seen().await?;
    match look(call, backend, own, seen.catalogs.of(generation)) {
        Tool::Visible(name) => return Ok(Some(name)),
        Tool::Hidden => return Ok(None),
        Tool::Missing => {}
    }
    let rules = &call.snapshot.rules;
    let wanted = wanted(rules, backend.name(), Kind::Tools, own);
    let name = contested(rules, backend.name(), wanted);
    if hidden_by(rules, backend.name(), Kind::Tools, wanted).is_some() {
        return Ok(None);
    }
    // A list may change during a task.
    let Some(permissions) = &call.permissions else { return Ok(Some(name.into())) };
    let missing = seen.missing.iter().find(|(of, _)| of.id == backend.id);
    match missing {
        Some((_, rejection)) => Err(rejection.clone()),
        None if backend.is_silent(generation) => {
            let problem = "has not returned its lists yet";
            Err(Rejection::backend_unavailable(backend.name(), problem))
        }
        None => {
            // Evaluated as for an existing item, so the response time does not reveal whether it exists.
            let all = seen.catalogs.of(generation);
            let backend = Some(all.item_backend(backend, generation));
            let (kind, annotations) = (ItemKind::Tool, ToolAnnotations::default());
            _ = permissions.is_visible(&Item { kind, name: &name, annotations, backend });
            Ok(None)
        }
    }
}

/// Result of looking up a backend's tool in a catalog.
enum Tool {
    /// The tool is visible under this advertised name.
    Visible(Box<str>),
    Hidden,
    Missing,
}

fn look(call: &Call, backend: &Arc<BackendHandle>, own: &str, all: &BackendCatalog) -> Tool {
    let rules = &call.snapshot.rules;
    let is = |route: &Route<Arc<BackendHandle>>| {
        route.backend.id == backend.id
            && parse_json_string(&route.name).is_some_and(|name| name == own)
    };
    let usual = contested(rules, backend.name(), wanted(rules, backend.name(), Kind::Tools, own));
    let usual = all.tools.get(&usual).filter(|route| is(route)).map(|route| (&*usual, route));
    // The tool was renamed by conflict resolution.
    let found = usual.or_else(|| all.tools.iter().find(|(_, route)| is(route)));
    let Some((name, route)) = found else { return Tool::Missing };
    let visible = route.shown
        && call.permissions.as_ref().is_none_or(|permissions| {
            let backend = Some(all.item_backend(backend, call.generation()));
            let (kind, annotations) = (ItemKind::Tool, route.annotations.get());
            permissions.is_visible(&Item { kind, name, annotations, backend })
        });
    if visible { Tool::Visible(name.into()) } else { Tool::Hidden }
}
