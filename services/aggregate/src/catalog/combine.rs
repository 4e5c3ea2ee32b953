//! Many offers become one catalog (seed section 2.9.1): overrides, filters, conflict resolution.
//!
//! The order is fixed: a tool's overrides are applied first, filters look at the resulting name, and
//! conflicts are settled among what is shown; what is hidden takes the names that are left, so that
//! a hidden tool never costs a shown one its name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use vmcp_core::ItemKind;

use super::define::define;
use super::hints::Told;
use super::settle::{Candidate, Settling};
use super::{Catalog, Item, Kind, List, Offer, ParamHeader, Route, Routes, params};
use crate::settings::{Conflicts, Rules, WorkloadRules};

/// The longest instructions that are taken of one backend, in bytes.
const LONGEST_INSTRUCTIONS: usize = 16 << 10;

/// A name that several backends wanted, and how that was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// `tool`, `prompt`, `resource` or `resource template`.
    pub kind: &'static str,
    /// What they all wanted to be called.
    pub name: String,
    /// Who wanted it, in the order in which they were considered.
    pub contenders: Vec<String>,
    /// What became of it.
    pub settled: String,
}

/// A rule that hides tools from clients. They stay routable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hides {
    /// `aggregation.excludeAllTools`.
    ExcludeAllTools,
    /// `excludeAll` of the backend.
    ExcludeAll,
    /// `filter` of the backend, which doesn't name it.
    Filter,
}

/// One backend's part in the whole.
pub(crate) struct Part<'a, L> {
    pub(crate) name: &'a str,
    pub(crate) link: L,
    pub(crate) offer: &'a Offer,
}

