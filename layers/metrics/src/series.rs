//! Sets of labels that were resolved once: recording into one costs neither a label nor a lookup of
//! labels.
//!
//! How many there can be is bounded. Methods are those that MCP has. Names of tools and prompts become
//! labels only when they are known to exist, so that nobody fills the labels with names made up; at
//! most [`MAX_NAMES`] of them, and [`OTHER`] for those beyond.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;

use crate::Outcome;
use crate::names::OTHER;

/// How many names of tools and prompts become labels.
pub const MAX_NAMES: usize = 200;

/// The longest name that becomes a label, in bytes.
pub const MAX_NAME: usize = 128;

/// In how many ways one operation can end, before they are summed up.
const MAX_OUTCOMES: usize = 12;

/// How many sets of labels one instrument is to be given room for.
pub const MAX_SERIES: usize = 6000;

/// The methods that are labels. First none, for what is no message; last the others.
const METHODS: [&str; 28] = [
    "",
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
    OTHER,
];

/// What was asked for, in words that are bounded in number, and where it is recorded.
#[derive(Debug)]
pub struct Slot<S> {
    /// One of [`METHODS`].
    method: &'static str,
    name: Option<Box<str>>,
    outcomes: RwLock<Vec<(Outcome, S)>>,
}

/// All sets of labels of one side.
#[derive(Debug)]
pub(crate) struct Table<S> {
    methods: Vec<Arc<Slot<S>>>,
    tools: Names<S>,
    prompts: Names<S>,
    budget: Arc<Budget>,
}

/// How many more names become labels.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
    /// Whether no name is a label from now on.
    is_closed: AtomicBool,
}

type Names<S> = RwLock<HashMap<Box<str>, Arc<Slot<S>>>>;

// === impl Slot ===

impl<S> Slot<S> {
    fn new(method: &'static str, name: Option<&str>) -> Self {
        Self { method, name: name.map(Into::into), outcomes: RwLock::default() }
    }

    /// The method; nothing for what is no message, and `_OTHER` for one that MCP does not have.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The tool or prompt.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Records into the series of `outcome`, which `make` resolves when it is the first of its kind.
    pub(crate) fn record(
        &self,
        outcome: Outcome,
        make: impl Fn(&Self, &Outcome) -> S,
        record: impl Fn(&S),
    ) {
        let find = |outcomes: &[(Outcome, S)], wanted: &Outcome| {
            let found = outcomes.iter().find(|(one, _)| one == wanted);
            found.map(|(_, series)| record(series)).is_some()
        };
        if find(&self.outcomes.read().unwrap_or_else(PoisonError::into_inner), &outcome) {
            return;
        }
        let mut outcomes = self.outcomes.write().unwrap_or_else(PoisonError::into_inner);
        let wanted = if outcomes.len() < MAX_OUTCOMES { outcome } else { Outcome::OTHER };
        if !find(&outcomes, &wanted) {
            let series = make(self, &wanted);
            record(&series);
            outcomes.push((wanted, series));
        }
    }
}

// === impl Table ===

impl<S> Table<S> {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        let methods = METHODS.iter().map(|method| Arc::new(Slot::new(method, None))).collect();
        Self { methods, tools: RwLock::default(), prompts: RwLock::default(), budget }
    }

    /// Where to record what was asked for. `exists` says that something of this name is known to
    /// exist; a name that is seen for the first time without that is left out.
    pub(crate) fn slot(&self, method: &str, name: Option<&str>, exists: bool) -> Arc<Slot<S>> {
        let names = match method {
            "tools/call" => &self.tools,
            "prompts/get" => &self.prompts,
            _ => return self.method(method),
        };
        let Some(name) = name else { return self.method(method) };
        let name = if self.budget.is_closed() { OTHER } else { name };
        let read = names.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = read.get(name) {
            return Arc::clone(slot);
        }
        drop(read);
        if !exists {
            return self.method(method);
        }
        let mut names = names.write().unwrap_or_else(PoisonError::into_inner);
        let fits = name.len() <= MAX_NAME && self.budget.take();
        let name = if fits { name } else { OTHER };
        let slot = || Arc::new(Slot::new(self.method(method).method, Some(name)));
        Arc::clone(names.entry(name.into()).or_insert_with(slot))
    }

    pub(crate) fn hide_names(&self) {
        self.budget.close();
    }

    fn method(&self, method: &str) -> Arc<Slot<S>> {
        let last = METHODS.len() - 1;
        let index = match METHODS[..last].binary_search(&method) {
            Ok(index) => index,
            Err(_) => last,
        };
        // In bounds: there is one for each of METHODS.
        Arc::clone(&self.methods[index])
    }
}

// === impl Budget ===

impl Budget {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(MAX_NAMES), is_closed: AtomicBool::new(false) })
    }

    /// Has all names summed up from now on. What was recorded under one stays.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn take(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    fn table() -> Table<u64> {
        Table::new(Budget::new())
    }

    #[test]
    fn closed_budgets_sum_up_all_names() {
        let table = table();
        assert_eq!(table.slot("tools/call", Some("a"), true).name(), Some("a"));
        table.budget.close();
        for name in ["a", "b"] {
            assert_eq!(table.slot("tools/call", Some(name), true).name(), Some(OTHER), "{name}");
        }
        assert_eq!(table.slot("tools/call", Some("c"), false).name(), Some(OTHER));
    }

    #[test]
    fn methods_are_found_and_others_are_summed_up() {
        assert!(METHODS[..METHODS.len() - 1].is_sorted());
        assert_eq!(table().slot("tools/list", None, true).method, "tools/list");
        assert_eq!(table().slot("made/up", None, true).method, OTHER);
        assert_eq!(table().slot("", None, true).method, "");
    }

    #[test]
    fn a_name_that_is_not_known_to_exist_is_no_label() {
        let table = table();
        assert_eq!(table.slot("tools/call", Some("made up"), false).name, None);
        assert_eq!(table.slot("tools/call", Some("real"), true).name.as_deref(), Some("real"));
        assert_eq!(table.slot("tools/call", Some("real"), false).name.as_deref(), Some("real"));
    }

    #[test]
    fn names_beyond_the_most_are_summed_up() {
        let table = table();
        for name in 0..MAX_NAMES + 500 {
            let slot = table.slot("tools/call", Some(&name.to_string()), true);
            assert_eq!(slot.name.as_deref() == Some(OTHER), name >= MAX_NAMES, "{name}");
        }
        assert!(table.tools.read().unwrap().len() <= MAX_NAMES + 1);
        let long = "x".repeat(MAX_NAME + 1);
        assert_eq!(table.slot("prompts/get", Some(&long), true).name.as_deref(), Some(OTHER));
    }

    #[test]
    fn ways_to_end_beyond_the_most_are_summed_up() {
        let slot = table().slot("tools/call", None, true);
        for code in 0..1000 {
            let outcome = Outcome { fault: Fault::Code(code), ..Outcome::OTHER };
            slot.record(outcome, |_, _| 0, |_| ());
        }
        assert_eq!(slot.outcomes.read().unwrap().len(), MAX_OUTCOMES + 1);
    }
}
