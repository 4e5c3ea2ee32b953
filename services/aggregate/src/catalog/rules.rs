//! Inputs of the aggregation, and the rules that name, hide and prefix items.

use vmcp_core::{Generation, ItemKind};

use super::{ByGeneration, Kind, Offer};
use crate::settings::{Conflicts, Rules, WorkloadRules};

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

impl<L> CatalogInput<'_, L> {
    pub(super) fn is_same(&self) -> bool {
        std::ptr::eq(self.offers.stateful, self.offers.stateless)
    }

    /// Returns `true` if both generations have the same items of this kind.
    pub(super) fn is_same_of(&self, kind: Kind) -> bool {
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
