//! Readers of values without fields: text, numbers, durations, lists, maps.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use url::Url;

use super::{ConfigValue, Constraint, deserialize, word_list::join_list};
use crate::{
    context::Context,
    decimal::Decimal,
    duration::{Duration, DurationError},
    patterns,
    suggest::nearest,
    tree::{Node, NodeKind, ScalarValue, resolve, shorten},
};

/// Returns the text of `node`. Reports any other value, and suggests quotes for numbers and booleans.
pub(crate) fn text<'a>(node: &'a Node, secret: bool, cx: &mut Context) -> Option<&'a str> {
    if let Some(text) = node.text() {
        return Some(text);
    }
    let found = if secret { node.describe_kind().to_owned() } else { node.describe() };
    match &node.kind {
        NodeKind::Plain(plain) if resolve(plain) != ScalarValue::Null => {
            let suggestion = (!secret).then(|| format!("\"{}\"", shorten(plain)));
            cx.reject_as(
                node,
                found,
                "text; put quotes around a number or boolean to make it text",
                suggestion,
            );
        }
        NodeKind::Plain(_) => cx.reject_as(node, found, "text, or no key at all", None),
        NodeKind::Text(_) | NodeKind::List(_) | NodeKind::Map(_) => {
            cx.reject_as(node, found, "text", None);
        }
    }
    None
}

/// Reports a value that is not one of `words`.
pub(crate) fn reject_keyword(node: &Node, words: &[&str], cx: &mut Context) {
    let suggestion = node.text().and_then(|text| nearest(text, words.iter().copied()));
    cx.reject_as(node, node.describe(), join_list(words, "or"), suggestion.map(ToOwned::to_owned));
}

impl ConfigValue for bool {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        if let NodeKind::Plain(text) = &node.kind
            && let ScalarValue::Bool(value) = resolve(text)
        {
            return Some(value);
        }
        let suggestion = match node.text().map(str::to_lowercase).as_deref() {
            Some("yes" | "on" | "true" | "y") => Some("true".to_owned()),
            Some("no" | "off" | "false" | "n") => Some("false".to_owned()),
            _ => None,
        };
        cx.reject_as(node, node.describe(), "true or false", suggestion);
        None
    }

    fn placeholder() -> Option<Self> {
        Some(false)
    }
}

impl ConfigValue for u32 {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let value = match &node.kind {
            NodeKind::Plain(text) => match resolve(text) {
                ScalarValue::Number(number) => whole(&number),
                ScalarValue::Null
                | ScalarValue::Bool(_)
                | ScalarValue::NotFinite
                | ScalarValue::Text => None,
            },
            NodeKind::Text(_) | NodeKind::List(_) | NodeKind::Map(_) => None,
        };
        if value.is_none() {
            let allowed = match cx.range() {
                Some((least, most)) => Constraint::Range(least, most).allowed(),
                None => format!("an integer from 0 to {}", u32::MAX),
            };
            cx.reject(node, allowed);
        }
        value
    }

    fn placeholder() -> Option<Self> {
        Some(1)
    }

    fn field_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
    }
}

/// Converts to an integer. `8.0` is one, as in JSON Schema.
fn whole(number: &serde_json::Number) -> Option<u32> {
    if let Some(value) = number.as_u64() {
        return u32::try_from(value).ok();
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    if !(0.0..=f64::from(u32::MAX)).contains(&value) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // The range was checked above.
    Some(value as u32)
}

impl ConfigValue for String {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        text(node, false, cx).map(ToOwned::to_owned)
    }

    fn is_free_text() -> bool {
        true
    }

    fn is_text() -> bool {
        true
    }

    fn placeholder() -> Option<Self> {
        Some("placeholder".to_owned())
    }
}

impl ConfigValue for Url {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let text = text(node, false, cx)?;
        let allowed = "an absolute http:// or https:// URL with a host, without user and password";
        match Url::parse(text) {
            Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                cx.reject_as(node, "a URL with user or password", allowed, None);
                None
            }
            Ok(url) if patterns::HTTP.matches(text) && url.has_host() => Some(url),
            Ok(_) => {
                cx.reject(node, allowed);
                None
            }
            Err(error) => {
                // The part before an @ may be a password.
                let found = if text.contains('@') { "a URL with an @" } else { &node.describe() };
                cx.reject_as(node, format!("{found} ({error})"), allowed, None);
                None
            }
        }
    }

    fn is_text() -> bool {
        true
    }

    fn placeholder() -> Option<Self> {
        Url::parse("https://placeholder.invalid").ok()
    }

    fn field_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "uri", "pattern": patterns::HTTP.regex })
    }
}

