//! Conflict resolution: assigns advertised names to tools and prompts.

use std::borrow::Cow;

use super::rules::{hides, prefix, singular};
use super::string_table::StringTable;
use super::{ByGeneration, CatalogInput, Conflict, Item, Kind, each_item};
use crate::settings::{Conflicts, Override, Rules};

/// Item that claims a name.
pub(super) struct Candidate<'a> {
    pub(super) part: usize,
    /// The item in each generation; present in at least one.
    pub(super) items: ByGeneration<Option<Item<'a>>>,
    pub(super) change: Option<&'a Override>,
    /// Name of the item's override, otherwise its own.
    wanted: Cow<'a, str>,
    /// `true` if clients may see the item.
    visible: bool,
}

impl Candidate<'_> {
    /// Returns the backend's own name of the item.
    fn own(&self) -> Cow<'_, str> {
        let item = self.items.stateful.or(self.items.stateless);
        item.map(Item::key).expect("a candidate has an item of one generation")
    }
}

/// All items of one kind that claim a name.
pub(super) struct ConflictResolver<'a, L> {
    parts: &'a [CatalogInput<'a, L>],
    rules: &'a Rules,
    kind: Kind,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Claimed name of each candidate by its index, followed by assigned names that differ from the claimed ones.
    pub(super) names: StringTable,
}

/// Assigned name: the index of the name and that of its candidate.
#[derive(Clone, Copy)]
pub(super) struct AssignedName {
    pub(super) name: usize,
    pub(super) candidate: usize,
}

/// Name prefixes of all configured backends, including unavailable ones: no backend may take a name that looks like one of
/// another backend.
pub(super) struct Prefixes<'a> {
    rules: &'a Rules,
    /// Prefixes with their backends, longest first. Empty if names are not prefixed.
    all: Vec<(String, &'a str)>,
}

impl<'a> Prefixes<'a> {
    pub(super) fn new(rules: &'a Rules, backends: &[&'a str]) -> Self {
        let mut all = Vec::new();
        if matches!(rules.conflicts, Conflicts::Prefix(_)) {
            all.extend(backends.iter().map(|backend| (prefix(rules, backend), *backend)));
            all.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        }
        Self { rules, all }
    }

    /// Returns the backends whose longer prefixes begin with this prefix.
    fn within(&self, prefix: &str) -> Vec<&(String, &'a str)> {
        let longer = |other: &str| other.len() > prefix.len() && other.starts_with(prefix);
        self.all.iter().filter(|(other, _)| longer(other)).collect()
    }
}

