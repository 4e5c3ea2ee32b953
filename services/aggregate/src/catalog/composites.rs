//! Composite tools, listed beside the backends' tools (seed section 2.9.4).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Value, json};
use vmcp_compose::{ToolInfo, Workflow};
use vmcp_core::ToolAnnotations;

use super::{CatalogInput, Conflict, Item, Kind, LazyAnnotations, singular};
use crate::settings::Override;

/// Name of the composite tools among the contenders of a conflict.
pub(crate) const COMPOSITE_TOOLS: &str = "compositeTools";

/// Composite tool.
#[derive(Debug)]
pub(crate) struct Composite {
    pub(crate) workflow: Workflow,
    /// Tools of the steps that a backend has, by the name in the configuration.
    pub(crate) tools: HashMap<Box<str>, StepTool>,
    /// Annotations that follow from those of the steps.
    pub(crate) annotations: ToolAnnotations,
}

/// Tool that a step calls.
#[derive(Debug)]
pub(crate) struct StepTool {
    /// Name of the route, which clients may not see.
    pub(crate) name: Box<str>,
    pub(crate) annotations: ToolAnnotations,
    definition: Bytes,
    info: OnceLock<ToolInfo>,
}

/// Composite tools by name.
#[derive(Debug, Default)]
pub(crate) struct Composites {
    /// Those that clients may call.
    pub(crate) offered: HashMap<Box<str>, Composite>,
    /// Those with a step whose tool no backend has, or whose name a visible tool has. Tasks of earlier calls remain.
    pub(crate) withheld: HashMap<Box<str>, Composite>,
}

/// Composite tools of the configuration, with the names of all its backends.
#[derive(Clone, Copy, Default)]
pub(super) struct Workflows<'a> {
    pub(super) all: &'a [Workflow],
    pub(super) backends: &'a [&'a str],
}

/// Tool with a route, for the steps of composite tools.
pub(super) struct RoutedTool<'a> {
    pub(super) name: &'a str,
    pub(super) part: usize,
    pub(super) item: Item<'a>,
    pub(super) change: Option<&'a Override>,
    pub(super) shown: bool,
}

/// Finds the tools of the steps, and offers the composite tools whose steps all have a tool and whose name no visible tool
/// has.
pub(super) fn composites<L>(
    workflows: Workflows<'_>,
    parts: &[CatalogInput<'_, L>],
    tools: &[RoutedTool<'_>],
    conflicts: &mut Vec<Conflict>,
) -> Composites {
    let index = Index::new(parts, tools);
    let mut found = Composites::default();
    for workflow in workflows.all {
        let of_step =
            |tool: &str| Some((tool.into(), StepTool::new(index.find(tool, workflows.backends)?)));
        let tools: HashMap<_, _> = workflow.tools().filter_map(of_step).collect();
        let is_complete = workflow.tools().all(|tool| tools.contains_key(tool));
        let composite = Composite::new(workflow.clone(), tools);
        let owner = index.named.get(workflow.name()).filter(|tool| tool.shown);
        if let Some(owner) = owner {
            let conflict = Conflict {
                kind: singular(Kind::Tools),
                name: workflow.name().to_owned(),
                contenders: vec![parts[owner.part].name.to_owned(), COMPOSITE_TOOLS.to_owned()],
                resolution: "the backend's tool has it: give the composite tool another name in \
                             compositeTools[].name"
                    .to_owned(),
            };
            // Both generations report it.
            if !conflicts.contains(&conflict) {
                conflicts.push(conflict);
            }
        }
        let is_offered = is_complete && owner.is_none();
        let composites = if is_offered { &mut found.offered } else { &mut found.withheld };
        composites.insert(workflow.name().into(), composite);
    }
    found
}

/// Tools by their names in configurations.
struct Index<'t, 'a> {
    /// Tools by advertised name.
    named: HashMap<&'a str, &'t RoutedTool<'a>>,
    /// Tools by backend, and own or overridden name.
    owned: HashMap<&'t str, HashMap<Cow<'a, str>, &'t RoutedTool<'a>>>,
}

impl<'t, 'a> Index<'t, 'a> {
    fn new<L>(parts: &'t [CatalogInput<'_, L>], tools: &'t [RoutedTool<'a>]) -> Self {
        let named = tools.iter().map(|tool| (tool.name, tool)).collect();
        let mut owned = HashMap::<_, HashMap<_, _>>::new();
        for tool in tools {
            let renamed = tool.change.and_then(|change| change.name.as_deref());
            if let Some(renamed) = renamed {
                let of_backend = owned.entry(parts[tool.part].name).or_default();
                of_backend.insert(Cow::Borrowed(renamed), tool);
            }
        }
        // The backend's own name precedes an override of another tool.
        for tool in tools {
            owned.entry(parts[tool.part].name).or_default().insert(tool.item.key(), tool);
        }
        Self { named, owned }
    }

    /// Finds the tool of a step: `workload.tool_name` of a configured backend, otherwise an advertised name.
    fn find(&self, tool: &str, backends: &[&str]) -> Option<&'t RoutedTool<'a>> {
        match split_workload(tool, backends.iter().copied()) {
            Some((backend, name)) => self.owned.get(backend)?.get(name).copied(),
            None => self.named.get(tool).copied(),
        }
    }
}

