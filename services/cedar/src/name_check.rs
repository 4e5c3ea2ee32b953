//! Validation of names in policies: the entity types, actions and attributes that requests have.
//!
//! A policy with an unknown name never applies: a forbid would forbid nothing. Types of values are
//! not checked, because claims and arguments may have any type.

use cedar_policy::ffi::DetailedError;
use cedar_policy::{
    Effect, EntityUid, PolicyId, Schema, ValidationError, ValidationMode, ValidationWarning,
    Validator,
};
use vmcp_core::ItemKind;

use crate::cedar::Cedar;
use crate::names::{BACKEND, Feature, GENERATION};
use crate::policy_error::PolicyError;
use crate::rules::{on_large_stack, text_index};

/// Attributes of the resource, besides arguments.
const RESOURCE: [&str; 10] = [
    "name",
    "operation",
    "feature",
    "uri",
    BACKEND,
    GENERATION,
    "readOnlyHint",
    "destructiveHint",
    "idempotentHint",
    "openWorldHint",
];

/// Tool, prompt or resource in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedItem {
    /// Index of the policy's text, from 0.
    pub index: usize,
    /// `true` for a forbid.
    pub is_forbid: bool,
    /// Kind of the item.
    pub kind: ItemKind,
    /// Name, or the URI of a resource.
    pub name: String,
}

impl Cedar {
    /// Checks the names in the policies: entity types, actions and attributes. `policies` are the
    /// texts of this value, for line numbers.
    #[must_use]
    pub fn check_names<T: AsRef<str>>(&self, policies: &[T]) -> Vec<PolicyError> {
        let mut errors = Vec::new();
        let text = |index: usize| policies.get(index).map_or("", AsRef::as_ref);
        let names = &self.policies().model.names;
        match Schema::from_json_value(names.schema()) {
            Ok(schema) => {
                let validated = on_large_stack("cedar-validator", || {
                    Validator::new(schema).validate(&self.policies().all, ValidationMode::Strict)
                });
                if let Ok(validated) = &validated {
                    let name_errors =
                        || validated.validation_errors().filter(|error| is_about_name(error));
                    let policies_with_errors: Vec<_> =
                        name_errors().map(ValidationError::policy_id).collect();
                    errors.extend(
                        name_errors().map(|it| validation_error(it.policy_id(), it.into(), &text)),
                    );
                    // A policy with an unknown name applies to nothing for that reason.
                    let warnings = validated.validation_warnings().filter(|it| {
                        matches!(it, ValidationWarning::InvalidActionApplication(_))
                            && !policies_with_errors.contains(&it.policy_id())
                    });
                    errors.extend(
                        warnings.map(|it| validation_error(it.policy_id(), it.into(), &text)),
                    );
                }
            }
            Err(error) => tracing::debug!(%error, "policies not validated"),
        }
        errors.extend(self.unknown_attributes());
        errors.extend(self.unknown_generations());
        errors.sort_by_key(|error| match error {
            PolicyError::Policy { index, line, .. } => (*index, line.unwrap_or_default()),
            PolicyError::NoPolicies | PolicyError::Entities { .. } => (0, 0),
        });
        errors.dedup();
        errors
    }

    /// Returns the tools, prompts and resources in policies.
    #[must_use]
    pub fn named_items(&self) -> Vec<NamedItem> {
        let mut named = Vec::new();
        for rule in &self.policies().rules {
            let literals = rule.policy.entity_literals();
            for feature in Feature::ALL {
                let of_kind =
                    |uid: &&EntityUid| uid.type_name() == self.policies().model.kind(feature);
                for uid in literals.iter().filter(of_kind) {
                    let item = NamedItem {
                        index: rule.text_index(),
                        is_forbid: rule.policy.effect() == Effect::Forbid,
                        kind: feature.kind(),
                        name: uid.id().unescaped().to_owned(),
                    };
                    if !named.contains(&item) {
                        named.push(item);
                    }
                }
            }
        }
        named
    }

    /// Returns the servers in policies that are neither this one nor configured entities: such
    /// policies do not apply to this server. Policies that several servers share name all of them.
    #[must_use]
    pub fn foreign_servers(&self) -> Vec<(usize, String)> {
        let server = self.policies().model.server();
        let is_foreign = |uid: &EntityUid| {
            uid.type_name() == server.type_name()
                && uid != server
                && self.policies().model.statics.get(uid).is_none()
        };
        let mut found = Vec::new();
        for rule in &self.policies().rules {
            for uid in rule.policy.entity_literals().into_iter().filter(is_foreign) {
                found.push((rule.text_index(), uid.id().unescaped().to_owned()));
            }
        }
        found.dedup();
        found
    }

    /// Returns an error for each attribute that neither requests nor configured entities have.
    fn unknown_attributes(&self) -> Vec<PolicyError> {
        let mut errors = Vec::new();
        for rule in &self.policies().rules {
            for (variable, name) in &rule.reads.of_variables {
                let known: &[&str] = match variable.as_str() {
                    "resource" => &RESOURCE,
                    "action" => &["operation"],
                    _ => &[],
                };
                let prefixes: &[&str] = match variable.as_str() {
                    "principal" => &["claim_"],
                    "resource" => &["arg_"],
                    "context" => &["claim_", "arg_"],
                    _ => &[],
                };
                // A configured entity may be any variable except the context.
                let configured =
                    variable != "context" && self.policies().model.names.has_attribute(name);
                let dynamic = prefixes.iter().any(|prefix| name.starts_with(prefix));
                if configured || dynamic || known.contains(&name.as_str()) {
                    continue;
                }
                let all = prefixes.iter().map(|prefix| format!("{prefix}<name>"));
                let all: Vec<_> = known.iter().map(ToString::to_string).chain(all).collect();
                let message =
                    format!("`{variable}` has no attribute `{name}`; it has {}", all.join(", "));
                errors.push(PolicyError::policy(rule.text_index(), message));
            }
        }
        errors
    }
}

