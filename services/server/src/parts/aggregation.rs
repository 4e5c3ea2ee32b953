//! `aggregation`: how the backends' offers become one.

use vmcp_aggregate::settings::{Conflicts, Override, Rules, WorkloadRules};
use vmcp_compose::Workflow;
use vmcp_config::{
    Aggregation, CompositeTool, ConfigError, ConflictResolution, Never, ToolAnnotations,
    ToolOverride, WorkloadTools,
};

/// Converts the rules, and compiles the composite tools. Adds the mistakes of all of them to `errors`.
pub(super) fn convert(
    aggregation: Aggregation,
    composite_tools: &[CompositeTool],
    errors: &mut Vec<ConfigError>,
) -> Rules {
    let Aggregation { conflict_resolution, exclude_all_tools, tools } = aggregation;
    let mut workflows = Vec::new();
    for (number, tool) in composite_tools.iter().enumerate() {
        match Workflow::compile(tool, &format!("compositeTools[{number}]")) {
            Ok(workflow) => workflows.push(workflow),
            Err(found) => errors.extend(found),
        }
    }
    Rules {
        conflicts: match conflict_resolution {
            ConflictResolution::Prefix { format } => Conflicts::Prefix(format.to_string()),
            ConflictResolution::Priority { order } => Conflicts::Priority(order),
            ConflictResolution::Manual => Conflicts::Manual,
        },
        exclude_all_tools,
        workloads: tools.into_iter().map(workload).collect(),
        workflows,
    }
}

fn workload(tools: WorkloadTools<Never>) -> (String, WorkloadRules) {
    // A file cannot hold a `toolConfigRef`: its type has no values.
    let WorkloadTools { workload, exclude_all, filter, overrides, tool_config_ref: None } = tools;
    let rules = WorkloadRules {
        exclude_all,
        filter: (!filter.is_empty()).then(|| filter.into_iter().collect()),
        overrides: overrides.into_iter().map(|(name, change)| (name, overridden(change))).collect(),
    };
    (workload, rules)
}

fn overridden(change: ToolOverride) -> Override {
    let ToolOverride { name, description, annotations } = change;
    let ToolAnnotations {
        title,
        read_only_hint,
        destructive_hint,
        idempotent_hint,
        open_world_hint,
    } = annotations.unwrap_or_default();
    let hints = [
        ("title", title.map(Into::into)),
        ("readOnlyHint", read_only_hint.map(Into::into)),
        ("destructiveHint", destructive_hint.map(Into::into)),
        ("idempotentHint", idempotent_hint.map(Into::into)),
        ("openWorldHint", open_world_hint.map(Into::into)),
    ];
    let annotations = hints.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Override { name, description, annotations }
}
