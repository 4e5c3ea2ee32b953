//! Instruments bound to labels, resolved once for each set of labels.
//!
//! The number of label sets is bounded. Method labels are limited to the methods of MCP. Names of tools and prompts
//! become labels only if they are known to exist, so that clients cannot create labels with arbitrary names; beyond
//! [`MAX_NAMES`] names, the label is [`OTHER`].

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use hashbrown::HashMap;

use crate::metrics::Outcome;
use crate::metrics::names::OTHER;

/// Maximum number of names of tools and prompts that become labels.
pub const MAX_NAMES: usize = 200;

/// Maximum length of a name that becomes a label, in bytes.
pub const MAX_NAME_LEN: usize = 128;

/// Maximum number of outcomes of one operation that become labels.
const MAX_OUTCOMES: usize = 12;

/// Recommended cardinality limit of an instrument.
pub const MAX_SERIES: usize = 6000;

/// Methods that are labels. The first is empty, for requests without a message; the last is for all other methods.
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

/// Instruments of one operation, bound for each outcome.
#[derive(Debug)]
pub struct BoundInstruments<S> {
    /// One of [`METHODS`].
    method: &'static str,
    name: Option<Box<str>>,
    outcomes: RwLock<Vec<(Outcome, S)>>,
}

/// Instruments of all operations of a server or client.
#[derive(Debug)]
pub(crate) struct InstrumentTable<S> {
    methods: Vec<Arc<BoundInstruments<S>>>,
    tools: NamedInstruments<S>,
    prompts: NamedInstruments<S>,
    budget: Arc<NameBudget>,
}

/// Number of names that may still become labels. `Relaxed` suffices: no other data depends on the counters.
#[derive(Debug)]
pub(crate) struct NameBudget {
    remaining: AtomicUsize,
    /// Set if no name becomes a label from now on.
    is_closed: AtomicBool,
}

type NamedInstruments<S> = RwLock<HashMap<Box<str>, Arc<BoundInstruments<S>>>>;

// === impl BoundInstruments ===

impl<S> BoundInstruments<S> {
    fn new(method: &'static str, name: Option<&str>) -> Self {
        Self { method, name: name.map(Into::into), outcomes: RwLock::default() }
    }

    /// Returns the method; empty for requests without a message, `_OTHER` for unknown methods.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Returns the name of the tool or prompt.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Records into the series of `outcome`, which `make` creates at first use.
    pub(crate) fn record(
        &self,
        outcome: Outcome,
        make: impl Fn(&Self, &Outcome) -> S,
        record: impl Fn(&S),
    ) {
        let find = |outcomes: &[(Outcome, S)], key: &Outcome| {
            let entry = outcomes.iter().find(|(entry_outcome, _)| entry_outcome == key);
            entry.map(|(_, series)| record(series)).is_some()
        };
        if find(&vmcp_core::read_lock(&self.outcomes), &outcome) {
            return;
        }
        let mut outcomes = vmcp_core::write_lock(&self.outcomes);
        let key = if outcomes.len() < MAX_OUTCOMES { outcome } else { Outcome::OTHER };
        if !find(&outcomes, &key) {
            let series = make(self, &key);
            record(&series);
            outcomes.push((key, series));
        }
    }
}

// === impl InstrumentTable ===

impl<S> InstrumentTable<S> {
    pub(crate) fn new(budget: Arc<NameBudget>) -> Self {
        let methods =
            METHODS.iter().map(|method| Arc::new(BoundInstruments::new(method, None))).collect();
        Self { methods, tools: RwLock::default(), prompts: RwLock::default(), budget }
    }

