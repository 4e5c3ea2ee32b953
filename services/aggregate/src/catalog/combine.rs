//! Many offers become one catalog (seed section 2.9.1): overrides, filters, conflict resolution.
//!
//! The order is fixed: a tool's overrides are applied first, filters look at the resulting name, and
//! conflicts are settled among what is shown; what is hidden takes the names that are left, so that
//! a hidden tool never costs a shown one its name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::define::define;
use super::{Catalog, Item, Kind, List, Offer, ParamHeader, Route, params};
use crate::settings::{Conflicts, Override, Rules, WorkloadRules};

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

/// Something that wants a name.
struct Candidate<'a, L> {
    part: usize,
    link: L,
    item: &'a Item,
    wanted: &'a str,
    change: Option<&'a Override>,
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
    let plain = WorkloadRules::default();
    let mut shown = Vec::new();
    let mut hidden = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let workload = rules.workloads.get(part.name).unwrap_or(&plain);
        for item in part.offer.of(kind) {
            let change = workload.overrides.get(&*item.key).filter(|_| kind == Kind::Tools);
            let wanted = wanted(rules, part.name, kind, &item.key);
            let visible = hidden_by(rules, part.name, kind, wanted).is_none();
            let link = part.link.clone();
            let candidate = Candidate { part: index, link, item, wanted, change };
            if visible { shown.push(candidate) } else { hidden.push(candidate) }
        }
    }
    let mut conflicts = Vec::new();
    let shown = settle(shown, parts, rules, kind, &mut conflicts);
    catalog.conflicts.append(&mut conflicts);
    // Conflicts among what nobody sees are no news.
    let hidden = settle(hidden, parts, rules, kind, &mut conflicts);
    let none: Arc<[ParamHeader]> = Arc::default();
    let mut listed = Vec::with_capacity(shown.len());
    let mut routes = HashMap::with_capacity(shown.len() + hidden.len());
    let all =
        shown.into_iter().map(|won| (won, true)).chain(hidden.into_iter().map(|won| (won, false)));
    for ((name, candidate), visible) in all {
        if routes.contains_key(&*name) {
            continue;
        }
        let Some(headers) = params::of(&candidate.item.raw) else {
            catalog.conflicts.push(Conflict {
                kind: singular(kind),
                name,
                contenders: vec![parts[candidate.part].name.to_owned()],
                settled: "left out: its x-mcp-header annotations break the rules".to_owned(),
            });
            continue;
        };
        let own = candidate.item.at.slice(&candidate.item.raw);
        let headers = if headers.is_empty() { Arc::clone(&none) } else { Arc::from(headers) };
        let route = Route { link: candidate.link, name: own, shown: visible, headers };
        if visible {
            let raw = define(candidate.item, &name, candidate.change);
            listed.push((Box::from(&*name), raw));
        }
        routes.insert(name.into_boxed_str(), route);
    }
    catalog.lists[kind as usize] = List::new(listed);
    match kind {
        Kind::Tools => catalog.tools = routes,
        _ => catalog.prompts = routes,
    }
}

/// What a tool is called before conflicts are settled: its own name or that of its override.
pub(crate) fn wanted<'a>(rules: &'a Rules, backend: &str, kind: Kind, own: &'a str) -> &'a str {
    let workload = rules.workloads.get(backend).filter(|_| kind == Kind::Tools);
    let change = workload.and_then(|workload| workload.overrides.get(own));
    change.and_then(|change| change.name.as_deref()).unwrap_or(own)
}

/// The rule that hides something from clients, if there is one. Rules hide tools only.
pub(crate) fn hidden_by(rules: &Rules, backend: &str, kind: Kind, wanted: &str) -> Option<Hides> {
    if kind != Kind::Tools {
        return None;
    }
    if rules.exclude_all_tools {
        return Some(Hides::ExcludeAllTools);
    }
    let workload = rules.workloads.get(backend)?;
    if workload.exclude_all {
        return Some(Hides::ExcludeAll);
    }
    let filtered = workload.filter.as_ref().is_some_and(|names| !names.contains(wanted));
    filtered.then_some(Hides::Filter)
}

