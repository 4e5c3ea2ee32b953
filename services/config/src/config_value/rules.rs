//! Constraints on one value and rules between the keys of one object. Reader and schema use the same data.

use std::borrow::Cow;
use std::collections::HashSet;

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::word_list::{join_list, quoted};
use crate::{
    context::Context,
    decimal::Decimal,
    duration::Duration,
    patterns::Pattern,
    tree::{Node, NodeKind, shorten},
};

/// Constraint on one value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constraint {
    /// Whole numbers, inclusive.
    Range(i64, i64),
    /// Text of at least one character.
    NotEmpty,
    /// Characters of a text.
    MaxLength(usize),
    /// Text, or each text of a list.
    Matches(&'static Pattern),
    /// Items of a list or entries of a map, inclusive.
    MinItems(usize),
    MaxItems(usize),
    /// Constraint on each item of a list.
    EachNotEmpty,
    EachMatches(&'static Pattern),
    /// A decimal number, inclusive.
    AtMost(f64),
    /// A duration, or each one of a map.
    Positive,
    /// A duration, inclusive.
    AtLeast(Duration),
}

/// A rule between the keys of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// Discriminating key `tag`, whose value determines which other keys are required and which are forbidden.
    Variants { tag: &'static str, default: Option<&'static str>, variants: &'static [Variant] },
    /// At most one of the keys.
    AtMostOne(&'static [&'static str]),
    /// Exactly one of the keys.
    ExactlyOne(&'static [&'static str]),
    /// Exactly one of the keys if the first key has this value. Others forbid the keys by [`Self::Variants`].
    ExactlyOneWith(&'static str, &'static str, &'static [&'static str]),
    /// One of the keys or more.
    AtLeastOne(&'static [&'static str]),
    /// The first key only together with the second.
    Requires(&'static str, &'static str),
    /// In the list under the first key, no two items have the same text under the second.
    Unique(&'static str, &'static str),
    /// Key that does not belong here, and the key to use instead.
    Moved(&'static str, &'static str),
    /// Rule in CEL and its message, of which the API server of Kubernetes alone reads this form: the check of the
    /// section or of the conversion is the same.
    Cel(&'static str, &'static str),
    /// Custom rule. It checks the tree, so it also runs on documents with other errors.
    Custom(fn(&Node, &mut Context)),
}

/// Requirements that one value of a discriminating key imposes on other keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) value: &'static str,
    pub(crate) requires: &'static [&'static str],
    pub(crate) forbids: &'static [&'static str],
}

// === impl Constraint ===

impl Constraint {
    /// Reports an error and returns `false` if `node` violates the constraint. The reader handles values of another type.
    pub(crate) fn check(self, node: &Node, secret: bool, cx: &mut Context) -> bool {
        let broken = match (self, &node.kind) {
            (Self::Range(least, most), NodeKind::Plain(_)) => {
                node.to_json().as_f64().is_some_and(|n| n < as_f64(least) || n > as_f64(most))
            }
            (Self::NotEmpty, NodeKind::Text(text)) => text.is_empty(),
            (Self::MaxLength(most), NodeKind::Text(text) | NodeKind::Plain(text)) => {
                text.chars().nth(most).is_some()
            }
            (Self::Matches(pattern), NodeKind::Text(text) | NodeKind::Plain(text)) => {
                !pattern.matches(text)
            }
            (Self::AtMost(most), NodeKind::Text(text)) => {
                text.parse::<Decimal>().is_ok_and(|decimal| decimal.get() > most)
            }
            (Self::Positive, NodeKind::Text(text) | NodeKind::Plain(text)) => {
                text.parse::<Duration>().is_ok_and(Duration::is_zero)
            }
            (Self::AtLeast(least), NodeKind::Text(text) | NodeKind::Plain(text)) => {
                text.parse::<Duration>().is_ok_and(|duration| duration < least)
            }
            (Self::Positive, NodeKind::Map(entries)) => {
                let mut good = true;
                for entry in entries {
                    good &= cx.at_key(&entry.key, |cx| self.check(&entry.value, secret, cx));
                }
                return good;
            }
            (Self::MinItems(least), NodeKind::List(items)) => items.len() < least,
            (Self::MinItems(least), NodeKind::Map(entries)) => entries.len() < least,
            (Self::MaxItems(most), NodeKind::List(items)) => items.len() > most,
            (Self::MaxItems(most), NodeKind::Map(entries)) => entries.len() > most,
            (Self::EachNotEmpty | Self::EachMatches(_), NodeKind::List(items)) => {
                let constraint = self.of_item();
                let mut good = true;
                for (index, item) in items.iter().enumerate() {
                    good &= cx.at_index(index, |cx| constraint.check(item, secret, cx));
                }
                return good;
            }
            _ => false,
        };
        if broken {
            let found = if secret { node.describe_kind().to_owned() } else { Self::found(node) };
            cx.reject_as(node, found, self.allowed(), None);
        }
        !broken
    }

