//! Names in policies without an item.

use serde_json::{Value, json};
use vmcp_aggregate::settings::Sharing;
use vmcp_aggregate::status::Report;
use vmcp_cedar::NamedItem;
use vmcp_core::ItemKind;

/// Returns the names in policies that no backend offers. The result is empty while an offer is unknown or depends on the
/// caller, and omits resources that may match a template.
pub(crate) fn unmatched(named: Vec<NamedItem>, report: &Report) -> Vec<NamedItem> {
    let mut backends = report.backends.iter();
    if !backends.all(|backend| backend.offered && backend.catalog == Sharing::Shared) {
        return Vec::new();
    }
    let is_offered = |item: &NamedItem| {
        let of = |kind: &str| {
            report.entries.iter().any(|entry| entry.kind == kind && entry.name == item.name)
        };
        match item.kind {
            ItemKind::Tool => of("tool"),
            ItemKind::Prompt => of("prompt"),
            ItemKind::Resource | ItemKind::ResourceTemplate => {
                of("resource")
                    || report.entries.iter().any(|entry| entry.kind == "resource template")
            }
        }
    };
    named.into_iter().filter(|item| !is_offered(item)).collect()
}

/// Describes a name in a policy without an item, as text.
pub(crate) fn unmatched_name(item: &NamedItem) -> String {
    let NamedItem { index, is_forbid, kind, name } = item;
    let verb = if *is_forbid { "forbids" } else { "permits" };
    let advice = "no backend has it: use the name that clients see";
    super::table::plain(&format!(
        "incomingAuth.authz.policies[{index}]: {verb} {} {name}: {advice}",
        kind_name(*kind)
    ))
}

/// Returns a name in a policy without an item as JSON.
pub(crate) fn unmatched_name_json(item: &NamedItem) -> Value {
    let NamedItem { index, is_forbid, kind, name } = item;
    let effect = if *is_forbid { "forbid" } else { "permit" };
    json!({"policy": index, "effect": effect, "kind": kind_name(*kind), "name": name})
}

fn kind_name(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tool",
        ItemKind::Prompt => "prompt",
        ItemKind::Resource | ItemKind::ResourceTemplate => "resource",
    }
}
