//! Entries of composite tools in the status report.

use std::sync::Arc;

use vmcp_compose::{Finding, ToolInfo, Workflow};
use vmcp_core::{Generation, ToolAnnotations};

use super::{Entry, HiddenReason};
use crate::catalog::{COMPOSITE_TOOLS, Conflict, Kind, singular, split_workload};
use crate::snapshot::{BackendCatalog, BackendCatalogs, Snapshot};

/// Facts about a composite tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompositeEntry {
    /// Names of the tools that the steps call, as an advertised tool has or would have it.
    pub tools: Vec<String>,
    /// Findings of the check against these tools.
    pub findings: Vec<Finding>,
}

/// Returns an entry for each composite tool, or one for each generation if they differ.
pub(super) fn composite_entries(
    snapshot: &Snapshot,
    catalogs: &BackendCatalogs,
    items: &[Entry],
) -> Vec<Entry> {
    let mut entries = Vec::new();
    for workflow in &snapshot.rules.workflows {
        let [stateful, stateless] = [Generation::Stateful, Generation::Stateless]
            .map(|generation| entry(snapshot, catalogs.of(generation), workflow, items));
        if stateful == stateless {
            entries.push(stateful);
            continue;
        }
        entries.push(Entry { generation: Some(Generation::Stateful), ..stateful });
        entries.push(Entry { generation: Some(Generation::Stateless), ..stateless });
    }
    entries
}

fn entry(
    snapshot: &Snapshot,
    catalog: &BackendCatalog,
    workflow: &Workflow,
    items: &[Entry],
) -> Entry {
    let name = workflow.name();
    let offered = catalog.composite(Kind::Tools, name);
    let (composite, annotations) = if let Some(offered) = offered {
        let info = |tool: &str| offered.tools.get(tool).map(|tool| tool.info().clone());
        let findings = workflow.check(&info);
        let mut tools: Vec<_> = offered.tools.values().map(|tool| tool.name.to_string()).collect();
        tools.sort();
        (CompositeEntry { tools, findings }, offered.annotations)
    } else {
        // Only the names of the tools are at hand.
        let info = |tool: &str| has_tool(snapshot, items, tool).then(ToolInfo::default);
        let findings = workflow.check(&info);
        (CompositeEntry { tools: Vec::new(), findings }, ToolAnnotations::default())
    };
    let hidden_reason = offered.is_none().then(|| {
        let missing = workflow.tools().filter(|tool| !has_tool(snapshot, items, tool));
        let missing: Vec<_> = missing.map(ToOwned::to_owned).collect();
        let contends = |it: &&Conflict| it.contenders.iter().any(|one| one == COMPOSITE_TOOLS);
        let mut conflicts = catalog.conflicts.iter().filter(contends);
        let taken = conflicts.find(|it| it.name == name);
        let lost = || workflow.tools().filter(|tool| has_lost_name(snapshot, items, tool));
        let lost: Vec<_> = lost().map(ToOwned::to_owned).collect();
        match taken {
            Some(conflict) => HiddenReason::NameTaken(conflict.resolution.clone()),
            None if !lost.is_empty() => HiddenReason::ToolNamesTaken(lost),
            None => HiddenReason::MissingTools(missing),
        }
    });
    Entry {
        kind: singular(Kind::Tools),
        name: name.to_owned(),
        backend: COMPOSITE_TOOLS.to_owned(),
        original: name.to_owned(),
        wanted: name.to_owned(),
        annotations,
        shown: offered.is_some(),
        hidden_reason,
        generation: None,
        composite: Some(Arc::new(composite)),
    }
}

/// Returns `true` if a step can call the tool: `workload.tool_name` or an advertised name.
fn has_tool(snapshot: &Snapshot, items: &[Entry], tool: &str) -> bool {
    let has_route = |it: &Entry| !matches!(it.hidden_reason, Some(HiddenReason::NameTaken(_)));
    entries_of(snapshot, items, tool).any(has_route)
        || snapshot.backends.iter().any(|backend| {
            // A backend that offers each caller something else may have it.
            !backend.shared() && workload(snapshot, tool).is_some_and(|it| it.0 == backend.name())
        })
}

/// Returns `true` if the tool of a step exists, but another one has its name.
fn has_lost_name(snapshot: &Snapshot, items: &[Entry], tool: &str) -> bool {
    !has_tool(snapshot, items, tool) && entries_of(snapshot, items, tool).next().is_some()
}

fn workload<'a, 't>(snapshot: &'a Snapshot, tool: &'t str) -> Option<(&'a str, &'t str)> {
    split_workload(tool, snapshot.backends.iter().map(|backend| backend.name()))
}

fn entries_of<'a>(
    snapshot: &Snapshot,
    items: &'a [Entry],
    tool: &str,
) -> impl Iterator<Item = &'a Entry> {
    let workload = workload(snapshot, tool);
    let is_meant = move |it: &&Entry| match workload {
        Some((backend, name)) => {
            it.backend == backend && (name == it.original || name == it.wanted)
        }
        None => it.name == tool,
    };
    items.iter().filter(|it| it.kind == singular(Kind::Tools)).filter(is_meant)
}
