//! Rules between the steps of one composite tool.

use std::collections::{HashMap, HashSet};

use super::{CompositeTool, InnerStep, Step, StepKind};
use crate::{context::Context, suggest::nearest, tree::Node};

impl CompositeTool {
    pub(super) fn check(&self, node: &Node, cx: &mut Context) {
        let Self { name: _, description: _, parameters, timeout: _, steps, output: _ } = self;
        if let Some(parameters) = parameters
            && parameters.get("type").and_then(|kind| kind.as_str()) != Some("object")
        {
            let here = node.get("parameters").unwrap_or(node);
            let found = here.get("type").map_or_else(|| "no value".to_owned(), Node::describe);
            cx.at_key("parameters", |cx| cx.reject_key(here, "type", found, "object"));
        }
        let Some(list) = node.get("steps") else { return };
        cx.at_key("steps", |cx| check_steps(steps, list, cx));
    }
}

fn check_steps(steps: &[Step], list: &Node, cx: &mut Context) {
    let ids: HashSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    let crate::tree::NodeKind::List(items) = &list.kind else { return };
    let mut clean = true;
    for (index, step) in steps.iter().enumerate() {
        let Some(node) = items.get(index) else { return };
        cx.at_index(index, |cx| {
            let before = cx.count();
            for dependency in step.depends_on.iter().filter(|id| !ids.contains(id.as_str())) {
                let suggestion = nearest(dependency, ids.iter().copied()).map(ToOwned::to_owned);
                let at = node.get("dependsOn").unwrap_or(node);
                cx.at_key("dependsOn", |cx| {
                    cx.reject_as(
                        at,
                        format!("\"{dependency}\""),
                        "the id of a step of this tool",
                        suggestion,
                    );
                });
            }
            check_step(step, node, cx);
            clean &= cx.count() == before;
        });
    }
    if clean && let Some(cycle) = find_cycle(steps) {
        let is_first = |step: &Step| Some(&step.id.as_str()) == cycle.first();
        let first = steps.iter().position(is_first).unwrap_or_default();
        let node = items.get(first).unwrap_or(list);
        let found = format!("a cycle of dependsOn: {}", cycle.join(" -> "));
        cx.at_index(first, |cx| {
            cx.reject_key(node, "dependsOn", found, "dependsOn without cycles");
        });
    }
}

fn check_step(step: &Step, node: &Node, cx: &mut Context) {
    match &step.kind {
        StepKind::Tool { tool, arguments: _ } => check_tool(tool, node, cx),
        StepKind::Elicitation { .. } => {}
        StepKind::ForEach { step: InnerStep { tool, .. }, .. } => {
            let inner = node.get("step").unwrap_or(node);
            cx.at_key("step", |cx| check_tool(tool, inner, cx));
        }
    }
}

fn check_tool(tool: &str, node: &Node, cx: &mut Context) {
    let good = tool.starts_with(|c: char| c.is_ascii_alphanumeric())
        && tool.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    if !good {
        let allowed =
            "workload.tool_name of letters, digits, dots, underscores, hyphens and slashes";
        cx.reject_key(node, "tool", format!("\"{}\"", crate::tree::shorten(tool)), allowed);
    }
}

/// Returns the steps of a dependency cycle, if there is one, the first one also as the last one. Repeatedly removes the steps
/// without dependencies; each of the others depends on another of them.
fn find_cycle(steps: &[Step]) -> Option<Vec<&str>> {
    let mut waiting: HashMap<&str, HashSet<&str>> = steps
        .iter()
        .map(|step| (step.id.as_str(), step.depends_on.iter().map(String::as_str).collect()))
        .collect();
    loop {
        let free: Vec<&str> =
            waiting.iter().filter(|(_, on)| on.is_empty()).map(|(id, _)| *id).collect();
        if free.is_empty() {
            break;
        }
        for id in free {
            waiting.remove(id);
            for on in waiting.values_mut() {
                on.remove(id);
            }
        }
    }
    let mut path = Vec::new();
    let mut next = steps.iter().find(|step| waiting.contains_key(step.id.as_str()));
    while let Some(step) = next {
        let id = step.id.as_str();
        let first = path.iter().position(|seen| *seen == id);
        path.push(id);
        if let Some(first) = first {
            return path.get(first..).map(<[&str]>::to_vec);
        }
        let dependency = step.depends_on.iter().find(|id| waiting.contains_key(id.as_str()))?;
        next = steps.iter().find(|step| step.id == *dependency);
    }
    None
}
