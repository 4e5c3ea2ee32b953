//! Policies with everything that is computed from them in advance.

use std::collections::{BTreeSet, HashMap};

use cedar_policy::{Authorizer, PolicyId, PolicySet};

use crate::arguments::ReferencedArguments;
use crate::dependencies::PolicyDependencies;
use crate::model::Model;
use crate::policy_error::{PolicyError, PolicyErrors};
use crate::rules::{self, Rule};

/// Parsed policies with their entities and dependencies. Immutable.
pub(crate) struct CompiledPolicies {
    pub(crate) model: Model,
    pub(crate) rules: Vec<Rule>,
    /// Positions of the rules, by policy identifier.
    positions: HashMap<PolicyId, usize>,
    /// All policies, as configured.
    pub(crate) all: PolicySet,
    /// Union of the policies' dependencies.
    pub(crate) reads: PolicyDependencies,
    /// Claims in the dependencies.
    pub(crate) claims: Vec<String>,
    /// Arguments in the dependencies.
    pub(crate) referenced_arguments: ReferencedArguments,
    /// `true` if a policy reads the backend of an item, or its generation.
    pub(crate) reads_backend: bool,
    /// Scopes in `@scopes` annotations.
    pub(crate) scopes: BTreeSet<Box<str>>,
    pub(crate) authorizer: Authorizer,
}

impl CompiledPolicies {
    /// Parses the policies and entities of the server `server`, and reports all errors at once.
    pub(crate) fn new<T: AsRef<str>>(
        server: &str,
        policies: &[T],
        entities: &str,
    ) -> Result<Self, PolicyErrors> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        if policies.is_empty() {
            errors.push(PolicyError::NoPolicies);
        }
        for (index, text) in policies.iter().enumerate() {
            match rules::parse_checked(index, text.as_ref()) {
                Ok(read) => rules.extend(read),
                Err(found) => errors.extend(found),
            }
        }
        let model = match Model::new(server, entities) {
            Ok(model) if errors.is_empty() => model,
            Ok(_) => return Err(PolicyErrors(errors)),
            Err(error) => {
                errors.push(error);
                return Err(PolicyErrors(errors));
            }
        };
        let all = PolicySet::from_policies(rules.iter().map(|rule| rule.policy.clone()));
        let all =
            all.map_err(|error| PolicyErrors(vec![PolicyError::policy(0, error.to_string())]))?;
        let mut reads = PolicyDependencies {
            principal: model.mentions_clients,
            ..PolicyDependencies::default()
        };
        for rule in &rules {
            reads.join(&rule.reads);
        }
        let claims = reads.attributes.iter().filter_map(|name| name.strip_prefix("claim_"));
        let scopes = rules.iter().filter_map(|rule| rule.scopes.as_deref()).flatten();
        let positions = rules.iter().enumerate();
        Ok(Self {
            claims: claims.map(str::to_owned).collect(),
            referenced_arguments: ReferencedArguments::of(&reads),
            reads_backend: reads.backend(),
            scopes: scopes.cloned().collect(),
            positions: positions
                .map(|(position, rule)| (rule.policy.id().clone(), position))
                .collect(),
            model,
            rules,
            all,
            reads,
            authorizer: Authorizer::new(),
        })
    }

    /// Returns the rule of a policy, with its position.
    pub(crate) fn rule(&self, id: &PolicyId) -> Option<(usize, &Rule)> {
        let position = *self.positions.get(id)?;
        Some((position, self.rules.get(position)?))
    }
}
