//! Names in policies that no backend has.

use serde_json::{Value, json};
use vmcp_aggregate::settings::Sharing;
use vmcp_aggregate::status::Report;
use vmcp_cedar::NamedItem;
use vmcp_core::ItemKind;

/// Of what policies name, that which no backend has. As long as an offer is unknown, or depends on the caller, nothing
/// can be said of it; nor can it of resources that may be a template's.
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

/// A name in a policy without an item, in a line.
pub(crate) fn unmatched_name(item: &NamedItem) -> String {
    let NamedItem { index, is_forbid, kind, name } = item;
    let verb = if *is_forbid { "forbids" } else { "permits" };
    let advice = "no backend has it: use the name that clients see";
    super::table::plain(&format!(
        "incomingAuth.authz.policies[{index}]: {verb} {} {name}: {advice}",
        kind_name(*kind)
    ))
}

/// A name in a policy without an item, for programs.
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
