//! Policies with their precomputed properties.

use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Effect, Entities, EntityUid, Policy, PolicyId, PolicySet,
    PrincipalConstraint, ResourceConstraint,
};

use crate::dependencies::{PolicyDependencies, argument_independent_part};
use crate::model::Model;
use crate::names::Feature;
use crate::nesting::{MAX_NESTING, nesting};
use crate::policy_error::PolicyError;

/// Policy with its precomputed properties.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) policy: Policy,
    pub(crate) reads: PolicyDependencies,
    /// Scopes that a permit requires of the token (`@scopes`).
    pub(crate) scopes: Option<Arc<[Box<str>]>>,
    /// Conditions that are independent of arguments. `None` for a policy that references no
    /// arguments, and for a forbid that does: other arguments may not match it.
    pub(crate) possible: Option<Policy>,
}

/// Stack size for parsing policies in bytes: several times the need of the deepest policies without
/// optimization. Only touched pages take memory.
const PARSER_STACK_SIZE: usize = 64 << 20;

/// Parses the policies in one text. Rejects text that nests too deeply for the recursive parser.
pub(crate) fn parse_checked(index: usize, text: &str) -> Result<Vec<Rule>, Vec<PolicyError>> {
    let found = nesting(text);
    if found > MAX_NESTING {
        let message = format!(
            "expressions nest {found} deep, at most {MAX_NESTING} are allowed; use several policies, or a set with `in` or \
                         `contains` instead of many `||`"
        );
        return Err(vec![PolicyError::policy(index, message)]);
    }
    on_large_stack("cedar-reader", || parse(index, text))
        .unwrap_or_else(|message| Err(vec![PolicyError::policy(index, message)]))
}

/// Runs a recursive function over policies on a stack that the deepest ones do not exhaust.
pub(crate) fn on_large_stack<T: Send>(
    name: &str,
    work: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    let done = std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name(name.to_owned()).stack_size(PARSER_STACK_SIZE);
        thread.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join)
    });
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_panic)) => Err("failed to parse the policy: the parser panicked".to_owned()),
        Err(error) => Err(format!("failed to start a thread to parse the policy: {error}")),
    }
}

fn parse(index: usize, text: &str) -> Result<Vec<Rule>, Vec<PolicyError>> {
    let set: PolicySet = text.parse().map_err(|errors| PolicyError::parse(index, text, &errors))?;
    let errors = PolicyError::beyond_cedar(index, &set);
    if !errors.is_empty() {
        return Err(errors);
    }
    let alone = set.num_of_policies() == 1;
    let name = |position| {
        if alone { format!("policy{index}") } else { format!("policy{index}.{position}") }
    };
    let rules = set.policies().enumerate();
    let rules =
        rules.map(|(position, policy)| Rule::new(policy.new_id(PolicyId::new(name(position)))));
    rules.collect::<Result<_, _>>().map_err(|message| vec![PolicyError::policy(index, message)])
}

/// Returns the index of a policy's text, from `policy3` or `policy3.1`.
pub(crate) fn text_index(id: &PolicyId) -> usize {
    let name: &str = id.as_ref();
    let position = name.trim_start_matches("policy");
    position.split('.').next().and_then(|position| position.parse().ok()).unwrap_or_default()
}

impl Rule {
    fn new(policy: Policy) -> Result<Self, String> {
        let json = policy.to_json().map_err(|error| error.to_string())?;
        let reads = PolicyDependencies::of(&policy, &json);
        let possible = if reads.arguments() && policy.effect() == Effect::Permit {
            let json = argument_independent_part(&json);
            let possible = Policy::from_json(Some(policy.id().clone()), json);
            Some(possible.map_err(|error| error.to_string())?)
        } else {
            None
        };
        let scopes = policy.annotation("scopes");
        let scopes = scopes.map(|scopes| scopes.split_whitespace().map(Box::from).collect());
        Ok(Self { policy, reads, scopes, possible })
    }

    /// Returns the index of the text that the policy comes from.
    pub(crate) fn text_index(&self) -> usize {
        text_index(self.policy.id())
    }

    /// Returns whether the policy may apply to `principal` and the action of `feature`.
    pub(crate) fn concerns(
        &self,
        principal: &EntityUid,
        feature: Feature,
        model: &Model,
        entities: &Entities,
    ) -> bool {
        let mixed = model.leads_to_items;
        let within = |inner: &EntityUid, outer: &EntityUid| {
            inner == outer || entities.is_ancestor_of(outer, inner)
        };
        let action = model.action(feature);
        let acts = match self.policy.action_constraint() {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(one) => one == *action,
            ActionConstraint::In(some) => some.iter().any(|one| within(action, one)),
        };
        acts && match self.policy.principal_constraint() {
            PrincipalConstraint::Any => true,
            PrincipalConstraint::Eq(one) => one == *principal,
            PrincipalConstraint::In(group) => mixed || within(principal, &group),
            PrincipalConstraint::Is(kind) => kind == *principal.type_name(),
            PrincipalConstraint::IsIn(kind, group) => {
                kind == *principal.type_name() && (mixed || within(principal, &group))
            }
        }
    }

    /// Returns the resources that the policy may apply to.
    pub(crate) fn about(&self, feature: Feature, model: &Model) -> ResourceScope {
        let kind = model.kind(feature);
        match self.policy.resource_constraint() {
            ResourceConstraint::Eq(one) if one.type_name() == kind => {
                ResourceScope::One(one.id().unescaped().into())
            }
            ResourceConstraint::Eq(_) => ResourceScope::None,
            ResourceConstraint::Is(named) | ResourceConstraint::IsIn(named, _)
                if named != *kind =>
            {
                ResourceScope::None
            }
            ResourceConstraint::Any
                if !self.reads.resource && !self.reads.arguments() && !model.leads_to_items =>
            {
                ResourceScope::Uniform
            }
            ResourceConstraint::Any
            | ResourceConstraint::In(_)
            | ResourceConstraint::Is(_)
            | ResourceConstraint::IsIn(..) => ResourceScope::Any,
        }
    }
}

/// Resources of a kind that a policy may apply to.
pub(crate) enum ResourceScope {
    None,
    One(Box<str>),
    /// All, with the same result for each.
    Uniform,
    Any,
}
