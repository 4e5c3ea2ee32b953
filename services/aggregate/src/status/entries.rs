//! What became of everything that the backends offer. Worked out when somebody asks: a catalog keeps
//! only what requests need.

use std::collections::HashMap;

use vmcp_core::Hints;

use super::{Because, Entry};
use crate::catalog::{Kind, Route, contested, hidden_by, singular, wanted};
use crate::hub::{Everything, Snapshot};

/// By backend and its own name for it: what clients call something, and whether they see it.
type Placed<'a> = HashMap<(&'a str, String), (&'a str, bool)>;

/// Everything that the backends of a snapshot offer, sorted by kind and name.
pub(super) fn entries(snapshot: &Snapshot, catalog: &Everything) -> Vec<Entry> {
    let mut entries = Vec::new();
    for kind in Kind::ALL {
        let placed = placed(catalog, kind);
        for link in &snapshot.links {
            let offer = link.offer.load();
            for item in offer.iter().flat_map(|offer| offer.of(kind).iter()) {
                let own = (link.name(), item.key().into_owned());
                let place = placed.get(&own).copied();
                entries.push(entry(snapshot, catalog, kind, own, place));
            }
        }
    }
    entries.sort_by(|a, b| (a.kind, &a.name, !a.shown).cmp(&(b.kind, &b.name, !b.shown)));
    entries
}

fn placed(catalog: &Everything, kind: Kind) -> Placed<'_> {
    let routes = match kind {
        Kind::Tools => &catalog.tools,
        Kind::Prompts => &catalog.prompts,
        Kind::Resources | Kind::Templates => return located(catalog, kind),
    };
    let own = |route: &Route<_>| vmcp_wire::unquote(&route.name).unwrap_or_default().into_owned();
    routes
        .iter()
        .map(|(name, route)| ((route.link.name(), own(route)), (name, route.shown)))
        .collect()
}

fn located(catalog: &Everything, kind: Kind) -> Placed<'_> {
    if kind == Kind::Resources {
        let resources = catalog.resources.iter();
        return resources.map(|(uri, link)| place(uri, link.name())).collect();
    }
    let templates = catalog.templates.iter();
    templates.flat_map(|(link, own)| own.iter().map(|uri| place(uri, link.name()))).collect()
}

/// URIs are nobody's to change and never hidden.
fn place<'a>(uri: &'a str, backend: &'a str) -> ((&'a str, String), (&'a str, bool)) {
    ((backend, uri.to_owned()), (uri, true))
}

fn entry(
    snapshot: &Snapshot,
    catalog: &Everything,
    kind: Kind,
    (backend, original): (&str, String),
    place: Option<(&str, bool)>,
) -> Entry {
    let rules = &snapshot.rules;
    let named = matches!(kind, Kind::Tools | Kind::Prompts);
    let wanted = wanted(rules, backend, kind, &original).to_owned();
    let contested = if named { contested(rules, backend, &wanted) } else { wanted.clone() };
    let shown = place.is_some_and(|(_, shown)| shown);
    let because = (!shown).then(|| match hidden_by(rules, backend, kind, &wanted) {
        Some(rule) => Because::Hidden(rule),
        None => Because::NameTaken(settlement(catalog, kind, &contested)),
    });
    let name = place.map_or(contested, |(name, _)| name.to_owned());
    let hints = catalog.hints(kind, &name);
    Entry {
        kind: singular(kind),
        name,
        backend: backend.to_owned(),
        original,
        wanted,
        hints: if shown { hints } else { Hints::default() },
        shown,
        because,
    }
}

fn settlement(catalog: &Everything, kind: Kind, name: &str) -> String {
    let mut conflicts = catalog.conflicts.iter();
    let conflict = conflicts.find(|found| found.kind == singular(kind) && found.name == name);
    conflict.map_or_else(|| "another has its name".to_owned(), |found| found.settled.clone())
}
