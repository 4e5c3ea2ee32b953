//! Merges the offers of all backends into one catalog (seed section 2.9.1): overrides, filters, conflict resolution.
//!
//! The order is fixed: a tool's overrides apply first, filters match the resulting name, and conflicts are resolved among
//! visible items. Hidden items receive the remaining names, so a hidden tool never takes the name of a visible one.

use std::collections::HashMap;
use std::sync::Arc;

use vmcp_core::{Generation, ItemKind};

use super::annotations::LazyAnnotations;
use super::apps::ToolInterfaces;
use super::conflict_resolution::{AssignedName, ConflictResolver, Prefixes};
use super::definition::define;
use super::uri_items::{located, resources, templates};
use super::{
    ByGeneration, Catalog, CatalogId, Catalogs, Item, Kind, List, Offer, ParamHeader, Route,
    Routes, item_rules, params,
};
use crate::settings::{Conflicts, Rules, WorkloadRules};

/// Maximum length of one backend's instructions, in bytes.
const MAX_INSTRUCTIONS_LENGTH: usize = 16 << 10;

/// Name claimed by several backends, and the resolution of the conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// `tool`, `prompt`, `resource` or `resource template`.
    pub kind: &'static str,
    /// The contested name.
    pub name: String,
    /// Backends that claim the name, in the order of precedence.
    pub contenders: Vec<String>,
    /// Description of the resolution.
    pub resolution: String,
}

/// Rule that hides tools from clients. Hidden tools stay routable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HideRule {
    /// `aggregation.excludeAllTools` is set.
    ExcludeAllTools,
    /// `excludeAll` of the backend is set.
    ExcludeAll,
    /// `filter` of the backend does not contain the tool.
    Filter,
}

/// Input of one backend for the catalog.
pub(crate) struct CatalogInput<'a, L> {
    pub(crate) name: &'a str,
    pub(crate) backend: L,
    pub(crate) offers: ByGeneration<&'a Offer>,
    /// Generation of a backend that supports a single one.
    pub(crate) only: Option<Generation>,
}

/// Builds the catalogs of `parts`, which are in configuration order. `backends` are all configured backends. Names are assigned
/// once for both generations: a name belongs to the same backend in both, even if that backend lacks the item in one of them.
pub(crate) fn combine<L: Clone>(
    parts: &[CatalogInput<'_, L>],
    backends: &[&str],
    rules: &Rules,
) -> Catalogs<L> {
    let mut conflicts = Vec::new();
    item_rules::report(parts, &mut conflicts);
    let prefixes = Prefixes::new(rules, backends);
    let (found, none) =
        (ToolInterfaces::of(parts, rules, &mut conflicts), ToolInterfaces::default());
    let tools = named(parts, &prefixes, (Kind::Tools, &found), &mut conflicts);
    let prompts = named(parts, &prefixes, (Kind::Prompts, &none), &mut conflicts);
    let resources = located(parts, (Kind::Resources, &found), &mut conflicts, resources);
    let templates = located(parts, (Kind::Templates, &none), &mut conflicts, templates);
    let interfaces = Arc::new(found.routes(parts));
    let only = parts.iter().filter_map(|part| Some((part.name.into(), part.only?)));
    let only: Arc<HashMap<_, _>> = Arc::new(only.collect());
    let conflicts: Arc<[_]> = conflicts.into();
    let catalog = |generation| {
        let (tools, prompts) = (tools.of(generation), prompts.of(generation));
        let (resources, templates) = (resources.of(generation), templates.of(generation));
        let lists = [&tools.list, &prompts.list, &resources.1, &templates.1];
        Arc::new(Catalog {
            serial: CatalogId::new(),
            tools: Arc::clone(&tools.routes),
            prompts: Arc::clone(&prompts.routes),
            resources: Arc::clone(&resources.0),
            templates: Arc::clone(&templates.0),
            interfaces: Arc::clone(&interfaces),
            originals: Arc::clone(&tools.originals),
            lists: lists.map(Arc::clone),
            instructions: instructions(parts, generation),
            conflicts: Arc::clone(&conflicts),
            only: Arc::clone(&only),
        })
    };
    let stateful = catalog(Generation::Stateful);
    let stateless = if parts.iter().all(CatalogInput::is_same) {
        Arc::clone(&stateful)
    } else {
        catalog(Generation::Stateless)
    };
    Catalogs(ByGeneration { stateful, stateless })
}

impl<L> CatalogInput<'_, L> {
    fn is_same(&self) -> bool {
        std::ptr::eq(self.offers.stateful, self.offers.stateless)
    }

    /// Returns `true` if both generations have the same items of this kind.
    fn is_same_of(&self, kind: Kind) -> bool {
        self.is_same() || self.offers.stateful.of(kind).is(self.offers.stateless.of(kind))
    }
}