    /// Returns the instruments of an operation. A new name becomes a label only if `is_known`, that is, if an item of
    /// this name exists.
    pub(crate) fn bind(
        &self,
        method: &str,
        name: Option<&str>,
        is_known: bool,
    ) -> Arc<BoundInstruments<S>> {
        let names = match method {
            "tools/call" => &self.tools,
            "prompts/get" => &self.prompts,
            _ => return self.method(method),
        };
        let Some(name) = name else { return self.method(method) };
        let name = if self.budget.is_closed() { OTHER } else { name };
        let read = vmcp_core::read_lock(names);
        if let Some(bound) = read.get(name) {
            return Arc::clone(bound);
        }
        drop(read);
        if !is_known {
            return self.method(method);
        }
        let mut names = vmcp_core::write_lock(names);
        let fits = name.len() <= MAX_NAME_LEN && self.budget.take();
        let name = if fits { name } else { OTHER };
        let bound = || Arc::new(BoundInstruments::new(self.method(method).method, Some(name)));
        Arc::clone(names.entry(name.into()).or_insert_with(bound))
    }

    pub(crate) fn hide_names(&self) {
        self.budget.close();
    }

    fn method(&self, method: &str) -> Arc<BoundInstruments<S>> {
        let last = METHODS.len() - 1;
        let index = match METHODS[..last].binary_search(&method) {
            Ok(index) => index,
            Err(_) => last,
        };
        // In bounds: `methods` has one entry for each of METHODS.
        Arc::clone(&self.methods[index])
    }
}

// === impl NameBudget ===

impl NameBudget {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { remaining: AtomicUsize::new(MAX_NAMES), is_closed: AtomicBool::new(false) })
    }

    /// Merges all names into `_OTHER` from now on. Existing series remain.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns `true` if another name may become a label.
    pub(crate) fn has_room(&self) -> bool {
        self.remaining.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn take(&self) -> bool {
        let take = |remaining: usize| remaining.checked_sub(1);
        self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ErrorType;

    fn table() -> InstrumentTable<u64> {
        InstrumentTable::new(NameBudget::new())
    }

    #[test]
    fn closed_budget_merges_all_names() {
        let table = table();
        assert_eq!(table.bind("tools/call", Some("a"), true).name(), Some("a"));
        table.budget.close();
        for name in ["a", "b"] {
            assert_eq!(table.bind("tools/call", Some(name), true).name(), Some(OTHER), "{name}");
        }
        assert_eq!(table.bind("tools/call", Some("c"), false).name(), Some(OTHER));
    }

    #[test]
    fn merges_unknown_methods() {
        assert!(METHODS[..METHODS.len() - 1].is_sorted());
        assert_eq!(table().bind("tools/list", None, true).method, "tools/list");
        assert_eq!(table().bind("made/up", None, true).method, OTHER);
        assert_eq!(table().bind("", None, true).method, "");
    }

    #[test]
    fn unknown_names_become_no_labels() {
        let table = table();
        assert_eq!(table.bind("tools/call", Some("made up"), false).name, None);
        assert_eq!(table.bind("tools/call", Some("real"), true).name.as_deref(), Some("real"));
        assert_eq!(table.bind("tools/call", Some("real"), false).name.as_deref(), Some("real"));
    }

    #[test]
    fn merges_names_beyond_limit() {
        let table = table();
        for name in 0..MAX_NAMES + 500 {
            let bound = table.bind("tools/call", Some(&name.to_string()), true);
            assert_eq!(bound.name.as_deref() == Some(OTHER), name >= MAX_NAMES, "{name}");
        }
        assert!(table.tools.read().unwrap().len() <= MAX_NAMES + 1);
        let long = "x".repeat(MAX_NAME_LEN + 1);
        assert_eq!(table.bind("prompts/get", Some(&long), true).name.as_deref(), Some(OTHER));
    }

    #[test]
    fn merges_outcomes_beyond_limit() {
        let bound = table().bind("tools/call", None, true);
        for code in 0..1000 {
            let outcome = Outcome { error_type: ErrorType::RpcCode(code), ..Outcome::OTHER };
            bound.record(outcome, |_, _| 0, |_| ());
        }
        assert_eq!(bound.outcomes.read().unwrap().len(), MAX_OUTCOMES + 1);
    }
}