/// The catalog of `parts`, which are in the order of the configuration.
pub(crate) fn combine<L: Clone>(parts: &[Part<'_, L>], rules: &Rules) -> Catalog<L> {
    let mut catalog = Catalog { instructions: instructions(parts), ..Catalog::default() };
    named(&mut catalog, parts, rules, Kind::Tools);
    named(&mut catalog, parts, rules, Kind::Prompts);
    located(&mut catalog, parts, Kind::Resources);
    located(&mut catalog, parts, Kind::Templates);
    catalog
}

/// Tools and prompts: things with names that can be changed.
fn named<L: Clone>(catalog: &mut Catalog<L>, parts: &[Part<'_, L>], rules: &Rules, kind: Kind) {
    let mut settling = Settling::new(parts, rules, kind);
    let shown = settling.settle(true, &mut catalog.conflicts);
    // Conflicts among what nobody sees are no news.
    let hidden = settling.settle(false, &mut Vec::new());
    let none: Arc<[ParamHeader]> = Arc::default();
    let mut listed = Vec::with_capacity(shown.len());
    let mut size = 0;
    let mut routes = Routes::with_capacity(shown.len() + hidden.len());
    let shown = shown.into_iter().map(|won| (won, true));
    for (won, visible) in shown.chain(hidden.into_iter().map(|won| (won, false))) {
        let (name, candidate) = (settling.names.get(won.name), &settling.candidates[won.candidate]);
        let (item, part) = (candidate.item, &parts[candidate.part]);
        if routes.get(name).is_some() {
            // A prefix that settled one conflict has made another.
            if visible {
                catalog.conflicts.push(Conflict {
                    kind: singular(kind),
                    name: name.to_owned(),
                    contenders: vec![part.name.to_owned()],
                    settled: "left out: with its prefix it is called like another".to_owned(),
                });
            }
            continue;
        }
        let Some(headers) = headers(item, &none) else {
            catalog.conflicts.push(Conflict {
                kind: singular(kind),
                name: name.to_owned(),
                contenders: vec![part.name.to_owned()],
                settled: "left out: its x-mcp-header annotations break the rules".to_owned(),
            });
            continue;
        };
        let (link, own) = (part.link.clone(), item.literal());
        if visible {
            size += item.raw().len() - own.len() + name.len() + 2;
            listed.push((name, candidate));
        }
        let hints = Told::new(item, candidate.change);
        routes.add(name, Route { link, name: own, shown: visible, hints, headers });
    }
    routes.shrink_to_fit();
    catalog.lists[kind as usize] =
        List::new(listed.into_iter(), size, |name, candidate: &Candidate<'_>, out| {
            define(candidate.item, name, candidate.change, out);
        });
    match kind {
        Kind::Tools => catalog.tools = routes,
        _ => catalog.prompts = routes,
    }
}

/// The arguments of a tool that travel in headers; `None` if that cannot be made out.
fn headers(item: Item<'_>, none: &Arc<[ParamHeader]>) -> Option<Arc<[ParamHeader]>> {
    if !item.annotated() {
        return Some(Arc::clone(none));
    }
    let headers = params::of(item.raw())?;
    Some(if headers.is_empty() { Arc::clone(none) } else { headers.into() })
}

/// What a tool is called before conflicts are settled: its own name or that of its override.
pub(crate) fn wanted<'a>(rules: &'a Rules, backend: &str, kind: Kind, own: &'a str) -> &'a str {
    let workload = rules.workloads.get(backend).filter(|_| kind == Kind::Tools);
    let change = workload.and_then(|workload| workload.overrides.get(own));
    change.and_then(|change| change.name.as_deref()).unwrap_or(own)
}

/// The rule that hides something from clients, if there is one. Rules hide tools only.
pub(crate) fn hidden_by(rules: &Rules, backend: &str, kind: Kind, wanted: &str) -> Option<Hides> {
    hides(rules, rules.workloads.get(backend), kind, wanted)
}

/// The same for a backend with these rules of its own.
pub(super) fn hides(
    rules: &Rules,
    workload: Option<&WorkloadRules>,
    kind: Kind,
    wanted: &str,
) -> Option<Hides> {
    if kind != Kind::Tools {
        return None;
    }
    if rules.exclude_all_tools {
        return Some(Hides::ExcludeAllTools);
    }
    let workload = workload?;
    if workload.exclude_all {
        return Some(Hides::ExcludeAll);
    }
    let filtered = workload.filter.as_ref().is_some_and(|names| !names.contains(wanted));
    filtered.then_some(Hides::Filter)
}

/// Whether clients could be shown something of this name by a backend, whatever that offers.
pub(crate) fn could_show(rules: &Rules, backend: &str, kind: ItemKind, name: &str) -> bool {
    match kind {
        ItemKind::Tool | ItemKind::Prompt => {
            let kind = if kind == ItemKind::Tool { Kind::Tools } else { Kind::Prompts };
            let wanted = name.strip_prefix(&prefix(rules, backend));
            wanted.is_some_and(|wanted| hidden_by(rules, backend, kind, wanted).is_none())
        }
        ItemKind::Resource | ItemKind::ResourceTemplate => true,
    }
}

/// The name for which something competes.
pub(crate) fn contested(rules: &Rules, backend: &str, wanted: &str) -> String {
    prefix(rules, backend) + wanted
}

/// What stands before all names of a backend.
pub(super) fn prefix(rules: &Rules, backend: &str) -> String {
    match &rules.conflicts {
        Conflicts::Prefix(format) => format.replace("{workload}", backend),
        Conflicts::Priority(_) | Conflicts::Manual => String::new(),
    }
}

/// Resources and templates: their URIs stay as they are, the first backend that has one answers.
fn located<L: Clone>(catalog: &mut Catalog<L>, parts: &[Part<'_, L>], kind: Kind) {
    let mut first = BTreeMap::new();
    let mut owned: Vec<(L, Vec<Box<str>>)> = Vec::with_capacity(parts.len());
    let mut twice: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        let mut own = Vec::new();
        for item in part.offer.of(kind).iter() {
            match first.entry(item.key()) {
                Entry::Vacant(place) => {
                    own.push(place.key().as_ref().into());
                    place.insert((index, item));
                }
                Entry::Occupied(place) => twice
                    .entry(place.key().clone().into_owned())
                    .or_insert_with(|| vec![parts[place.get().0].name.to_owned()])
                    .push(part.name.to_owned()),
            }
        }
        owned.push((part.link.clone(), own));
    }
    catalog.conflicts.extend(twice.into_iter().map(|(name, contenders)| Conflict {
        kind: singular(kind),
        name,
        settled: format!("{} has it: it comes first in backends", contenders[0]),
        contenders,
    }));
    let size = first.values().map(|(_, item)| item.raw().len()).sum();
    let listed = first.iter().map(|(key, (_, item))| (&**key, item));
    catalog.lists[kind as usize] =
        List::new(listed, size, |_, item, out| out.extend_from_slice(item.raw()));
    match kind {
        Kind::Resources => {
            let each = |(link, own): (L, Vec<Box<str>>)| {
                own.into_iter().map(move |uri| (uri, link.clone()))
            };
            catalog.resources = owned.into_iter().flat_map(each).collect();
        }
        _ => catalog.templates = owned,
    }
}

pub(crate) fn singular(kind: Kind) -> &'static str {
    match kind {
        Kind::Tools => "tool",
        Kind::Prompts => "prompt",
        Kind::Resources => "resource",
        Kind::Templates => "resource template",
    }
}

/// What each backend says about its use, under its name.
fn instructions<L>(parts: &[Part<'_, L>]) -> Option<String> {
    let said = parts.iter().filter_map(|part| {
        let text = part.offer.instructions.as_deref()?.trim();
        let mut end = text.len().min(LONGEST_INSTRUCTIONS);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        (!text.is_empty()).then(|| format!("## {}\n\n{}", part.name, &text[..end]))
    });
    let all = said.collect::<Vec<_>>().join("\n\n");
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests;
