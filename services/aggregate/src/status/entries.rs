//! Entries of the status report. They are computed on demand, because a catalog only stores the data that requests need.

use std::collections::HashMap;

use vmcp_core::{Generation, ToolAnnotations};

use super::composites::composite_entries;
use super::{Entry, HiddenReason};
use crate::catalog::{
    ByGeneration, Kind, Offer, Route, contested, each_item, hidden_by, singular, wanted,
};
use crate::snapshot::{BackendCatalog, BackendCatalogs, Snapshot};

/// Advertised name and visibility, by backend and the backend's own name.
type AdvertisedNames<'a> = HashMap<(&'a str, String), (&'a str, bool)>;

/// Returns all items of a snapshot's backends, sorted by kind and name. Items that are equal for clients of both generations
/// form one entry.
pub(super) fn entries(snapshot: &Snapshot, catalogs: &BackendCatalogs) -> Vec<Entry> {
    let (mut entries, none) = (Vec::new(), Offer::default());
    let both = ByGeneration { stateful: Generation::Stateful, stateless: Generation::Stateless };
    for kind in Kind::ALL {
        let placed = both.map(|generation| advertised_names(catalogs.of(generation), kind));
        for backend in &snapshot.backends {
            let offers = backend.offers.load();
            let Some(offers) = offers.known(&none) else { continue };
            each_item(offers, kind, |original, items| {
                let of = |generation: Generation| {
                    items.of(generation).as_ref()?;
                    let own = (backend.name(), original.clone().into_owned());
                    let place = placed.of(generation).get(&own).copied();
                    Some(entry(snapshot, catalogs.of(generation), kind, own, place))
                };
                let ByGeneration { stateful, stateless } = both.map(of);
                if stateful == stateless {
                    entries.extend(stateful);
                    return;
                }
                let one = |entry: Option<Entry>, generation| {
                    entry.map(|entry| Entry { generation: Some(generation), ..entry })
                };
                entries.extend(one(stateful, Generation::Stateful));
                entries.extend(one(stateless, Generation::Stateless));
            });
        }
    }
    let composites = composite_entries(snapshot, catalogs, &entries);
    entries.extend(composites);
    entries.sort_by(|a, b| (a.kind, &a.name, !a.shown).cmp(&(b.kind, &b.name, !b.shown)));
    entries
}

fn advertised_names(catalog: &BackendCatalog, kind: Kind) -> AdvertisedNames<'_> {
    let routes = match kind {
        Kind::Tools => &catalog.tools,
        Kind::Prompts => &catalog.prompts,
        Kind::Resources | Kind::Templates => return advertised_uris(catalog, kind),
    };
    let own = |route: &Route<_>| {
        let name = vmcp_wire::parse_json_string(&route.name);
        name.expect("a route has the name of a listed item, a JSON string").into_owned()
    };
    routes
        .iter()
        .map(|(name, route)| ((route.backend.name(), own(route)), (name, route.shown)))
        .collect()
}

fn advertised_uris(catalog: &BackendCatalog, kind: Kind) -> AdvertisedNames<'_> {
    if kind == Kind::Resources {
        let resources = catalog.resources.iter();
        return resources
            .filter_map(|(uri, backend)| {
                let own = catalog.own_uri(uri).unwrap_or(uri).to_owned();
                Some(((backend.as_ref()?.name(), own), (&**uri, true)))
            })
            .collect();
    }
    catalog.templates.iter().map(|(uri, backend)| place(uri, backend.name())).collect()
}

/// Returns the placement of a template. Template URIs are never renamed or hidden.
fn place<'a>(uri: &'a str, backend: &'a str) -> ((&'a str, String), (&'a str, bool)) {
    ((backend, uri.to_owned()), (uri, true))
}

fn entry(
    snapshot: &Snapshot,
    catalog: &BackendCatalog,
    kind: Kind,
    (backend, original): (&str, String),
    place: Option<(&str, bool)>,
) -> Entry {
    let rules = &snapshot.rules;
    let named = matches!(kind, Kind::Tools | Kind::Prompts);
    let wanted = wanted(rules, backend, kind, &original).to_owned();
    let contested = if named { contested(rules, backend, &wanted) } else { wanted.clone() };
    let shown = place.is_some_and(|(_, shown)| shown);
    let hidden_reason = (!shown).then(|| match hidden_by(rules, backend, kind, &wanted) {
        Some(rule) => HiddenReason::Rule(rule),
        None => HiddenReason::NameTaken(resolution(catalog, kind, &contested)),
    });
    let name = place.map_or(contested, |(name, _)| name.to_owned());
    let annotations = catalog.annotations(kind, &name);
    Entry {
        kind: singular(kind),
        name,
        backend: backend.to_owned(),
        original,
        wanted,
        annotations: if shown { annotations } else { ToolAnnotations::default() },
        shown,
        hidden_reason,
        generation: None,
        composite: None,
    }
}

fn resolution(catalog: &BackendCatalog, kind: Kind, name: &str) -> String {
    let mut conflicts = catalog.conflicts.iter();
    let conflict = conflicts.find(|found| found.kind == singular(kind) && found.name == name);
    conflict.map_or_else(|| "another has its name".to_owned(), |found| found.resolution.clone())
}