impl<'a, L> ConflictResolver<'a, L> {
    /// Collects all items of one kind that claim a name. Leaves out items whose names would look like another backend's.
    pub(super) fn new(
        parts: &'a [CatalogInput<'a, L>],
        prefixes: &Prefixes<'a>,
        kind: Kind,
        conflicts: &mut Vec<Conflict>,
    ) -> Self {
        let rules = prefixes.rules;
        let count = parts.iter().map(|part| part.offers.stateful.of(kind).len()).sum();
        let mut candidates = Vec::with_capacity(count);
        let mut names = StringTable::with_capacity(count);
        for (index, part) in parts.iter().enumerate() {
            let workload = rules.workloads.get(part.name).filter(|_| kind == Kind::Tools);
            let prefix = prefix(rules, part.name);
            let within = prefixes.within(&prefix);
            let mut taken = Vec::new();
            each_item(part.offers, kind, |own, items| {
                let change = workload.and_then(|workload| workload.overrides.get(&*own));
                let renamed = change.and_then(|change| change.name.as_deref());
                let wanted = renamed.map_or(own, Cow::Borrowed);
                let visible = hides(rules, workload, kind, &wanted).is_none();
                let owner = within.iter().filter(|_| renamed.is_none()).find(|(longer, _)| {
                    longer.strip_prefix(&*prefix).is_some_and(|rest| wanted.starts_with(rest))
                });
                if let Some((_, owner)) = owner {
                    // Hidden items are not reported.
                    taken.extend(visible.then(|| (format!("{prefix}{wanted}"), *owner)));
                    return;
                }
                names.push(&prefix, &wanted);
                candidates.push(Candidate { part: index, items, change, wanted, visible });
            });
            taken.sort();
            conflicts.extend(taken.into_iter().map(|(name, owner)| Conflict {
                kind: singular(kind),
                name,
                contenders: vec![part.name.to_owned(), owner.to_owned()],
                resolution: left_out(kind, owner),
            }));
        }
        Self { parts, rules, kind, candidates, names }
    }

    /// Assigns each name once and returns it with a flag that is `true` if clients may see the item. If one generation lacks
    /// the item, the name stays unused there.
    pub(super) fn resolve_all(
        &mut self,
        conflicts: &mut Vec<Conflict>,
    ) -> Vec<(AssignedName, bool)> {
        let mut shown = self.resolve(true, conflicts);
        // Conflicts among hidden items are not reported.
        let mut hidden = self.resolve(false, &mut Vec::new());
        let (names, candidates, parts) = (&self.names, &self.candidates, self.parts);
        // Both lists are in name order.
        shown.dedup_by(|later, earlier| {
            let name = names.get(later.name);
            let twice = name == names.get(earlier.name);
            if twice {
                // A prefix that resolved one conflict has caused another.
                conflicts.push(Conflict {
                    kind: singular(self.kind),
                    name: name.to_owned(),
                    contenders: vec![parts[candidates[later.candidate].part].name.to_owned()],
                    resolution: "left out: with its prefix it is called like another".to_owned(),
                });
            }
            twice
        });
        hidden.dedup_by(|later, earlier| names.get(later.name) == names.get(earlier.name));
        let is_shown = |assigned: &AssignedName| {
            shown
                .binary_search_by(|other| names.get(other.name).cmp(names.get(assigned.name)))
                .is_ok()
        };
        hidden.retain(|assigned| !is_shown(assigned));
        let hidden = hidden.into_iter().map(|assigned| (assigned, false));
        shown.into_iter().map(|assigned| (assigned, true)).chain(hidden).collect()
    }

    /// Assigns names to the visible or to the hidden items, in name order.
    fn resolve(&mut self, visible: bool, conflicts: &mut Vec<Conflict>) -> Vec<AssignedName> {
        let numbers = 0..self.candidates.len();
        let mut order: Vec<_> =
            numbers.filter(|number| self.candidates[*number].visible == visible).collect();
        // Stable sort: equal names stay in configuration order.
        order.sort_by(|a, b| self.names.get(*a).cmp(self.names.get(*b)));
        let mut assigned = Vec::with_capacity(order.len());
        let wanted = self.names.len();
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let name = self.names.get(*first);
            let others = rest.iter().skip(1);
            let same = others.take_while(|other| self.names.get(**other) == name).count();
            let (all, behind) = rest.split_at(1 + same);
            rest = behind;
            match all {
                [only] => assigned.push(AssignedName { name: *only, candidate: *only }),
                all => self.contend(all.to_vec(), conflicts, &mut assigned),
            }
        }
        // Renamed items are out of order.
        if self.names.len() > wanted {
            assigned.sort_by(|a, b| self.names.get(a.name).cmp(self.names.get(b.name)));
        }
        assigned
    }

    /// Resolves the claims of one or more candidates to the same name.
    fn contend(
        &mut self,
        mut all: Vec<usize>,
        conflicts: &mut Vec<Conflict>,
        assigned: &mut Vec<AssignedName>,
    ) {
        let (parts, candidates) = (self.parts, &self.candidates);
        let backend = |candidate: usize| parts[candidates[candidate].part].name;
        let first = all[0];
        if let Conflicts::Priority(order) = &self.rules.conflicts {
            all.sort_by_key(|candidate| rank(order, backend(*candidate)));
        }
        let contenders: Vec<_> = all.iter().map(|one| backend(*one).to_owned()).collect();
        conflicts.push(Conflict {
            kind: singular(self.kind),
            name: self.names.get(first).to_owned(),
            resolution: describe_resolution(
                self.rules,
                self.kind,
                &contenders,
                &candidates[all[0]].own(),
            ),
            contenders,
        });
        match (&self.rules.conflicts, self.kind) {
            (Conflicts::Manual, Kind::Tools) => {}
            (Conflicts::Manual, _) => {
                for candidate in all {
                    let prefix = format!("{}_", backend(candidate));
                    assigned.push(AssignedName { name: self.names.len(), candidate });
                    self.names.push(&prefix, &candidates[candidate].wanted);
                }
            }
            _ => {
                assigned
                    .extend(all.first().map(|one| AssignedName { name: *one, candidate: *one }));
            }
        }
    }
}

/// Describes the resolution for a name that looks like one of `owner`.
fn left_out(kind: Kind, owner: &str) -> String {
    let remedy = match kind {
        Kind::Tools => "give it another name in aggregation.tools[].overrides",
        _ => "give one of the two backends another name",
    };
    format!("left out: names that begin so are those of {owner}; {remedy}")
}

/// Describes the resolution for a name. The first contender wins if any does; `own` is its backend's own name.
fn describe_resolution(rules: &Rules, kind: Kind, contenders: &[String], own: &str) -> String {
    let first = contenders.first().map_or("", String::as_str);
    let mut others = contenders.iter().skip(1);
    let reason = match &rules.conflicts {
        Conflicts::Manual if kind == Kind::Tools => {
            return "left out: give each of them a name in aggregation.tools[].overrides"
                .to_owned();
        }
        Conflicts::Manual => return "each got its backend's name as a prefix".to_owned(),
        _ if others.clone().all(|other| other == first) => "it lists that first",
        Conflicts::Priority(order) if order.iter().any(|listed| listed == first) => {
            "it comes first in priorityOrder"
        }
        Conflicts::Priority(_) => "priorityOrder has none of them, and it comes first by name",
        Conflicts::Prefix(_) => "it comes first in backends",
    };
    // Overrides can give two tools of one backend the same name.
    let which = if others.any(|other| other == first) {
        format!(" with what it calls {own} itself")
    } else {
        String::new()
    };
    format!("{first} has it{which}: {reason}")
}

/// Ranks listed backends in their order and other backends after them by name.
fn rank<'a>(order: &[String], name: &'a str) -> (usize, &'a str) {
    (order.iter().position(|listed| listed == name).unwrap_or(order.len()), name)
}