/// Splits `workload.tool_name`. `None` for an advertised name.
///
/// Only the configuration decides, never what backends list: a step must not reach another backend while its own lacks the tool.
/// Names of backends and of tools may contain dots: the longest name of a backend that fits is the workload.
pub(crate) fn split_workload<'a, 't>(
    tool: &'t str,
    backends: impl Iterator<Item = &'a str>,
) -> Option<(&'a str, &'t str)> {
    let split = |backend: &'a str| Some((backend, tool.strip_prefix(backend)?.strip_prefix('.')?));
    backends.filter_map(split).max_by_key(|(backend, _)| backend.len())
}

impl Composite {
    fn new(workflow: Workflow, tools: HashMap<Box<str>, StepTool>) -> Self {
        let lookup = |tool: &str| tools.get(tool).map(|tool: &StepTool| tool.info().clone());
        let annotations = workflow.annotations(&lookup).unwrap_or_default();
        Self { workflow, tools, annotations }
    }

    /// Appends the definition for clients.
    pub(super) fn define(&self, out: &mut Vec<u8>) {
        let Self { workflow, tools: _, annotations } = self;
        let mut definition = json!({
            "name": workflow.name(),
            "inputSchema": workflow.input_schema(),
        });
        if let Some(description) = workflow.description() {
            definition["description"] = description.into();
        }
        if let Some(schema) = workflow.output_schema() {
            definition["outputSchema"] = schema.clone();
        }
        let ToolAnnotations { read_only, destructive, idempotent, open_world } = *annotations;
        let hints = [
            ("readOnlyHint", read_only),
            ("destructiveHint", destructive),
            ("idempotentHint", idempotent),
            ("openWorldHint", open_world),
        ];
        for (name, hint) in hints {
            if let Some(hint) = hint {
                definition["annotations"][name] = hint.into();
            }
        }
        out.extend_from_slice(definition.to_string().as_bytes());
    }
}

impl StepTool {
    fn new(tool: &RoutedTool<'_>) -> Self {
        Self {
            name: tool.name.into(),
            annotations: LazyAnnotations::new(tool.item, tool.change).get(),
            definition: tool.item.definition(),
            info: OnceLock::new(),
        }
    }

    /// Returns the facts about the tool.
    pub(crate) fn info(&self) -> &ToolInfo {
        self.info.get_or_init(|| {
            // Catalogs contain valid JSON only; a schema that cannot be parsed is unknown.
            let definition = serde_json::from_slice::<Value>(&self.definition).ok();
            let schema =
                |name: &str| definition.as_ref().and_then(|it| it.get(name)).cloned().map(Arc::new);
            ToolInfo {
                input_schema: schema("inputSchema"),
                output_schema: schema("outputSchema"),
                annotations: self.annotations,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_backend_name_is_workload_of_step() {
        let split = |tool| split_workload(tool, ["a", "a.b", "c"].into_iter());
        assert_eq!(split("a.echo"), Some(("a", "echo")));
        assert_eq!(split("a.b.echo"), Some(("a.b", "echo")));
        assert_eq!(split("a.bc.echo"), Some(("a", "bc.echo")));
        for advertised in ["a_echo", "b.echo", "echo", "a"] {
            assert_eq!(split(advertised), None, "{advertised}");
        }
    }
}
