//! Constraints and rules in CEL, for the API server of Kubernetes (`x-kubernetes-validations`).
//!
//! The JSON Schema of an editor expresses the same with `if` and `not`, which structural schemas of Kubernetes exclude.

use serde_json::{Map, Value, json};

use super::{Constraint, Rule, Variant, word_list::join_list};

/// Keyword of CEL rules in a schema.
pub(crate) const VALIDATIONS: &str = "x-kubernetes-validations";

/// Prefix of the keywords that only Kubernetes reads.
pub(crate) const KUBERNETES: &str = "x-kubernetes-";

/// Appends CEL rules to the schema of the value that they hold for.
pub(crate) fn append(schema: &mut Map<String, Value>, rules: Vec<Value>) {
    if rules.is_empty() {
        return;
    }
    match schema.get_mut(VALIDATIONS) {
        Some(Value::Array(present)) => present.extend(rules),
        _ => {
            schema.insert(VALIDATIONS.to_owned(), Value::Array(rules));
        }
    }
}

fn rule(rule: impl Into<String>, message: impl Into<String>) -> Value {
    json!({ "rule": rule.into(), "message": message.into() })
}

// === impl Constraint ===

impl Constraint {
    /// Returns the rules for what keywords of a schema cannot express.
    pub(crate) fn validations(self, of_map: bool) -> Vec<Value> {
        let allowed = format!("must be {}", self.allowed());
        match self {
            Self::Positive if of_map => {
                vec![rule("self.all(key, duration(self[key]) > duration('0s'))", allowed)]
            }
            Self::Positive => vec![rule("duration(self) > duration('0s')", allowed)],
            Self::AtLeast(least) => {
                vec![rule(format!("duration(self) >= duration('{least}')"), allowed)]
            }
            Self::AtMost(most) => vec![rule(format!("double(self) <= {most:.1}"), allowed)],
            Self::Range(..)
            | Self::NotEmpty
            | Self::MaxLength(_)
            | Self::Matches(_)
            | Self::MinItems(_)
            | Self::MaxItems(_)
            | Self::EachNotEmpty
            | Self::EachMatches(_) => Vec::new(),
        }
    }
}

// === impl Rule ===

impl Rule {
    /// Returns the rule in CEL, given the schemas of the object's keys.
    pub(crate) fn validations(&self, properties: &Map<String, Value>) -> Vec<Value> {
        let given = |key: &&str| given(properties, key);
        let any = |keys: &[&str]| keys.iter().map(given).collect::<Vec<_>>().join(" || ");
        match self {
            Self::Variants { tag, default, variants } => {
                variant_rules(properties, tag, *default, variants)
            }
            Self::AtMostOne(keys) => exclusions(properties, keys),
            Self::ExactlyOne(keys) => {
                let mut rules = exclusions(properties, keys);
                rules.push(rule(
                    any(keys),
                    format!("one of {} is required", join_list(keys, "and")),
                ));
                rules
            }
            Self::AtLeastOne(keys) => {
                vec![rule(
                    any(keys),
                    format!("at least one of {} is required", join_list(keys, "and")),
                )]
            }
            Self::ExactlyOneWith(tag, value, keys) => {
                let mut rules = exclusions(properties, keys);
                rules.push(rule(
                    format!("self.{tag} != '{value}' || {}", any(keys)),
                    format!("one of {} is required with {tag}: {value}", join_list(keys, "and")),
                ));
                rules
            }
            Self::Requires(key, other) => {
                let text = format!("!({}) || ({})", given(key), given(other));
                vec![rule(text, format!("{key} only together with {other}"))]
            }
            Self::Cel(text, message) => vec![rule(*text, *message)],
            // The type of the list says so; a schema without the key refuses it.
            Self::Unique(..) | Self::Moved(..) | Self::Custom(_) => Vec::new(),
        }
    }

    /// Makes a list of which one key is unique a map of Kubernetes by that key.
    pub(crate) fn describe_list(&self, properties: &mut Map<String, Value>) {
        let Self::Unique(list, key) = self else { return };
        if let Some(Value::Object(list)) = properties.get_mut(*list) {
            list.insert(format!("{KUBERNETES}list-type"), json!("map"));
            list.insert(format!("{KUBERNETES}list-map-keys"), json!([key]));
        }
    }
}

fn variant_rules(
    properties: &Map<String, Value>,
    tag: &str,
    default: Option<&str>,
    variants: &[Variant],
) -> Vec<Value> {
    // The API server writes a default into the object, but an empty one is none.
    let value = match default {
        Some("") => format!("(has(self.{tag}) ? self.{tag} : '')"),
        Some(_) | None => format!("self.{tag}"),
    };
    let mut rules = Vec::new();
    for variant in variants {
        for key in variant.requires {
            let text = format!("{value} != '{}' || ({})", variant.value, given(properties, key));
            rules.push(rule(text, format!("{key} is required with {tag}: {}", variant.value)));
        }
    }
    let mut forbidden: Vec<&str> = Vec::new();
    for key in variants.iter().flat_map(|variant| variant.forbids) {
        if !forbidden.contains(key) {
            forbidden.push(key);
        }
    }
    for key in forbidden {
        let allowed: Vec<_> = variants
            .iter()
            .filter(|variant| !variant.forbids.contains(&key))
            .map(|variant| variant.value)
            .collect();
        let condition: Vec<_> =
            allowed.iter().map(|allowed| format!("{value} == '{allowed}'")).collect();
        let text = format!("!({}) || {}", given(properties, key), condition.join(" || "));
        rules.push(rule(text, format!("{key} only with {tag}: {}", join_list(&allowed, "or"))));
    }
    rules
}

fn exclusions(properties: &Map<String, Value>, keys: &[&str]) -> Vec<Value> {
    let mut rules = Vec::new();
    for (index, left) in keys.iter().enumerate() {
        for right in &keys[index + 1..] {
            let text = format!("!({} && {})", given(properties, left), given(properties, right));
            rules.push(rule(text, format!("only one of {}", join_list(&[left, right], "and"))));
        }
    }
    rules
}

/// Returns the condition that `key` has a value: optional text without a format may be `""`, a list `[]`.
fn given(properties: &Map<String, Value>, key: &str) -> String {
    let schema = properties.get(key);
    let plain = schema.is_some_and(|schema| {
        let text = schema.get("anyOf").and_then(|any| any.get(0)).unwrap_or(schema);
        text.get("type") == Some(&json!("string"))
            && text.get("pattern").is_none()
            && text.get("enum").is_none()
    });
    let list = schema.is_some_and(|schema| schema.get("type") == Some(&json!("array")));
    if plain {
        format!("has(self.{key}) && self.{key} != ''")
    } else if list {
        format!("has(self.{key}) && size(self.{key}) > 0")
    } else {
        format!("has(self.{key})")
    }
}