/// The name for which something competes.
pub(crate) fn contested(rules: &Rules, backend: &str, wanted: &str) -> String {
    match &rules.conflicts {
        Conflicts::Prefix(format) => prefixed(format, backend, wanted),
        Conflicts::Priority(_) | Conflicts::Manual => wanted.to_owned(),
    }
}

/// Who gets which name.
fn settle<'a, L: Clone>(
    candidates: Vec<Candidate<'a, L>>,
    parts: &[Part<'_, L>],
    rules: &Rules,
    kind: Kind,
    conflicts: &mut Vec<Conflict>,
) -> Vec<(String, Candidate<'a, L>)> {
    let mut contenders: Vec<(String, Candidate<'a, L>)> = candidates
        .into_iter()
        .map(|one| (contested(rules, parts[one.part].name, one.wanted), one))
        .collect();
    // Stable: equal names stay in the order of the configuration.
    contenders.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut won = Vec::with_capacity(contenders.len());
    let mut contenders = contenders.into_iter().peekable();
    while let Some((name, first)) = contenders.next() {
        if contenders.peek().is_none_or(|(next, _)| *next != name) {
            won.push((name, first));
            continue;
        }
        let mut all = vec![first];
        while let Some((_, one)) = contenders.next_if(|(next, _)| *next == name) {
            all.push(one);
        }
        if let Conflicts::Priority(order) = &rules.conflicts {
            all.sort_by_key(|candidate| rank(order, parts[candidate.part].name));
        }
        let names = all.iter().map(|c| parts[c.part].name.to_owned()).collect::<Vec<_>>();
        let settled = settlement(&rules.conflicts, kind, &names);
        let what = singular(kind);
        conflicts.push(Conflict { kind: what, name: name.clone(), contenders: names, settled });
        match (&rules.conflicts, kind) {
            (Conflicts::Manual, Kind::Tools) => {}
            (Conflicts::Manual, _) => won.extend(
                all.into_iter().map(|c| (prefixed("{workload}_", parts[c.part].name, c.wanted), c)),
            ),
            _ => won.extend(all.into_iter().next().map(|candidate| (name, candidate))),
        }
    }
    won
}

fn settlement(conflicts: &Conflicts, kind: Kind, names: &[String]) -> String {
    let first = names.first().map_or("", String::as_str);
    match conflicts {
        Conflicts::Manual if kind == Kind::Tools => {
            "left out: give each of them a name in aggregation.tools[].overrides".to_owned()
        }
        Conflicts::Manual => "each got its backend's name as a prefix".to_owned(),
        Conflicts::Priority(_) => format!("{first} has it: it comes first in priorityOrder"),
        Conflicts::Prefix(_) => format!("{first} has it: it comes first in backends"),
    }
}

/// Resources and templates: their URIs stay as they are, the first backend that has one answers.
fn located<L: Clone>(catalog: &mut Catalog<L>, parts: &[Part<'_, L>], kind: Kind) {
    let mut first: BTreeMap<&str, (usize, &Item)> = BTreeMap::new();
    let mut order = Vec::new();
    let mut twice: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        for item in part.offer.of(kind) {
            if let Some((owner, _)) = first.get(&*item.key) {
                twice
                    .entry(&item.key)
                    .or_insert_with(|| vec![parts[*owner].name.to_owned()])
                    .push(part.name.to_owned());
            } else {
                first.insert(&item.key, (index, item));
                order.push((item.key.clone(), part.link.clone()));
            }
        }
    }
    catalog.conflicts.extend(twice.into_iter().map(|(name, contenders)| Conflict {
        kind: singular(kind),
        name: name.to_owned(),
        settled: format!("{} has it: it comes first in backends", contenders[0]),
        contenders,
    }));
    let listed = first.into_values().map(|(_, item)| (item.key.clone(), item.raw.clone()));
    catalog.lists[kind as usize] = List::new(listed.collect());
    match kind {
        Kind::Resources => catalog.resources = order.into_iter().collect(),
        _ => catalog.templates = order,
    }
}

fn prefixed(format: &str, workload: &str, name: &str) -> String {
    format.replace("{workload}", workload) + name
}

/// Listed backends in their order, the others behind them by name.
fn rank<'a>(order: &[String], name: &'a str) -> (usize, &'a str) {
    (order.iter().position(|listed| listed == name).unwrap_or(usize::MAX), name)
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
