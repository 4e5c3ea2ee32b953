//! Callers that policies cannot distinguish, and the decisions for them.

use std::sync::OnceLock;

use cedar_policy::{Entities, Request};
use vmcp_core::{Fingerprint, Item};

use crate::arguments::Arguments;
use crate::compiled_policies::CompiledPolicies;
use crate::evaluator::Evaluator;
use crate::policy_slice::MatchedPermits;
use crate::prepared_caller::{ArgumentDependentRequest, PreparedCaller};
use crate::subject::{CallerFacts, Subject};

/// Callers that the policies cannot distinguish.
pub(crate) struct CallerView {
    pub(crate) key: Fingerprint,
    facts: Option<CallerFacts>,
    prepared: OnceLock<Option<PreparedCaller>>,
}

/// Decision of policies, independent of arguments.
#[derive(Debug, Default)]
pub(crate) struct CachedDecision {
    /// `true` if some arguments are permitted.
    pub(crate) permitted: bool,
    /// `true` if the decision depends on the arguments.
    pub(crate) open: bool,
    pub(crate) granted: MatchedPermits,
}

impl CallerView {
    pub(crate) fn new(key: Fingerprint, subject: Subject<'_>, policies: &CompiledPolicies) -> Self {
        Self { key, facts: subject.facts(policies), prepared: OnceLock::new() }
    }

    /// Creates the view of an unknown caller, which is denied everything.
    pub(crate) fn unknown(epoch: u64) -> Self {
        Self { key: Fingerprint::of(&("unknown", epoch)), facts: None, prepared: OnceLock::new() }
    }

    /// Evaluates the policies independent of arguments.
    pub(crate) fn decide(&self, evaluator: &Evaluator, item: &Item<'_>) -> CachedDecision {
        self.decided(evaluator, item).unwrap_or_default()
    }

    fn decided(&self, evaluator: &Evaluator, item: &Item<'_>) -> Option<CachedDecision> {
        let policies = evaluator.policies();
        let prepared = self.prepared(policies)?;
        let (request, entities) = prepared.request(policies, item, &Arguments::default())?;
        let slice = prepared.slice(evaluator, item);
        // Evaluates all policies, even if a permit matches: an error in any denies.
        let granted = slice.fixed(policies, &request, &entities)?;
        let permitted = granted.any() || slice.possible(policies, &request, &entities);
        Some(CachedDecision { permitted, open: slice.is_open(), granted })
    }

    /// Prepares `item` for the arguments of calls.
    pub(crate) fn open(
        &self,
        evaluator: &Evaluator,
        item: &Item<'_>,
    ) -> Option<ArgumentDependentRequest> {
        self.prepared(evaluator.policies())?.open(evaluator, item)
    }

    /// Returns the permits that match with `arguments`; `None` denies. `open` is that of this
    /// caller and `item`.
    pub(crate) fn with(
        &self,
        policies: &CompiledPolicies,
        item: &Item<'_>,
        open: &ArgumentDependentRequest,
        arguments: &Arguments,
    ) -> Option<MatchedPermits> {
        self.prepared(policies)?.with(policies, item, open, arguments)
    }

    /// Builds the complete request, for other evaluations.
    pub(crate) fn request(
        &self,
        policies: &CompiledPolicies,
        item: &Item<'_>,
        arguments: &Arguments,
    ) -> Option<(Request, Entities)> {
        self.prepared(policies)?.request(policies, item, arguments)
    }

    fn prepared(&self, policies: &CompiledPolicies) -> Option<&PreparedCaller> {
        let prepared =
            self.prepared.get_or_init(|| PreparedCaller::new(policies, self.facts.as_ref()?));
        prepared.as_ref()
    }
}
