//! Entries of composite tools in the status report.

use std::sync::Arc;

use vmcp_compose::{Finding, ToolInfo, Workflow};
use vmcp_core::{Generation, ToolAnnotations};

use super::{Entry, HiddenReason};
use crate::catalog::{COMPOSITE_TOOLS, Conflict, Kind, singular};
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
        match taken {
            Some(conflict) => HiddenReason::NameTaken(conflict.resolution.clone()),
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
    let mut tools = items.iter().filter(|it| it.kind == singular(Kind::Tools));
    tools.any(|it| {
        let own = tool.strip_prefix(&*it.backend).and_then(|rest| rest.strip_prefix('.'));
        it.name == tool || own.is_some_and(|own| own == it.original || own == it.wanted)
    }) || snapshot.backends.iter().any(|backend| {
        // A backend that offers each caller something else may have it.
        let own = tool.strip_prefix(backend.name()).and_then(|rest| rest.strip_prefix('.'));
        !backend.shared() && own.is_some()
    })
}