    fn of_item(self) -> Self {
        match self {
            Self::EachNotEmpty => Self::NotEmpty,
            Self::EachMatches(pattern) => Self::Matches(pattern),
            other => other,
        }
    }

    fn found(node: &Node) -> String {
        match &node.kind {
            NodeKind::List(items) => format!("{} {}", items.len(), entries(items.len())),
            NodeKind::Map(map) => format!("{} {}", map.len(), entries(map.len())),
            NodeKind::Text(_) | NodeKind::Plain(_) => node.describe(),
        }
    }

    pub(crate) fn allowed(self) -> String {
        match self {
            Self::Range(least, i64::MAX) => format!("an integer of at least {least}"),
            Self::Range(least, most) => format!("an integer from {least} to {most}"),
            Self::NotEmpty => "non-empty text".to_owned(),
            Self::MaxLength(most) => format!("at most {most} characters"),
            Self::Matches(pattern) => pattern.meaning.to_owned(),
            Self::MinItems(least) => format!("at least {least} {}", entries(least)),
            Self::MaxItems(most) => format!("at most {most} {}", entries(most)),
            Self::EachNotEmpty | Self::EachMatches(_) => self.of_item().allowed(),
            Self::AtMost(most) => format!("a decimal number from 0 to {most}"),
            Self::Positive => "a duration of more than 0s".to_owned(),
            Self::AtLeast(least) => format!("a duration of at least {least}"),
        }
    }

    pub(crate) fn describe(self, schema: &mut Map<String, Value>) {
        let of_map = schema.get("type") == Some(&json!("object"));
        match self {
            Self::Range(least, most) => {
                schema.insert("minimum".to_owned(), json!(least));
                if most != i64::MAX {
                    schema.insert("maximum".to_owned(), json!(most));
                }
            }
            Self::NotEmpty => {
                schema.insert("minLength".to_owned(), json!(1));
            }
            Self::MaxLength(most) => {
                schema.insert("maxLength".to_owned(), json!(most));
            }
            Self::Matches(pattern) => {
                schema.insert("pattern".to_owned(), json!(pattern.regex));
            }
            Self::MinItems(least) => {
                let key = if of_map { "minProperties" } else { "minItems" };
                schema.insert(key.to_owned(), json!(least));
            }
            Self::MaxItems(most) => {
                let key = if of_map { "maxProperties" } else { "maxItems" };
                schema.insert(key.to_owned(), json!(most));
            }
            // A regular expression for these constraints would not be readable.
            Self::AtMost(_) | Self::Positive | Self::AtLeast(_) => {
                super::cel::append(schema, self.validations(of_map));
            }
            Self::EachNotEmpty | Self::EachMatches(_) => {
                if let Some(Value::Object(items)) = schema.get_mut("items") {
                    self.of_item().describe(items);
                }
            }
        }
    }
}

#[allow(clippy::cast_precision_loss)] // Limits are small; only their comparison with a document's number matters.
fn as_f64(number: i64) -> f64 {
    number as f64
}

// === impl Rule ===

