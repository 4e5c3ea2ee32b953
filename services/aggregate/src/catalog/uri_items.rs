//! Resources and resource templates, which are identified by URI.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::apps::{ToolInterfaces, UriAssignment};
use super::definition::define;
use super::rules::{Conflict, by_generation, singular};
use super::templates::{Templates, unfit};
use super::{ByGeneration, CatalogInput, Kind, List, each_item};

/// Maximum number of left-out templates in the report.
const MAX_LEFT_OUT: usize = 100;

/// Backends that have a URI, by URI; the first one serves it.
type Contenders = BTreeMap<String, Vec<String>>;

/// URIs or templates of one backend; the flag is `true` if the backend has them in this generation.
pub(super) type OwnedUris<'a, L> = (&'a L, Vec<(&'a str, bool)>);

/// Routes resources. If a URI's backend lacks it in this generation, no other backend serves it.
pub(super) fn resources<L: Clone>(all: Vec<OwnedUris<'_, L>>) -> HashMap<Box<str>, Option<L>> {
    let mut owners = HashMap::with_capacity(all.iter().map(|(_, own)| own.len()).sum());
    for (backend, own) in all {
        owners.extend(own.into_iter().map(|(uri, has)| (uri.into(), has.then(|| backend.clone()))));
    }
    owners
}

/// Collects the templates of this generation.
pub(super) fn templates<L: Clone>(all: Vec<OwnedUris<'_, L>>) -> Templates<L> {
    Templates::new(all.into_iter().map(|(backend, own)| {
        let own = own.into_iter().filter(|(_, has)| *has);
        (backend.clone(), own.map(|(template, _)| template).collect())
    }))
}

/// Builds the lists of resources and templates. URIs are kept, except those of user interfaces that several backends have; the
/// first backend with a URI serves it. `owners` builds the lookup from URI to backend.
pub(super) fn located<L, O>(
    parts: &[CatalogInput<'_, L>],
    (kind, interfaces): (Kind, &ToolInterfaces),
    conflicts: &mut Vec<Conflict>,
    owners: impl Fn(Vec<OwnedUris<'_, L>>) -> O,
) -> ByGeneration<(Arc<O>, Arc<List>)> {
    let mut first = BTreeMap::new();
    let mut owned: Vec<Vec<_>> = Vec::with_capacity(parts.len());
    let (mut twice, mut shown) = (Contenders::new(), Contenders::new());
    let mut left_out = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let mut own = Vec::new();
        let contend = |all: &mut Contenders, uri: Cow<'_, str>, first: usize| {
            let first = || vec![parts[first].name.to_owned()];
            all.entry(uri.into_owned()).or_insert_with(first).push(part.name.to_owned());
        };
        each_item(part.offers, kind, |key, items| {
            if kind == Kind::Templates
                && let Some(resolution) = unfit(&key, own.len())
            {
                let (name, contenders) = (key.into_owned(), vec![part.name.to_owned()]);
                return left_out.push(Conflict {
                    kind: singular(kind),
                    name,
                    contenders,
                    resolution,
                });
            }
            let key = match interfaces.offered(index, &key) {
                UriAssignment::Unchanged => key,
                UriAssignment::Alias(alias) => Cow::Owned(alias.to_owned()),
                UriAssignment::TakenBy(by) => return contend(&mut shown, key, by),
            };
            match first.entry(key) {
                Entry::Vacant(place) => {
                    own.push((place.key().clone(), items));
                    place.insert((index, items));
                }
                Entry::Occupied(place) => contend(&mut twice, place.key().clone(), place.get().0),
            }
        });
        owned.push(own);
    }
    left_out.truncate(MAX_LEFT_OUT);
    conflicts.append(&mut left_out);
    conflicts.extend(to_conflicts(kind, twice, "it comes first in backends"));
    conflicts.extend(to_conflicts(kind, shown, "its tools show it"));
    by_generation(parts, kind, |generation| {
        let listed: Vec<_> = first
            .iter()
            .filter_map(|(key, (_, items))| Some((&**key, (*items.of(generation))?)))
            .collect();
        let size = listed.iter().map(|(_, item)| item.raw().len()).sum();
        let list = List::new(listed.into_iter(), size, |key, item, out| {
            if interfaces.is_empty() {
                out.extend_from_slice(item.raw());
            } else {
                define(item, key, None, None, out);
            }
        });
        let all = parts.iter().zip(&owned).map(|(part, own)| {
            let own = own.iter().map(|(uri, items)| (&**uri, items.of(generation).is_some()));
            (&part.backend, own.collect())
        });
        (Arc::new(owners(all.collect())), Arc::new(list))
    })
}

/// Returns the conflicts of URIs that several backends have.
fn to_conflicts(kind: Kind, all: Contenders, reason: &str) -> impl Iterator<Item = Conflict> {
    all.into_iter().map(move |(name, contenders)| Conflict {
        kind: singular(kind),
        name,
        resolution: format!("{} has it: {reason}", contenders[0]),
        contenders,
    })
}
