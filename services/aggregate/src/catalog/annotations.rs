//! Annotations that a server declares for a tool (MCP, `ToolAnnotations`), evaluated by policies.

use std::sync::OnceLock;

use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;
use vmcp_core::ToolAnnotations;
use vmcp_wire::find;

use super::Item;
use crate::settings::Override;

/// Returns `true` if some of the definitions may contain annotations; others need not be parsed.
pub(super) fn hinted(definitions: &[u8]) -> bool {
    let holds = |text: &[u8]| memmem::find(definitions, text).is_some();
    // Names may contain escape sequences.
    holds(b"Hint") || holds(b"\\u")
}

/// Lazily parsed annotations of one tool. Only policies read them, and parsing every definition takes longer than the rest of
/// building a catalog; each definition is parsed on first use.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyAnnotations {
    /// Definition that has not been parsed yet; empty if it has no annotations.
    definition: Bytes,
    known: OnceLock<ToolAnnotations>,
}

impl LazyAnnotations {
    /// Creates the annotations of a definition with an override applied.
    pub(super) fn new(item: Item<'_>, change: Option<&Override>) -> Self {
        match change.filter(|change| !change.annotations.is_empty()) {
            Some(change) => Self { definition: Bytes::new(), known: of(item, change).into() },
            None if item.hinted() => Self { definition: item.definition(), known: OnceLock::new() },
            None => Self::default(),
        }
    }

    pub(crate) fn get(&self) -> ToolAnnotations {
        *self.known.get_or_init(|| declared(&self.definition))
    }
}

/// Parses the annotations of a definition and applies the override.
fn of(item: Item<'_>, change: &Override) -> ToolAnnotations {
    let mut annotations =
        if item.hinted() { declared(item.raw()) } else { ToolAnnotations::default() };
    for (name, value) in &change.annotations {
        if let Some(hint) = place(&mut annotations, name) {
            *hint = Value::as_bool(value);
        }
    }
    annotations
}

fn declared(definition: &[u8]) -> ToolAnnotations {
    let Some(annotations) = find(definition, "annotations") else {
        return ToolAnnotations::default();
    };
    read(|name| match find(annotations, name) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        _ => None,
    })
}

fn read(hint: impl Fn(&str) -> Option<bool>) -> ToolAnnotations {
    ToolAnnotations {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

fn place<'a>(annotations: &'a mut ToolAnnotations, name: &str) -> Option<&'a mut Option<bool>> {
    match name {
        "readOnlyHint" => Some(&mut annotations.read_only),
        "destructiveHint" => Some(&mut annotations.destructive),
        "idempotentHint" => Some(&mut annotations.idempotent),
        "openWorldHint" => Some(&mut annotations.open_world),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Items, Kind};

    fn annotations(tool: &str, change: Option<&Override>) -> ToolAnnotations {
        let items = Items::of(Kind::Tools, &[tool]);
        LazyAnnotations::new(items.iter().next().unwrap(), change).get()
    }

    #[test]
    fn overrides_replace_annotations_of_server() {
        let tool = r#"{"name":"a","annotations":{"readOnlyHint":true,"\u0064estructiveHint":false,"openWorldHint":1}}"#;
        let declared = ToolAnnotations {
            read_only: Some(true),
            destructive: Some(false),
            ..ToolAnnotations::default()
        };
        assert_eq!(annotations(tool, None), declared);
        let change = Override {
            annotations: vec![("readOnlyHint", false.into()), ("title", "T".into())],
            ..Override::default()
        };
        let overridden = ToolAnnotations { read_only: Some(false), ..declared };
        assert_eq!(annotations(tool, Some(&change)), overridden);
        let alone = annotations(r#"{"name":"a"}"#, Some(&change));
        assert_eq!(alone, ToolAnnotations { read_only: Some(false), ..ToolAnnotations::default() });
    }
}
