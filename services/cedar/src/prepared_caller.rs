//! Entities of a caller, and the policies that apply to it.

use std::collections::HashMap;
use std::sync::Arc;

use cedar_policy::{Context, Entities, EntityUid, Request, RestrictedExpression};
use vmcp_core::{Item, ToolAnnotations};

use crate::arguments::Arguments;
use crate::compiled_policies::CompiledPolicies;
use crate::evaluator::Evaluator;
use crate::model::{Attributes, with};
use crate::names::Feature;
use crate::policy_slice::{MatchedPermits, PolicySlice};
use crate::rules::ResourceScope;
use crate::subject::CallerFacts;
use crate::value;

/// Caller as entities, shared by indistinguishable callers.
pub(crate) struct PreparedCaller {
    principal: EntityUid,
    /// Configured entities and the caller.
    entities: Entities,
    /// Claims that policies read from the context.
    claims: Vec<(String, RestrictedExpression)>,
    context: Context,
    candidates: [CandidatePolicies; 3],
}

/// Policies that may apply to a caller and a kind of items, as positions in the list of all.
#[derive(Default)]
struct CandidatePolicies {
    any: Vec<usize>,
    one: HashMap<Box<str>, Vec<usize>>,
}

/// Item that a caller requests, if the decision depends on arguments.
pub(crate) struct ArgumentDependentRequest {
    slice: Arc<PolicySlice>,
    /// Permits that match independent of arguments, unless a forbid matches with them.
    granted: MatchedPermits,
    /// Configured entities, the caller and the item.
    entities: Entities,
}

impl ArgumentDependentRequest {
    /// Returns an argument that denies the call, independent of all others.
    pub(crate) fn rejected_argument<'a>(&self, arguments: &'a Arguments) -> Option<&'a str> {
        self.slice.rejected_argument(arguments)
    }
}

impl PreparedCaller {
    pub(crate) fn new(policies: &CompiledPolicies, facts: &CallerFacts) -> Option<Self> {
        let (mut attributes, mut claims) = (Attributes::new(), Vec::new());
        for (name, claim) in &facts.claims {
            let Some(value) = value::from_json(claim) else {
                tracing::debug!(claim = name, "claim dropped: no Cedar value");
                continue;
            };
            let name = format!("claim_{name}");
            if policies.reads.in_context(&name) {
                claims.push((name.clone(), value.clone()));
            }
            if policies.reads.in_entities(&name) {
                attributes.insert(name, value);
            }
        }
        let principal = policies.model.client(&facts.name);
        let groups = facts.groups.iter().map(String::as_str);
        let entity = policies.model.principal(principal.clone(), attributes, groups)?;
        let entities = with(&policies.model.statics, entity)?;
        let context = Context::from_pairs(claims.iter().cloned()).ok()?;
        let candidates = Default::default();
        let mut prepared = Self { principal, entities, claims, context, candidates };
        prepared.candidates = Feature::ALL.map(|feature| prepared.candidates(policies, feature));
        Some(prepared)
    }

    fn candidates(&self, policies: &CompiledPolicies, feature: Feature) -> CandidatePolicies {
        let mut candidates = CandidatePolicies::default();
        let nothing = Item {
            kind: feature.kind(),
            name: "",
            annotations: ToolAnnotations::default(),
            backend: None,
        };
        let nothing = self.request(policies, &nothing, &Arguments::default());
        for (position, rule) in policies.rules.iter().enumerate() {
            if !rule.concerns(&self.principal, feature, &policies.model, &self.entities) {
                continue;
            }
            match rule.about(feature, &policies.model) {
                ResourceScope::None => {}
                ResourceScope::One(name) => candidates.one.entry(name).or_default().push(position),
                ResourceScope::Any => candidates.any.push(position),
                // A policy that references no item decides the same for all items.
                ResourceScope::Uniform => {
                    let silent = nothing.as_ref().is_some_and(|(request, entities)| {
                        let said = PolicySlice::new(policies, &[position])
                            .fixed(policies, request, entities);
                        said.is_some_and(|granted| !granted.any())
                    });
                    if !silent {
                        candidates.any.push(position);
                    }
                }
            }
        }
        candidates
    }

    /// Returns the policies that may apply to `item`.
    pub(crate) fn slice(&self, evaluator: &Evaluator, item: &Item<'_>) -> Arc<PolicySlice> {
        let candidates = &self.candidates[Feature::of(item.kind) as usize];
        let one = candidates.one.get(item.name).into_iter().flatten();
        let positions: Vec<_> = candidates.any.iter().chain(one).copied().collect();
        evaluator.slice(positions)
    }

    pub(crate) fn open(
        &self,
        evaluator: &Evaluator,
        item: &Item<'_>,
    ) -> Option<ArgumentDependentRequest> {
        let policies = evaluator.policies();
        let (request, entities) = self.request(policies, item, &Arguments::default())?;
        let slice = self.slice(evaluator, item);
        let granted = slice.fixed(policies, &request, &entities)?;
        Some(ArgumentDependentRequest { slice, granted, entities })
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
        if let Some(name) = open.slice.rejected_argument(arguments) {
            tracing::debug!(
                argument = name,
                "denied: the argument has no scalar value, and a policy reads it as a scalar"
            );
            return None;
        }
        let more = if policies.reads.arguments_in_entities() {
            let (request, entities) = self.request(policies, item, arguments)?;
            open.slice.open(policies, &request, &entities)?
        } else {
            let resource = policies.model.uid(item);
            let request = self.about(policies, item, resource, arguments)?;
            open.slice.open(policies, &request, &open.entities)?
        };
        Some(open.granted.and(more))
    }

    /// Builds the complete request.
    pub(crate) fn request(
        &self,
        policies: &CompiledPolicies,
        item: &Item<'_>,
        arguments: &Arguments,
    ) -> Option<(Request, Entities)> {
        let attributes = arguments.values.iter().cloned().collect();
        let resource = policies.model.resource(item, &policies.reads, attributes)?;
        let entities = with(&self.entities, resource)?;
        let request = self.about(policies, item, policies.model.uid(item), arguments)?;
        Some((request, entities))
    }

    fn about(
        &self,
        policies: &CompiledPolicies,
        item: &Item<'_>,
        resource: EntityUid,
        arguments: &Arguments,
    ) -> Option<Request> {
        let context = if arguments.values.is_empty() {
            self.context.clone()
        } else {
            Context::from_pairs(self.claims.iter().chain(&arguments.values).cloned()).ok()?
        };
        let action = policies.model.action(Feature::of(item.kind)).clone();
        Request::new(self.principal.clone(), action, resource, context, None).ok()
    }
}