/// Computes a value for each generation; computes it once if both have the same items of this kind.
pub(super) fn by_generation<L, T: Clone>(
    parts: &[CatalogInput<'_, L>],
    kind: Kind,
    mut make: impl FnMut(Generation) -> T,
) -> ByGeneration<T> {
    let stateful = make(Generation::Stateful);
    if parts.iter().all(|part| part.is_same_of(kind)) {
        return ByGeneration::both(stateful);
    }
    ByGeneration { stateful, stateless: make(Generation::Stateless) }
}

/// Tools or prompts of one generation.
#[derive(Clone)]
struct NamedItems<L> {
    routes: Arc<Routes<L>>,
    originals: Arc<HashMap<Box<str>, Vec<Box<str>>>>,
    list: Arc<List>,
}

/// Builds the lists and routes of tools or prompts, the kinds that the gateway may rename.
fn named<L: Clone>(
    parts: &[CatalogInput<'_, L>],
    prefixes: &Prefixes<'_>,
    (kind, interfaces): (Kind, &ToolInterfaces),
    conflicts: &mut Vec<Conflict>,
) -> ByGeneration<NamedItems<L>> {
    let mut resolver = ConflictResolver::new(parts, prefixes, kind, conflicts);
    let assigned = resolver.resolve_all(conflicts);
    by_generation(parts, kind, |generation| {
        named_in(parts, &resolver, &assigned, (kind, generation, interfaces), conflicts)
    })
}

/// Builds the list and routes of one generation from the items that were assigned a name.
fn named_in<L: Clone>(
    parts: &[CatalogInput<'_, L>],
    resolver: &ConflictResolver<'_, L>,
    assigned: &[(AssignedName, bool)],
    (kind, generation, interfaces): (Kind, Generation, &ToolInterfaces),
    conflicts: &mut Vec<Conflict>,
) -> NamedItems<L> {
    let none: Arc<[ParamHeader]> = Arc::default();
    let mut listed = Vec::with_capacity(assigned.len());
    let mut size = 0;
    let (mut routes, mut originals) = (Routes::with_capacity(assigned.len()), HashMap::new());
    for (assigned, visible) in assigned {
        let (name, candidate) =
            (resolver.names.get(assigned.name), &resolver.candidates[assigned.candidate]);
        let Some(item) = *candidate.items.of(generation) else { continue };
        let part = &parts[candidate.part];
        let Some(headers) = headers(item, &none) else {
            let conflict = Conflict {
                kind: singular(kind),
                name: name.to_owned(),
                contenders: vec![part.name.to_owned()],
                resolution: "left out: its x-mcp-header annotations break the rules".to_owned(),
            };
            if !conflicts.contains(&conflict) {
                conflicts.push(conflict);
            }
            continue;
        };
        let (backend, own) = (part.backend.clone(), item.literal());
        if *visible {
            size += item.raw().len() - own.len() + name.len() + 2;
            interfaces.enter_original(&mut originals, (candidate.part, item), name);
            listed.push((name, (item, candidate)));
        }
        let annotations = LazyAnnotations::new(item, candidate.change);
        let interface = interfaces.has(item);
        let route = Route { backend, name: own, shown: *visible, annotations, interface, headers };
        routes.add(name, route);
    }
    routes.shrink_to_fit();
    let list = List::new(listed.into_iter(), size, |name, (item, candidate), out| {
        let interface = interfaces.alias(candidate.part, item);
        define(item, name, candidate.change, interface, out);
    });
    let (routes, originals) = (Arc::new(routes), Arc::new(originals));
    NamedItems { routes, originals, list: Arc::new(list) }
}

/// Returns the arguments of a tool that are repeated in headers; `None` if the annotations are invalid.
fn headers(item: Item<'_>, none: &Arc<[ParamHeader]>) -> Option<Arc<[ParamHeader]>> {
    if !item.annotated() {
        return Some(Arc::clone(none));
    }
    let headers = params::of(item.raw())?;
    Some(if headers.is_empty() { Arc::clone(none) } else { headers.into() })
}

/// Returns the name of a tool before conflict resolution: its override's name, otherwise its own.
pub(crate) fn wanted<'a>(rules: &'a Rules, backend: &str, kind: Kind, own: &'a str) -> &'a str {
    let workload = rules.workloads.get(backend).filter(|_| kind == Kind::Tools);
    let change = workload.and_then(|workload| workload.overrides.get(own));
    change.and_then(|change| change.name.as_deref()).unwrap_or(own)
}

/// Returns the rule that hides an item from clients, if any. Rules apply to tools only.
pub(crate) fn hidden_by(
    rules: &Rules,
    backend: &str,
    kind: Kind,
    wanted: &str,
) -> Option<HideRule> {
    hides(rules, rules.workloads.get(backend), kind, wanted)
}

/// Applies the rules of one backend; see [`hidden_by`].
pub(super) fn hides(
    rules: &Rules,
    workload: Option<&WorkloadRules>,
    kind: Kind,
    wanted: &str,
) -> Option<HideRule> {
    if kind != Kind::Tools {
        return None;
    }
    if rules.exclude_all_tools {
        return Some(HideRule::ExcludeAllTools);
    }
    let workload = workload?;
    if workload.exclude_all {
        return Some(HideRule::ExcludeAll);
    }
    let filtered = workload.filter.as_ref().is_some_and(|names| !names.contains(wanted));
    filtered.then_some(HideRule::Filter)
}

/// Returns `true` if the rules permit a backend to show clients an item of this name, independent of its current offer.
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

/// Returns the name under which an item takes part in conflict resolution.
pub(crate) fn contested(rules: &Rules, backend: &str, wanted: &str) -> String {
    prefix(rules, backend) + wanted
}

/// Returns the prefix of all names of a backend.
pub(super) fn prefix(rules: &Rules, backend: &str) -> String {
    match &rules.conflicts {
        Conflicts::Prefix(format) => format.replace("{workload}", backend),
        Conflicts::Priority(_) | Conflicts::Manual => String::new(),
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

/// Concatenates the instructions of each backend, under the backend's name.
fn instructions<L>(parts: &[CatalogInput<'_, L>], generation: Generation) -> Option<String> {
    let said = parts.iter().filter_map(|part| {
        let text = part.offers.of(generation).instructions.as_deref()?.trim();
        let mut end = text.len().min(MAX_INSTRUCTIONS_LENGTH);
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
