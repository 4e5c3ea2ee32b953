//! What a server says its tools do, remembered from its lists.

use std::time::{Duration, SystemTime};

use vmcp_core::{Cache, Hints};
use vmcp_wire::find;

/// The most tools whose hints are remembered.
const MAX_TOOLS: usize = 8192;

/// The hints of the tools that came by in lists.
#[derive(Debug)]
pub(crate) struct AnnotationCache(Cache<Box<str>, Hints>);

impl AnnotationCache {
    pub(crate) fn get(&self, tool: &str) -> Option<Hints> {
        self.0.get(tool, SystemTime::UNIX_EPOCH)
    }

    pub(crate) fn insert(&self, tool: &str, hints: Hints) {
        let forever = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        self.0.insert(tool.into(), hints, forever, SystemTime::UNIX_EPOCH);
    }
}

impl Default for AnnotationCache {
    fn default() -> Self {
        Self(Cache::new(MAX_TOOLS))
    }
}

/// The hints in a tool's definition, which is JSON that was checked.
pub(crate) fn parse_annotations(definition: &[u8]) -> Hints {
    let annotations = find(definition, "annotations").unwrap_or_default();
    let hint = |name| match find(annotations, name) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        _ => None,
    };
    Hints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

/// What a tool may do of which nothing was heard yet (the defaults of MCP's `ToolAnnotations`).
pub(crate) const WORST_CASE_ANNOTATIONS: Hints = Hints {
    read_only: Some(false),
    destructive: Some(true),
    idempotent: Some(false),
    open_world: Some(true),
};