fn is_about_name(error: &ValidationError) -> bool {
    matches!(
        error,
        ValidationError::UnrecognizedEntityType(_)
            | ValidationError::UnrecognizedActionId(_)
            | ValidationError::InvalidActionApplication(_)
    )
}

fn validation_error<'a>(
    id: &PolicyId,
    error: DetailedError,
    text: &impl Fn(usize) -> &'a str,
) -> PolicyError {
    let DetailedError { message, help, source_locations, .. } = error;
    let index = text_index(id);
    let start = source_locations.first().map(|label| label.loc.start);
    let line = start
        .and_then(|start| text(index).get(..start))
        .map(|before| before.bytes().filter(|byte| *byte == b'\n').count() + 1);
    // Cedar's identifier of the policy means nothing to its author.
    let message = message.replace(&format!("for policy `{id}`, "), "");
    let help = help.map(|help| format!(" ({help})")).unwrap_or_default();
    PolicyError::Policy { index, line, message: format!("{message}{help}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTITIES: &str = r#"[
        {"uid": {"type": "Group", "id": "eng"}, "attrs": {}, "parents": [{"type": "Org::Unit", "id": "all"}]},
        {"uid": {"type": "Tool", "id": "x"}, "attrs": {"owner": "me"}, "parents": [{"type": "Toolset", "id": "release"}]},
        {"uid": {"type": "Action", "id": "call_tool"}, "attrs": {}, "parents": [{"type": "Action", "id": "any"}]}
    ]"#;

    fn errors(policy: &str) -> Vec<String> {
        let cedar = Cedar::new("gate", &[policy], ENTITIES).unwrap();
        cedar.check_names(&[policy]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn accepts_names_of_model_and_entities() {
        for policy in [
            r"permit(principal, action, resource);",
            r#"permit(principal == Client::"ann", action == Action::"call_tool", resource == Tool::"y");"#,
            r#"permit(principal in Group::"any", action in Action::"any", resource in MCP::"gate");"#,
            r#"permit(principal in Org::Unit::"all", action, resource in Toolset::"release");"#,
            r#"permit(principal, action == Action::"read_resource", resource is Resource) when { resource.uri like "a*" };"#,
            r#"permit(principal, action, resource) when { principal has claim_email && principal.claim_email == "a" };"#,
            r"forbid(principal, action, resource) when { context has arg_n && context.arg_n > 5 && resource.arg_n > 5 };",
            r#"permit(principal, action, resource) when { resource has owner && resource.owner == "me" };"#,
            r#"forbid(principal, action, resource) unless { resource.backend == "a" };"#,
            r#"permit(principal, action, resource) when { resource has generation && resource.generation == "2026-07-28" };"#,
            r#"permit(principal, action, resource) when { action.operation == "call_tool" && resource.name == "x" };"#,
        ] {
            assert_eq!(errors(policy), [""; 0], "{policy}");
        }
    }

    #[test]
    fn reports_names_that_no_request_has() {
        for (policy, words) in [
            (r#"permit(principal in Grup::"eng", action, resource);"#, "Grup"),
            (r#"permit(principal, action == Action::"cal_tool", resource);"#, "call_tool"),
            (r#"permit(principal, action in [Action::"call_tools"], resource);"#, "call_tools"),
            (r#"forbid(principal, action, resource) when { principal in Grup::"eng" };"#, "Grup"),
            (r#"forbid(principal, action, resource == Tol::"x");"#, "Tol"),
            (
                r#"permit(principal, action == Action::"call_tool", resource == Prompt::"x");"#,
                "action",
            ),
            (
                r"permit(principal, action, resource) when { resource has readOnlyHnt };",
                "readOnlyHnt",
            ),
            (
                r#"permit(principal, action, resource) when { context.clam_email == "a" };"#,
                "clam_email",
            ),
        ] {
            let found = errors(policy);
            assert_eq!(found.len(), 1, "{policy}: {found:?}");
            assert!(found[0].contains(words), "{policy}: {found:?}");
        }
        let two = "permit(principal, action, resource);\npermit(principal in Grup::\"eng\", action, resource);";
        assert!(errors(two)[0].starts_with("policies[0], line 2: "), "{:?}", errors(two));
    }

    #[test]
    fn reports_other_servers() {
        let policies = [
            r#"permit(principal, action, resource in MCP::"gate");"#,
            r#"permit(principal, action, resource in MCP::"gat");"#,
        ];
        let cedar = Cedar::new("gate", &policies, "").unwrap();
        assert_eq!(cedar.check_names(&policies), []);
        assert_eq!(cedar.foreign_servers(), [(1, "gat".to_owned())]);
    }

    #[test]
    fn lists_items_of_policies_once() {
        let policies = [
            r#"forbid(principal, action, resource == Tool::"x") unless { resource == Tool::"x" };"#,
            r#"permit(principal, action, resource) when { resource in [Tool::"x", Prompt::"p"] };"#,
        ];
        let named = Cedar::new("gate", &policies, "").unwrap().named_items();
        let named: Vec<_> =
            named.iter().map(|it| (it.index, it.is_forbid, it.kind, &*it.name)).collect();
        assert_eq!(
            named,
            [
                (0, true, ItemKind::Tool, "x"),
                (1, false, ItemKind::Tool, "x"),
                (1, false, ItemKind::Prompt, "p")
            ]
        );
    }
}
