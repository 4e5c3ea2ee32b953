//! Who gets which name.

use std::borrow::Cow;

use super::combine::{hides, prefix, singular};
use super::texts::Texts;
use super::{Conflict, Item, Kind, Part};
use crate::settings::{Conflicts, Override, Rules};

/// Something that wants a name.
pub(super) struct Candidate<'a> {
    pub(super) part: usize,
    pub(super) item: Item<'a>,
    pub(super) change: Option<&'a Override>,
    /// Its own name or that of its override.
    wanted: Cow<'a, str>,
    /// Whether clients may see it.
    visible: bool,
}

/// Everything of one kind that wants a name.
pub(super) struct Settling<'a, L> {
    parts: &'a [Part<'a, L>],
    rules: &'a Rules,
    kind: Kind,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// What each candidate wants to be called by its number, and behind that what some got instead.
    pub(super) names: Texts,
}

/// A name that was given: the number of the name and that of its candidate.
#[derive(Clone, Copy)]
pub(super) struct Won {
    pub(super) name: usize,
    pub(super) candidate: usize,
}

impl<'a, L> Settling<'a, L> {
    pub(super) fn new(parts: &'a [Part<'a, L>], rules: &'a Rules, kind: Kind) -> Self {
        let count = parts.iter().map(|part| part.offer.of(kind).len()).sum();
        let mut candidates = Vec::with_capacity(count);
        let mut names = Texts::with_capacity(count);
        for (index, part) in parts.iter().enumerate() {
            let workload = rules.workloads.get(part.name).filter(|_| kind == Kind::Tools);
            let prefix = prefix(rules, part.name);
            for item in part.offer.of(kind).iter() {
                let own = item.key();
                let change = workload.and_then(|workload| workload.overrides.get(&*own));
                let renamed = change.and_then(|change| change.name.as_deref());
                let wanted = renamed.map_or(own, Cow::Borrowed);
                let visible = hides(rules, workload, kind, &wanted).is_none();
                names.push(&prefix, &wanted);
                candidates.push(Candidate { part: index, item, change, wanted, visible });
            }
        }
        Self { parts, rules, kind, candidates, names }
    }

    /// The names that are given to what clients may see, or to what they may not, in their order.
    pub(super) fn settle(&mut self, visible: bool, conflicts: &mut Vec<Conflict>) -> Vec<Won> {
        let numbers = 0..self.candidates.len();
        let mut order: Vec<_> =
            numbers.filter(|number| self.candidates[*number].visible == visible).collect();
        // Stable: equal names stay in the order of the configuration.
        order.sort_by(|a, b| self.names.get(*a).cmp(self.names.get(*b)));
        let mut won = Vec::with_capacity(order.len());
        let wanted = self.names.len();
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let name = self.names.get(*first);
            let others = rest.iter().skip(1);
            let same = others.take_while(|other| self.names.get(**other) == name).count();
            let (all, behind) = rest.split_at(1 + same);
            rest = behind;
            match all {
                [only] => won.push(Won { name: *only, candidate: *only }),
                all => self.contend(all.to_vec(), conflicts, &mut won),
            }
        }
        // What got another name than it wanted is not in its place.
        if self.names.len() > wanted {
            won.sort_by(|a, b| self.names.get(a.name).cmp(self.names.get(b.name)));
        }
        won
    }

    /// Several candidates, at least one, want the same name.
    fn contend(&mut self, mut all: Vec<usize>, conflicts: &mut Vec<Conflict>, won: &mut Vec<Won>) {
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
            settled: settlement(self.rules, self.kind, &contenders, &candidates[all[0]].item.key()),
            contenders,
        });
        match (&self.rules.conflicts, self.kind) {
            (Conflicts::Manual, Kind::Tools) => {}
            (Conflicts::Manual, _) => {
                for candidate in all {
                    let prefix = format!("{}_", backend(candidate));
                    won.push(Won { name: self.names.len(), candidate });
                    self.names.push(&prefix, &candidates[candidate].wanted);
                }
            }
            _ => won.extend(all.first().map(|one| Won { name: *one, candidate: *one })),
        }
    }
}

/// What became of a name, in words. The first contender wins where one does; `own` is what its backend calls it.
fn settlement(rules: &Rules, kind: Kind, contenders: &[String], own: &str) -> String {
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

/// Listed backends in their order, the others behind them by name.
fn rank<'a>(order: &[String], name: &'a str) -> (usize, &'a str) {
    (order.iter().position(|listed| listed == name).unwrap_or(usize::MAX), name)
}
