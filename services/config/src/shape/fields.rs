//! The two sides of an object: taking its keys from a tree, and describing them in the schema.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{Limit, Rule, Shape, camel, description};
use crate::{
    context::Context,
    suggest::nearest,
    tree::{Kind, Node},
};

/// The keys of one object, taken one by one.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    node: &'a Node,
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
        if matches!(node.kind, Kind::Map(_)) {
            return Some(Self { node, known: Vec::new() });
        }
        cx.refuse_as(node, node.describe(), "a map", None);
        None
    }

    pub(crate) fn take<T: Shape>(
        &mut self,
        field: &'static str,
        default: Option<T>,
        limits: &[Limit],
        cx: &mut Context,
    ) -> Option<T> {
        let key = camel(field);
        let value = match self.node.get(&key) {
            Some(value) => cx.at_key(&key, |cx| {
                let read = T::read(value, cx)?;
                let mut good = true;
                for limit in limits {
                    good = good && limit.check(value, T::is_secret(), cx);
                }
                good.then_some(read)
            }),
            None => default.or_else(T::absent).or_else(|| {
                cx.at_key(&key, |cx| {
                    cx.refuse_as(self.node, "nothing", "a value: the key is required", None);
                });
                None
            }),
        };
        self.known.push(key);
        value
    }

    /// Reports keys that no field took, and rules between those that were.
    pub(crate) fn finish(self, rules: &[Rule], cx: &mut Context) {
        if let Kind::Map(entries) = &self.node.kind {
            for entry in entries {
                let elsewhere = rules
                    .iter()
                    .any(|rule| matches!(rule, Rule::Elsewhere(key, _) if *key == entry.key));
                if elsewhere
                    || self.known.iter().any(|known| *known == entry.key)
                    || entry.key == "<<"
                {
                    continue;
                }
                let known = || self.known.iter().map(AsRef::as_ref);
                // A key that is there already is the less likely meaning.
                let suggestion =
                    nearest(&entry.key, known().filter(|key| self.node.get(key).is_none()))
                        .or_else(|| nearest(&entry.key, known()))
                        .map(ToOwned::to_owned);
                let mut known: Vec<&str> = known().collect();
                known.sort_unstable();
                let at =
                    Node { line: entry.line.or(entry.value.line), kind: Kind::List(Vec::new()) };
                let allowed = known.join(", ");
                cx.at_key(&entry.key, |cx| {
                    cx.refuse_as(&at, "an unknown key", allowed, suggestion);
                });
            }
        }
        for rule in rules {
            rule.check(self.node, cx);
        }
    }
}

// === impl ObjectSchema ===

impl ObjectSchema {
    pub(crate) fn new(docs: &[&str]) -> Self {
        Self { properties: Map::new(), required: Vec::new(), description: description(docs) }
    }

    pub(crate) fn field<T: Shape>(
        &mut self,
        generator: &mut SchemaGenerator,
        field: &'static str,
        docs: &[&str],
        default: Option<T>,
        limits: &[Limit],
    ) {
        if T::is_never() {
            return;
        }
        let key = camel(field).into_owned();
        if default.is_none() && T::absent().is_none() {
            self.required.push(key.clone());
        }
        let mut schema = T::field_schema(generator);
        let object = schema.ensure_object();
        object.insert("description".to_owned(), json!(description(docs)));
        // The default of a section is what its own fields say.
        if let Some(default) = default
            && let Ok(value) = serde_json::to_value(&default)
            && !value.is_object()
        {
            object.insert("default".to_owned(), value);
        }
        for limit in limits {
            limit.describe(object);
        }
        self.properties.insert(key, schema.to_value());
    }

    pub(crate) fn finish(self, rules: &[Rule]) -> Schema {
        let mut object = Map::new();
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
