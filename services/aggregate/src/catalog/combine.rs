//! Merges the offers of all backends into one catalog (seed section 2.9.1): overrides, filters, conflict resolution.
//!
//! The order is fixed: a tool's overrides apply first, filters match the resulting name, and conflicts are resolved among
//! visible items. Hidden items receive the remaining names, so a hidden tool never takes the name of a visible one.

use std::collections::HashMap;
use std::sync::Arc;

use vmcp_core::Generation;

use super::annotations::LazyAnnotations;
use super::apps::ToolInterfaces;
use super::composites::{Composite, RoutedTool, Workflows, composites};
use super::conflict_resolution::{AssignedName, Candidate, ConflictResolver, Prefixes};
use super::definition::define;
use super::rules::{CatalogInput, Conflict, by_generation, singular};
use super::uri_items::{located, resources, templates};
use super::{
    ByGeneration, Catalog, CatalogId, Catalogs, Composites, Item, Kind, List, ParamHeader, Route,
    Routes, item_rules, params,
};
use crate::settings::Rules;

/// Maximum length of one backend's instructions, in bytes.
const MAX_INSTRUCTIONS_LENGTH: usize = 16 << 10;

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
    let workflows = Workflows { all: &rules.workflows, backends };
    let tools = named(parts, &prefixes, (Kind::Tools, &found, workflows), &mut conflicts);
    let prompts =
        named(parts, &prefixes, (Kind::Prompts, &none, Workflows::default()), &mut conflicts);
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
            composites: Arc::clone(&tools.composites),
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

/// Tools or prompts of one generation.
#[derive(Clone)]
struct NamedItems<L> {
    routes: Arc<Routes<L>>,
    originals: Arc<HashMap<Box<str>, Vec<Box<str>>>>,
    composites: Arc<Composites>,
    list: Arc<List>,
}

/// Builds the lists and routes of tools or prompts, the kinds that the gateway may rename.
fn named<L: Clone>(
    parts: &[CatalogInput<'_, L>],
    prefixes: &Prefixes<'_>,
    (kind, interfaces, workflows): (Kind, &ToolInterfaces, Workflows<'_>),
    conflicts: &mut Vec<Conflict>,
) -> ByGeneration<NamedItems<L>> {
    let mut resolver = ConflictResolver::new(parts, prefixes, kind, conflicts);
    let assigned = resolver.resolve_all(conflicts);
    by_generation(parts, kind, |generation| {
        let source = (kind, generation, interfaces);
        named_in(parts, &resolver, &assigned, source, workflows, conflicts)
    })
}

/// Entry of a list of tools or prompts.
enum Listed<'a, 'b> {
    Item(Item<'a>, &'b Candidate<'a>),
    Composite(&'b Composite),
}

/// Builds the list and routes of one generation from the items that were assigned a name.
fn named_in<L: Clone>(
    parts: &[CatalogInput<'_, L>],
    resolver: &ConflictResolver<'_, L>,
    assigned: &[(AssignedName, bool)],
    (kind, generation, interfaces): (Kind, Generation, &ToolInterfaces),
    workflows: Workflows<'_>,
    conflicts: &mut Vec<Conflict>,
) -> NamedItems<L> {
    let none: Arc<[ParamHeader]> = Arc::default();
    let mut listed = Vec::with_capacity(assigned.len());
    let (mut tools, mut size) = (Vec::new(), 0);
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
            listed.push((name, Listed::Item(item, candidate)));
        }
        if !workflows.all.is_empty() {
            let (part, change) = (candidate.part, candidate.change);
            tools.push(RoutedTool { name, part, item, change, shown: *visible });
        }
        let annotations = LazyAnnotations::new(item, candidate.change);
        let interface = interfaces.has(item);
        let route = Route { backend, name: own, shown: *visible, annotations, interface, headers };
        routes.add(name, route);
    }
    routes.shrink_to_fit();
    let composites = composites(workflows, parts, &tools, conflicts);
    let offered = &composites.offered;
    if !offered.is_empty() {
        listed.extend(offered.iter().map(|(name, it)| (&**name, Listed::Composite(it))));
        listed.sort_by_key(|(name, _)| *name);
    }
    let list = List::new(listed.into_iter(), size, |name, listed, out| match listed {
        Listed::Item(item, candidate) => {
            let interface = interfaces.alias(candidate.part, item);
            define(item, name, candidate.change, interface, out);
        }
        Listed::Composite(composite) => composite.define(out),
    });
    let (routes, originals, list) = (Arc::new(routes), Arc::new(originals), Arc::new(list));
    NamedItems { routes, originals, composites: Arc::new(composites), list }
}

/// Returns the arguments of a tool that are repeated in headers; `None` if the annotations are invalid.
fn headers(item: Item<'_>, none: &Arc<[ParamHeader]>) -> Option<Arc<[ParamHeader]>> {
    if !item.annotated() {
        return Some(Arc::clone(none));
    }
    let headers = params::of(item.raw())?;
    Some(if headers.is_empty() { Arc::clone(none) } else { headers.into() })
}

/// Concatenates the instructions of each backend, under the backend's name.
fn instructions<L>(parts: &[CatalogInput<'_, L>], generation: Generation) -> Option<String> {
    let instructions = parts.iter().filter_map(|part| {
        let text = part.offers.of(generation).instructions.as_deref()?.trim();
        let mut end = text.len().min(MAX_INSTRUCTIONS_LENGTH);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        (!text.is_empty()).then(|| format!("## {}\n\n{}", part.name, &text[..end]))
    });
    let all = instructions.collect::<Vec<_>>().join("\n\n");
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests;
