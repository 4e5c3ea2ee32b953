//! Tool annotations that a server declares, cached from its lists.

use std::time::{Duration, SystemTime};

use vmcp_core::{Cache, ToolAnnotations};
use vmcp_wire::find;

/// Maximum number of tools with cached annotations.
const MAX_TOOLS: usize = 8192;

/// Cache of the annotations of listed tools.
#[derive(Debug)]
pub(crate) struct AnnotationCache(Cache<Box<str>, ToolAnnotations>);

impl AnnotationCache {
    pub(crate) fn get(&self, tool: &str) -> Option<ToolAnnotations> {
        self.0.get(tool, SystemTime::UNIX_EPOCH)
    }

    pub(crate) fn insert(&self, tool: &str, annotations: ToolAnnotations) {
        let forever = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        self.0.insert(tool.into(), annotations, forever, SystemTime::UNIX_EPOCH);
    }
}

impl Default for AnnotationCache {
    fn default() -> Self {
        Self(Cache::new(MAX_TOOLS))
    }
}

/// Parses the annotations of a tool definition, which is valid JSON.
pub(crate) fn parse_annotations(definition: &[u8]) -> ToolAnnotations {
    let annotations = find(definition, "annotations").unwrap_or_default();
    let hint = |name| match find(annotations, name) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        _ => None,
    };
    ToolAnnotations {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

/// Annotations assumed for an unknown tool (the defaults of MCP's `ToolAnnotations`).
pub(crate) const WORST_CASE_ANNOTATIONS: ToolAnnotations = ToolAnnotations {
    read_only: Some(false),
    destructive: Some(true),
    idempotent: Some(false),
    open_world: Some(true),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_absent_hints_apart_from_false() {
        let definition =
            br#"{"name":"a","annotations":{"readOnlyHint":true,"destructiveHint":false,
            "idempotentHint":"false"}}"#;
        let annotations = ToolAnnotations {
            read_only: Some(true),
            destructive: Some(false),
            ..ToolAnnotations::default()
        };
        assert_eq!(parse_annotations(definition), annotations);
        assert_eq!(parse_annotations(br#"{"name":"a"}"#), ToolAnnotations::default());
    }
}