impl Rule {
    /// Checks the keys of `node`. Keys in `empty` count as absent.
    pub(crate) fn check(&self, node: &Node, empty: &[Cow<'static, str>], cx: &mut Context) {
        let given = |key: &str| node.get(key).is_some() && !empty.iter().any(|empty| empty == key);
        let present = |keys: &[&'static str]| -> Vec<&'static str> {
            keys.iter().copied().filter(|key| given(key)).collect()
        };
        match self {
            Self::Variants { tag, default, variants } => {
                check_variants(node, &given, cx, tag, *default, variants);
            }
            Self::AtMostOne(keys) | Self::ExactlyOne(keys) if present(keys).len() > 1 => {
                let second = present(keys)[1];
                let found = format!("{} together", join_list(&present(keys), "and"));
                cx.reject_key(
                    node,
                    second,
                    found,
                    format!("only one of {}", join_list(keys, "and")),
                );
            }
            Self::ExactlyOne(keys) | Self::AtLeastOne(keys) if present(keys).is_empty() => {
                let found = format!("neither {}", join_list(keys, "nor"));
                let count =
                    if matches!(self, Self::ExactlyOne(_)) { "exactly" } else { "at least" };
                cx.reject_as(node, found, format!("{count} one of them"), None);
            }
            Self::ExactlyOneWith(tag, value, keys) => {
                if node.get(tag).and_then(Node::text) == Some(value) {
                    Self::ExactlyOne(keys).check(node, empty, cx);
                }
            }
            Self::Requires(key, other) if given(key) && !given(other) => {
                cx.reject_key(
                    node,
                    key,
                    format!("{key} without {other}"),
                    format!("{key} only together with {other}"),
                );
            }
            Self::Unique(key, name) => check_unique(node, key, name, cx),
            Self::Moved(key, place) if node.get(key).is_some() => {
                cx.reject_key(node, key, "a key that does not belong here", *place);
            }
            Self::Custom(check) => check(node, cx),
            Self::AtMostOne(_)
            | Self::ExactlyOne(_)
            | Self::AtLeastOne(_)
            | Self::Requires(..)
            | Self::Cel(..)
            | Self::Moved(..) => {}
        }
    }

    pub(crate) fn describe(&self, schema: &mut Schema) {
        let needs = |key: &&str| given(key);
        let pairwise_exclusive = |keys: &[&str]| -> Vec<Value> {
            let mut pairs = Vec::new();
            for (index, left) in keys.iter().enumerate() {
                for right in &keys[index + 1..] {
                    pairs.push(json!({ "not": { "allOf": [given(left), given(right)] } }));
                }
            }
            pairs
        };
        let mut all = Vec::new();
        match self {
            Self::Variants { tag, default, variants } => {
                let has_requirements = |variant: &&Variant| {
                    !variant.requires.is_empty() || !variant.forbids.is_empty()
                };
                let constrained = variants.iter().filter(has_requirements);
                all.extend(constrained.map(|variant| describe_variant(tag, *default, variant)));
            }
            Self::AtMostOne(keys) => all.extend(pairwise_exclusive(keys)),
            Self::ExactlyOne(keys) => {
                all.extend(pairwise_exclusive(keys));
                all.push(json!({ "anyOf": keys.iter().map(needs).collect::<Vec<_>>() }));
            }
            Self::ExactlyOneWith(tag, value, keys) => {
                let mut then = pairwise_exclusive(keys);
                then.push(json!({ "anyOf": keys.iter().map(needs).collect::<Vec<_>>() }));
                let when =
                    json!({ "properties": { (*tag): { "const": value } }, "required": [tag] });
                all.push(json!({ "if": when, "then": { "allOf": then } }));
            }
            Self::AtLeastOne(keys) => {
                all.push(json!({ "anyOf": keys.iter().map(needs).collect::<Vec<_>>() }));
            }
            Self::Requires(key, other) => {
                all.push(json!({ "if": given(key), "then": given(other) }));
            }
            // A schema cannot compare items; an unknown key it refuses anyway.
            Self::Unique(..) | Self::Moved(..) | Self::Cel(..) | Self::Custom(_) => {}
        }
        if all.is_empty() {
            return;
        }
        let object = schema.ensure_object();
        match object.get_mut("allOf") {
            Some(Value::Array(present)) => present.extend(all),
            _ => {
                object.insert("allOf".to_owned(), Value::Array(all));
            }
        }
    }
}

fn check_unique(node: &Node, key: &str, name: &str, cx: &mut Context) {
    let Some(Node { kind: NodeKind::List(items), .. }) = node.get(key) else { return };
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let Some(value) = item.get(name).and_then(Node::text) else { continue };
        if !seen.insert(value) {
            let found = format!("the duplicate value \"{}\"", shorten(value));
            cx.at_key(key, |cx| {
                cx.at_index(index, |cx| {
                    cx.reject_key(item, name, found, "a value that no other entry has");
                });
            });
        }
    }
}

fn check_variants(
    node: &Node,
    given: &impl Fn(&str) -> bool,
    cx: &mut Context,
    tag: &'static str,
    default: Option<&'static str>,
    variants: &[Variant],
) {
    let chosen = match node.get(tag) {
        Some(value) => value.text(),
        None => default,
    };
    // A missing or misspelt tag is reported by its own reader.
    let Some(chosen) = chosen else { return };
    let Some(variant) = variants.iter().find(|variant| variant.value == chosen) else { return };
    for key in variant.requires {
        if !given(key) {
            let allowed = format!("a value (required with {tag}: {chosen})");
            cx.at_key(key, |cx| cx.reject_as(node, "no value", allowed, None));
        }
    }
    for key in variant.forbids {
        if given(key) {
            let others: Vec<_> = variants
                .iter()
                .filter(|other| !other.forbids.contains(key))
                .map(|other| other.value)
                .collect();
            let found = format!("{key} with {tag}: {}", quoted(chosen));
            cx.reject_key(
                node,
                key,
                found,
                format!("{key} only with {tag}: {}", join_list(&others, "or")),
            );
        }
    }
}

fn describe_variant(tag: &str, default: Option<&str>, variant: &Variant) -> Value {
    let mut when = json!({ "properties": { (tag): { "const": variant.value } } });
    if default != Some(variant.value) {
        when["required"] = json!([tag]);
    }
    let needed = variant.requires.iter().map(|key| given(key));
    let refused = variant.forbids.iter().map(|key| json!({ "not": given(key) }));
    let then: Vec<_> = needed.chain(refused).collect();
    json!({ "if": when, "then": { "allOf": then } })
}

/// Returns the schema of an object in which `key` has a value. For optional text, `""` is not a value.
fn given(key: &str) -> Value {
    json!({ "required": [key], "properties": { (key): { "not": { "const": "" } } } })
}

fn entries(count: usize) -> &'static str {
    if count == 1 { "entry" } else { "entries" }
}
