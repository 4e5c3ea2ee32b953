//! Policies that are evaluated together, and what they say.

use std::collections::HashSet;
use std::sync::Arc;

use cedar_policy::{AuthorizationError, Decision, Entities, EvaluationError, PolicySet, Request};

use crate::arguments::{Arguments, scalars_only};
use crate::cedar::Cedar;

/// Scopes that a permit asks of the token, all of them.
pub(crate) type Scopes = Arc<[Box<str>]>;

/// The policies that can concern a caller and a thing.
#[derive(Debug, Default)]
pub(crate) struct PolicySlice {
    /// Those that look at no arguments.
    fixed: PolicySet,
    /// Those that do.
    open: PolicySet,
    /// What of the permits among these has to hold whatever the arguments are.
    possible: PolicySet,
    /// The names of arguments that one of them reads as scalars only.
    scalars: HashSet<String>,
}

/// The permits that hold, where nothing forbids.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchedPermits {
    /// Whether one of them asks for no scopes.
    unconditional: bool,
    /// What the others ask for, with their places.
    scopes: Vec<(usize, Scopes)>,
}

impl PolicySlice {
    /// Those at `positions` among all.
    pub(crate) fn new(cedar: &Cedar, positions: &[usize]) -> Self {
        let mut slice = Self::default();
        for rule in positions.iter().filter_map(|&position| cedar.rules.get(position)) {
            let Self { fixed, open, possible, scalars } = &mut slice;
            scalars.extend(scalars_only(&rule.reads).map(str::to_owned));
            let set = if rule.reads.arguments() { open } else { fixed };
            // Their names differ: that was found out when all were put together.
            _ = set.add(rule.policy.clone());
            if let Some(policy) = &rule.possible {
                _ = possible.add(policy.clone());
            }
        }
        slice
    }

    /// Whether arguments could matter.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The first argument without a scalar value of which a policy reads that alone: it would slip by a forbid, so it is
    /// denied.
    pub(crate) fn rejected_argument<'a>(&self, arguments: &'a Arguments) -> Option<&'a str> {
        let mut names = arguments.without_scalar.iter();
        names.find(|name| self.scalars.contains(*name)).map(String::as_str)
    }

    /// What those say that look at no arguments. `None` is a forbid, or an error in any.
    pub(crate) fn fixed(
        &self,
        cedar: &Cedar,
        request: &Request,
        entities: &Entities,
    ) -> Option<MatchedPermits> {
        evaluate(cedar, &self.fixed, request, entities)
    }

    /// What the others say. `None` is a forbid, or an error in any.
    pub(crate) fn open(
        &self,
        cedar: &Cedar,
        request: &Request,
        entities: &Entities,
    ) -> Option<MatchedPermits> {
        evaluate(cedar, &self.open, request, entities)
    }

    /// Whether one of the others could permit it with some arguments.
    pub(crate) fn possible(&self, cedar: &Cedar, request: &Request, entities: &Entities) -> bool {
        // A permit that cannot hold without an error cannot hold.
        !self.possible.is_empty()
            && cedar.authorizer.is_authorized(request, &self.possible, entities).decision()
                == Decision::Allow
    }
}

impl MatchedPermits {
    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        self.unconditional || !self.scopes.is_empty()
    }

    /// The scopes that suffice, in the order of policies; none if none are needed.
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
    cedar: &Cedar,
    set: &PolicySet,
    request: &Request,
    entities: &Entities,
) -> Option<MatchedPermits> {
    let mut granted = MatchedPermits::default();
    if set.is_empty() {
        return Some(granted);
    }
    let response = cedar.authorizer.is_authorized(request, set, entities);
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
        // Without a reason, nothing permits; otherwise that is what forbids.
        return reasons.peek().is_none().then_some(granted);
    }
    for (position, rule) in reasons.filter_map(|id| cedar.rule(id)) {
        match &rule.scopes {
            Some(needed) => granted.scopes.push((position, Arc::clone(needed))),
            None => granted.unconditional = true,
        }
    }
    granted.scopes.sort_by_key(|(position, _)| *position);
    Some(granted)
}

/// What went wrong, without the values that Cedar would quote.
fn error_kind(error: &EvaluationError) -> &'static str {
    match error {
        EvaluationError::EntityDoesNotExist(_) => "an entity that does not exist",
        EvaluationError::EntityAttrDoesNotExist(_) | EvaluationError::RecordAttrDoesNotExist(_) => {
            "an attribute that is not there: guard it with has"
        }
        EvaluationError::TypeError(_) => "a value of another type",
        EvaluationError::IntegerOverflow(_) => "an overflow",
        EvaluationError::FailedExtensionFunctionExecution(_) => "an extension function's refusal",
        _ => "another error",
    }
}
