//! Facts about tools that the gateway knows.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

use serde_json::Value;
use vmcp_core::ToolAnnotations;

/// Facts about one tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolInfo {
    /// `inputSchema`. `None` if it is unknown.
    pub input_schema: Option<Arc<Value>>,
    /// `outputSchema`. `None` if the tool has none.
    pub output_schema: Option<Arc<Value>>,
    /// Annotations, after overrides.
    pub annotations: ToolAnnotations,
}

/// Lookup of the tools that steps may call, hidden ones included.
pub trait ToolLookup: Send + Sync {
    /// Returns the facts about `tool`, as a step names it (`workload.tool_name`), or `None` if no backend has it.
    fn tool(&self, tool: &str) -> Option<ToolInfo>;
}

// === impl ToolInfo ===

impl ToolInfo {
    /// Returns `true` if a repeated call has no further effect: the tool is read-only or idempotent.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        let ToolAnnotations { read_only, destructive: _, idempotent, open_world: _ } =
            self.annotations;
        read_only == Some(true) || idempotent == Some(true)
    }
}

impl<F: Fn(&str) -> Option<ToolInfo> + Send + Sync> ToolLookup for F {
    fn tool(&self, tool: &str) -> Option<ToolInfo> {
        self(tool)
    }
}

impl<S: BuildHasher + Send + Sync> ToolLookup for HashMap<String, ToolInfo, S> {
    fn tool(&self, tool: &str) -> Option<ToolInfo> {
        self.get(tool).cloned()
    }
}

impl ToolLookup for BTreeMap<String, ToolInfo> {
    fn tool(&self, tool: &str) -> Option<ToolInfo> {
        self.get(tool).cloned()
    }
}
