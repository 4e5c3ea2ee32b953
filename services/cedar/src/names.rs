//! Names of the model: entity types, actions, attributes.

use vmcp_core::ItemKind;

/// Entity type of principals.
pub(crate) const CLIENT: &str = "Client";

/// Entity types of resources.
pub(crate) const ITEMS: [&str; 3] = ["Tool", "Prompt", "Resource"];

/// Entity type of a principal's groups.
pub(crate) const GROUP: &str = "Group";

/// Entity type of the server, the parent of all its items.
pub(crate) const SERVER: &str = "MCP";

/// Attributes of an item: the backend that handles it, and the generation of that backend.
pub(crate) const BACKEND: &str = "backend";
pub(crate) const GENERATION: &str = "generation";

/// Kind of MCP feature, with the action that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Tool,
    Prompt,
    Resource,
}

impl Feature {
    pub(crate) const ALL: [Self; 3] = [Self::Tool, Self::Prompt, Self::Resource];

    pub(crate) fn of(kind: ItemKind) -> Self {
        match kind {
            ItemKind::Tool => Self::Tool,
            ItemKind::Prompt => Self::Prompt,
            ItemKind::Resource | ItemKind::ResourceTemplate => Self::Resource,
        }
    }

    /// Returns the kind of items with this feature.
    pub(crate) fn kind(self) -> ItemKind {
        match self {
            Self::Tool => ItemKind::Tool,
            Self::Prompt => ItemKind::Prompt,
            Self::Resource => ItemKind::Resource,
        }
    }

    /// Returns the resource type, the action identifier, `operation` and `feature`.
    pub(crate) fn names(self) -> [&'static str; 4] {
        match self {
            Self::Tool => [ITEMS[0], "call_tool", "call", "tool"],
            Self::Prompt => [ITEMS[1], "get_prompt", "get", "prompt"],
            Self::Resource => [ITEMS[2], "read_resource", "read", "resource"],
        }
    }
}
