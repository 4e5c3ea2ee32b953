//! Backends and generations in policies: a policy that names an unknown one never applies.

use std::collections::BTreeSet;

use cedar_policy::Effect;
use serde_json::Value;
use vmcp_core::Generation;

use crate::cedar::Cedar;
use crate::names::{BACKEND, GENERATION};
use crate::policy_error::PolicyError;

/// Backend in a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedBackend {
    /// Index of the policy's text, from 0.
    pub index: usize,
    /// `true` for a forbid.
    pub is_forbid: bool,
    /// Name of the backend.
    pub name: String,
}

impl Cedar {
    /// Returns the backends that policies compare with `resource.backend`.
    #[must_use]
    pub fn named_backends(&self) -> Vec<NamedBackend> {
        let mut named = BTreeSet::new();
        for rule in &self.policies().rules {
            let is_forbid = rule.policy.effect() == Effect::Forbid;
            let texts = rule.policy.to_json().map(|json| compared(&json, BACKEND));
            for name in texts.unwrap_or_default() {
                named.insert(NamedBackend { index: rule.text_index(), is_forbid, name });
            }
        }
        named.into_iter().collect()
    }

    /// Returns an error for each generation that does not exist.
    pub(crate) fn unknown_generations(&self) -> Vec<PolicyError> {
        let known = [Generation::Stateless, Generation::Stateful].map(Generation::revision);
        let mut errors = Vec::new();
        for rule in &self.policies().rules {
            let texts = rule.policy.to_json().map(|json| compared(&json, GENERATION));
            for text in texts.unwrap_or_default().iter().filter(|text| !known.contains(&&***text)) {
                let [newer, older] = known;
                let message = format!(
                    "`resource.{GENERATION}` must be \"{newer}\" or, for all older revisions, \"{older}\", not \"{text}\""
                );
                errors.push(PolicyError::policy(rule.text_index(), message));
            }
        }
        errors
    }
}

/// Returns the texts that are compared with an attribute of the resource, in Cedar's JSON of a
/// policy or a part of it.
fn compared(json: &Value, attribute: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(json, attribute, &mut found);
    found
}

fn collect(json: &Value, attribute: &str, found: &mut BTreeSet<String>) {
    let is_read = |side: &Value| {
        let of = &side["."];
        of["left"]["Var"] == "resource" && of["attr"] == attribute
    };
    match json {
        Value::Object(members) => {
            for (operator, sides) in members {
                let (left, right) = (&sides["left"], &sides["right"]);
                match operator.as_str() {
                    "==" | "!=" if is_read(left) => texts(right, found),
                    "==" | "!=" | "contains" if is_read(right) => texts(left, found),
                    _ => {}
                }
                collect(sides, attribute, found);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, attribute, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds a literal text, or those in a set.
fn texts(side: &Value, found: &mut BTreeSet<String>) {
    found.extend(side["Value"].as_str().map(str::to_owned));
    let parts = side["Set"].as_array().into_iter().flatten();
    found.extend(parts.filter_map(|part| part["Value"].as_str()).map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cedar(policy: &str) -> Cedar {
        Cedar::new("gate", &[policy], "").unwrap()
    }

    #[test]
    fn lists_backends_that_policies_name() {
        let policy = r#"forbid(principal, action, resource)
            unless { "a" == resource.backend || ["b", "c"].contains(resource.backend) }
            unless { resource.backend != "d" && resource.name == "e" && resource.backend == context.claim_f };
        permit(principal, action, resource) when { resource.backend == "a" };"#;
        let named: Vec<_> = cedar(policy)
            .named_backends()
            .into_iter()
            .map(|named| (named.index, named.is_forbid, named.name))
            .collect();
        let expected =
            [(0, false, "a"), (0, true, "a"), (0, true, "b"), (0, true, "c"), (0, true, "d")];
        assert_eq!(named, expected.map(|(index, forbid, name)| (index, forbid, name.to_owned())));
    }

    #[test]
    fn reports_generations_that_do_not_exist() {
        let errors = |policy: &str| cedar(policy).check_names(&[policy]);
        for known in ["2026-07-28", "2025-11-25"] {
            let policy = format!(
                r#"permit(principal, action, resource) when {{ resource.generation == "{known}" }};"#
            );
            assert_eq!(errors(&policy), []);
        }
        let unknown =
            r#"forbid(principal, action, resource) when { resource.generation == "2025-06-18" };"#;
        let found = errors(unknown);
        assert!(found.len() == 1 && found[0].to_string().contains("2025-11-25"), "{found:?}");
    }
}
