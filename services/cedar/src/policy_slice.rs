//! Sets of policies that are evaluated together, and their results.

use std::collections::HashSet;
use std::sync::Arc;

use cedar_policy::{AuthorizationError, Decision, Entities, EvaluationError, PolicySet, Request};

use crate::arguments::{Arguments, scalars_only};
use crate::compiled_policies::CompiledPolicies;

/// Scopes that a permit requires, all of them.
pub(crate) type Scopes = Arc<[Box<str>]>;

/// Policies that may apply to a caller and an item.
#[derive(Debug, Default)]
pub(crate) struct PolicySlice {
    /// Policies that reference no arguments.
    fixed: PolicySet,
    /// Policies that reference arguments.
    open: PolicySet,
    /// Argument-independent conditions of the permits in `open`.
    possible: PolicySet,
    /// Arguments that a policy reads as scalars only.
    scalars: HashSet<String>,
}

/// Permits that match, if no forbid does.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchedPermits {
    /// `true` if a permit without `@scopes` matches.
    unconditional: bool,
    /// Scopes of the other permits, with their positions.
    scopes: Vec<(usize, Scopes)>,
}

impl PolicySlice {
    /// Creates a set of the policies at `positions`.
    pub(crate) fn new(policies: &CompiledPolicies, positions: &[usize]) -> Self {
        let mut slice = Self::default();
        for rule in positions.iter().filter_map(|&position| policies.rules.get(position)) {
            let Self { fixed, open, possible, scalars } = &mut slice;
            scalars.extend(scalars_only(&rule.reads).map(str::to_owned));
            let set = if rule.reads.arguments() { open } else { fixed };
            // Cannot fail: `PolicySet::from_policies` has checked that identifiers are unique.
            _ = set.add(rule.policy.clone());
            if let Some(policy) = &rule.possible {
                _ = possible.add(policy.clone());
            }
        }
        slice
    }

    /// Returns whether arguments may matter.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the first argument without a scalar value that a policy reads as a scalar only. Such
    /// an argument would not match a forbid, so the call is denied.
    pub(crate) fn rejected_argument<'a>(&self, arguments: &'a Arguments) -> Option<&'a str> {
        let mut names = arguments.without_scalar.iter();
        names.find(|name| self.scalars.contains(*name)).map(String::as_str)
    }

    /// Evaluates the policies that reference no arguments. `None` means a forbid, or an error in
    /// any policy.
    pub(crate) fn fixed(
        &self,
        policies: &CompiledPolicies,
        request: &Request,
        entities: &Entities,
    ) -> Option<MatchedPermits> {
        evaluate(policies, &self.fixed, request, entities)
    }

    /// Evaluates the policies that reference arguments. `None` means a forbid, or an error in any
    /// policy.
    pub(crate) fn open(
        &self,
        policies: &CompiledPolicies,
        request: &Request,
        entities: &Entities,
    ) -> Option<MatchedPermits> {
        evaluate(policies, &self.open, request, entities)
    }

    /// Returns whether a policy that references arguments may permit the call with some of them.
    pub(crate) fn possible(
        &self,
        policies: &CompiledPolicies,
        request: &Request,
        entities: &Entities,
    ) -> bool {
        // A permit that always causes an error never matches.
        !self.possible.is_empty()
            && policies.authorizer.is_authorized(request, &self.possible, entities).decision()
                == Decision::Allow
    }
}

impl MatchedPermits {
    /// Returns whether any permit matches.
    pub(crate) fn any(&self) -> bool {
        self.unconditional || !self.scopes.is_empty()
    }

    /// Returns the sets of scopes that suffice, in the order of policies; empty if no scopes are
    /// required.
    pub(crate) fn scopes(&self) -> &[(usize, Scopes)] {
        if self.unconditional { &[] } else { &self.scopes }
    }

    pub(crate) fn and(&self, others: Self) -> Self {
        let mut scopes = others.scopes;
        scopes.extend(self.scopes.iter().cloned());
        scopes.sort_by_key(|(position, _)| *position);
        Self { unconditional: self.unconditional || others.unconditional, scopes }
    }
}

fn evaluate(
    policies: &CompiledPolicies,
    set: &PolicySet,
    request: &Request,
    entities: &Entities,
) -> Option<MatchedPermits> {
    let mut granted = MatchedPermits::default();
    if set.is_empty() {
        return Some(granted);
    }
    let response = policies.authorizer.is_authorized(request, set, entities);
    let diagnostics = response.diagnostics();
    if let Some(AuthorizationError::PolicyEvaluationError(error)) = diagnostics.errors().next() {
        let policy: &str = error.policy_id().as_ref();
        tracing::debug!(
            policy,
            error = error_kind(error.inner()),
            "denied: the policy has an error"
        );
        return None;
    }
    let mut reasons = diagnostics.reason().peekable();
    if response.decision() == Decision::Deny {
        // Without a reason no permit matches; with reasons, they are forbids.
        return reasons.peek().is_none().then_some(granted);
    }
    for (position, rule) in reasons.filter_map(|id| policies.rule(id)) {
        match &rule.scopes {
            Some(needed) => granted.scopes.push((position, Arc::clone(needed))),
            None => granted.unconditional = true,
        }
    }
    granted.scopes.sort_by_key(|(position, _)| *position);
    Some(granted)
}

/// Returns the kind of an error, without the values that Cedar quotes.
fn error_kind(error: &EvaluationError) -> &'static str {
    match error {
        EvaluationError::EntityDoesNotExist(_) => "an entity that does not exist",
        EvaluationError::EntityAttrDoesNotExist(_) | EvaluationError::RecordAttrDoesNotExist(_) => {
            "a missing attribute: guard it with has"
        }
        EvaluationError::TypeError(_) => "a value of another type",
        EvaluationError::IntegerOverflow(_) => "an overflow",
        EvaluationError::FailedExtensionFunctionExecution(_) => "a failed extension function",
        _ => "another error",
    }
}