impl ConfigValue for Decimal {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let text = text(node, false, cx)?;
        let value = text.parse().ok();
        if value.is_none() {
            cx.reject(node, patterns::DECIMAL.meaning);
        }
        value
    }

    fn is_text() -> bool {
        true
    }
}

impl<'de> serde::Deserialize<'de> for Decimal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl ConfigValue for Duration {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        // A bare number is the likely error, and its unit cannot be guessed.
        let Some(text) = node.text() else {
            cx.reject(node, patterns::DURATION.meaning);
            return None;
        };
        match text.parse() {
            Ok(duration) => Some(duration),
            Err(DurationError::Format) => {
                cx.reject(node, patterns::DURATION.meaning);
                None
            }
            Err(error @ DurationError::TooLong) => {
                cx.reject_as(
                    node,
                    format!("{}, which is {error}", node.describe()),
                    patterns::DURATION.meaning,
                    None,
                );
                None
            }
        }
    }

    fn is_text() -> bool {
        true
    }

    fn placeholder() -> Option<Self> {
        Some(Self::from_secs(1))
    }
}

impl<'de> serde::Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

/// Any JSON value.
impl ConfigValue for Value {
    fn read(node: &Node, _: &mut Context) -> Option<Self> {
        Some(node.to_json())
    }
}

/// A JSON object of any content.
impl ConfigValue for serde_json::Map<String, Value> {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let Value::Object(map) = node.to_json() else {
            cx.reject(node, "a map");
            return None;
        };
        Some(map)
    }

    fn field_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

impl<T: ConfigValue> ConfigValue for Option<T> {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        T::read(node, cx).map(Some)
    }

    fn empty_is_absent() -> bool {
        T::is_text()
    }

    fn default_value() -> Option<Self> {
        Some(None)
    }

    fn is_omitted(&self) -> bool {
        self.is_none()
    }

    fn is_never() -> bool {
        T::is_never()
    }

    fn is_secret() -> bool {
        T::is_secret()
    }

    fn field_schema(generator: &mut SchemaGenerator) -> Schema {
        T::field_schema(generator)
    }
}

impl<T: ConfigValue> ConfigValue for Box<T> {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        T::read(node, cx).map(Box::new)
    }

    fn placeholder() -> Option<Self> {
        T::placeholder().map(Box::new)
    }

    fn field_schema(generator: &mut SchemaGenerator) -> Schema {
        T::field_schema(generator)
    }
}

/// Reads an item. In lossy mode, a placeholder replaces an invalid item, so that the indexes of the other items stay
/// correct.
fn read_or_replace<T: ConfigValue>(item: &Node, cx: &mut Context) -> Option<T> {
    T::read(item, cx).or_else(|| if cx.is_lossy() { T::placeholder() } else { None })
}

impl<T: ConfigValue> ConfigValue for Vec<T> {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let NodeKind::List(items) = &node.kind else {
            let found =
                if T::is_secret() { node.describe_kind().to_owned() } else { node.describe() };
            cx.reject_as(node, found, "a list", None);
            return None;
        };
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| cx.at_index(index, |cx| read_or_replace(item, cx)))
            .collect();
        read.into_iter().collect()
    }

    fn placeholder() -> Option<Self> {
        Some(Vec::new())
    }

    fn is_secret() -> bool {
        T::is_secret()
    }

    fn field_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": T::field_schema(generator) })
    }
}

impl<T: ConfigValue> ConfigValue for BTreeMap<String, T> {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let NodeKind::Map(entries) = &node.kind else {
            let found =
                if T::is_secret() { node.describe_kind().to_owned() } else { node.describe() };
            cx.reject_as(node, found, "a map", None);
            return None;
        };
        let read: Vec<Option<(String, T)>> = entries
            .iter()
            .map(|entry| {
                let value = cx.at_key(&entry.key, |cx| read_or_replace(&entry.value, cx))?;
                Some((entry.key.clone(), value))
            })
            .collect();
        read.into_iter().collect()
    }

    fn placeholder() -> Option<Self> {
        Some(BTreeMap::new())
    }

    fn is_secret() -> bool {
        T::is_secret()
    }

    fn field_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": T::field_schema(generator) })
    }
}
