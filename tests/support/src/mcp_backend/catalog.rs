//! Items that a fake server lists.

use std::collections::BTreeMap;

use serde_json::json;

/// Members of list results.
pub(super) const MEMBERS: [&str; 4] = ["tools", "prompts", "resources", "resourceTemplates"];

/// Items by the member of their list's result, each as its JSON definition, which is sent unchanged.
#[derive(Debug, Clone, Default)]
pub(super) struct Catalog {
    items: BTreeMap<&'static str, Vec<String>>,
    /// Tools for stateful clients if they differ.
    stateful_tools: Option<Vec<String>>,
}

impl Catalog {
    /// Returns the items of a list.
    pub(super) fn items(&self, member: &str, is_stateless: bool) -> &[String] {
        match &self.stateful_tools {
            Some(tools) if member == "tools" && !is_stateless => tools,
            _ => self.items.get(member).map_or(&[], Vec::as_slice),
        }
    }

    /// Replaces the items of a list.
    pub(super) fn set(&mut self, member: &str, items: Vec<String>) {
        let known = MEMBERS.iter().find(|known| **known == member);
        self.items.insert(known.expect("a member of a list result of MCP"), items);
    }

    pub(super) fn set_stateful_tools(&mut self, tools: Vec<String>) {
        self.stateful_tools = Some(tools);
    }

    pub(super) fn add_tool(&mut self, name: &str) {
        self.items.entry("tools").or_default().push(tool(name));
    }
}

/// Returns the definition of a tool without arguments.
pub(super) fn tool(name: &str) -> String {
    json!({"name": name, "inputSchema": {"type": "object"}}).to_string()
}
