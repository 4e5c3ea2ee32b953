//! Fields of an object: reading them from a tree, and describing them in the schema.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{ConfigValue, Constraint, Rule, cel, description, to_camel_case};
use crate::{
    context::Context,
    error::{ConfigError, UNKNOWN_KEY},
    suggest::nearest,
    tree::{Entry, Node, NodeKind},
};

/// The keys of one object, taken one by one.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    node: &'a Node,
    /// Keys with `""` that are equivalent to absent ones.
    empty: Vec<std::borrow::Cow<'static, str>>,
    known: Vec<std::borrow::Cow<'static, str>>,
}

/// The schema of one object, described field by field.
#[derive(Debug)]
pub(crate) struct ObjectSchema {
    properties: Map<String, Value>,
    required: Vec<String>,
    description: String,
}

// === impl Fields ===

impl<'a> Fields<'a> {
    pub(crate) fn open(node: &'a Node, cx: &mut Context) -> Option<Self> {
        if matches!(node.kind, NodeKind::Map(_)) || cx.is_lossy() {
            return Some(Self { node, empty: Vec::new(), known: Vec::new() });
        }
        cx.reject_as(node, node.describe(), "a map", None);
        None
    }

    pub(crate) fn take<T: ConfigValue>(
        &mut self,
        field: &'static str,
        default: Option<T>,
        constraints: &[Constraint],
        cx: &mut Context,
    ) -> Option<T> {
        let key = to_camel_case(field);
        let given = self.node.get(&key);
        if empty_is_absent(default.as_ref()) && given.and_then(Node::text) == Some("") {
            self.empty.push(key.clone());
            self.known.push(key);
            return default.or_else(T::default_value);
        }
        let value = match given {
            Some(value) if value.is_null() && default.is_none() && T::default_value().is_none() => {
                cx.at_key(&key, |cx| cx.reject(value, "a value (the key is required)"));
                None
            }
            Some(value) if cx.is_lossy() => {
                let read = cx.at_key(&key, |cx| read_constrained(value, constraints, cx));
                read.or(default).or_else(T::default_value)
            }
            Some(value) => cx.at_key(&key, |cx| read_constrained(value, constraints, cx)),
            None => default.or_else(T::default_value).or_else(|| {
                cx.at_key(&key, |cx| {
                    cx.reject_as(self.node, "no value", "a value (the key is required)", None);
                });
                None
            }),
        };
        self.known.push(key);
        if value.is_none() && cx.is_lossy() { T::placeholder() } else { value }
    }

    /// Reports unknown keys and violated rules.
    pub(crate) fn finish(self, rules: &[Rule], cx: &mut Context) {
        if let NodeKind::Map(entries) = &self.node.kind {
            self.reject_unknown_keys(entries, rules, cx);
        }
        for rule in rules {
            rule.check(self.node, &self.empty, cx);
        }
    }

    fn reject_unknown_keys(&self, entries: &[Entry], rules: &[Rule], cx: &mut Context) {
        let mut known: Vec<&str> = self.known.iter().map(AsRef::as_ref).collect();
        known.sort_unstable();
        // A key that is there already is the less likely meaning of a misspelt one.
        let (present, absent): (Vec<&str>, Vec<&str>) =
            known.iter().partition(|key| self.node.get(key).is_some());
        for Entry { key, line, value, is_merge_key } in entries {
            let elsewhere = |rule: &Rule| matches!(rule, Rule::Moved(other, _) if other == key);
            if known.contains(&key.as_str()) || *is_merge_key || rules.iter().any(elsewhere) {
                continue;
            }
            let mut error = ConfigError {
                path: String::new(),
                line: line.or(value.line),
                found: UNKNOWN_KEY.to_owned(),
                allowed: String::new(),
                suggestion: None,
            };
            if !cx.is_full() {
                error.allowed = known.join(", ");
                error.suggestion = nearest(key, absent.iter().copied())
                    .or_else(|| nearest(key, present.iter().copied()))
                    .map(ToOwned::to_owned);
            }
            cx.at_key(key, |cx| cx.report(error));
        }
    }
}

/// Returns `true` if `""` is equivalent to an absent key: for text with a default or optional text.
fn empty_is_absent<T: ConfigValue>(default: Option<&T>) -> bool {
    T::empty_is_absent() || (T::is_free_text() && default.is_some())
}

/// Reads a value and checks its constraints.
fn read_constrained<T: ConfigValue>(
    value: &Node,
    constraints: &[Constraint],
    cx: &mut Context,
) -> Option<T> {
    let range = constraints.iter().find_map(|constraint| match constraint {
        Constraint::Range(least, most) => Some((*least, *most)),
        _ => None,
    });
    let read = cx.with_range(range, |cx| T::read(value, cx))?;
    let mut good = true;
    for constraint in constraints {
        good = good && constraint.check(value, T::is_secret(), cx);
    }
    good.then_some(read)
}

// === impl ObjectSchema ===

impl ObjectSchema {
    pub(crate) fn new(docs: &[&str]) -> Self {
        Self { properties: Map::new(), required: Vec::new(), description: description(docs) }
    }

    pub(crate) fn field<T: ConfigValue>(
        &mut self,
        generator: &mut SchemaGenerator,
        field: &'static str,
        docs: &[&str],
        default: Option<T>,
        constraints: &[Constraint],
    ) {
        if T::is_never() {
            return;
        }
        let key = to_camel_case(field).into_owned();
        if default.is_none() && T::default_value().is_none() {
            self.required.push(key.clone());
        }
        let mut schema = T::field_schema(generator);
        let object = schema.ensure_object();
        for constraint in constraints {
            constraint.describe(object);
        }
        // Plain text takes `""` anyway.
        let is_plain = object.len() == 1 && object.get("type") == Some(&json!("string"));
        if empty_is_absent(default.as_ref()) && !is_plain {
            let inner = Value::Object(std::mem::take(object));
            object.insert("anyOf".to_owned(), json!([inner, { "const": "" }]));
        }
        object.insert("description".to_owned(), json!(description(docs)));
        // The default of a section is what its own fields say.
        let default = default
            .map(|default| serde_json::to_value(default).expect("defaults are serializable"));
        if let Some(default) = default.filter(|default| !default.is_object()) {
            object.insert("default".to_owned(), default);
        }
        self.properties.insert(key, schema.to_value());
    }

    pub(crate) fn finish(mut self, rules: &[Rule]) -> Schema {
        let mut object = Map::new();
        for rule in rules {
            cel::append(&mut object, rule.validations(&self.properties));
            rule.describe_list(&mut self.properties);
        }
        object.insert("type".to_owned(), json!("object"));
        object.insert("description".to_owned(), json!(self.description));
        object.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            object.insert("required".to_owned(), json!(self.required));
        }
        object.insert("additionalProperties".to_owned(), json!(false));
        let mut schema = Schema::from(object);
        for rule in rules {
            rule.describe(&mut schema);
        }
        schema
    }
}
