//! Tree of a document: scalars with their exact text, lists, maps, line numbers.
//!
//! YAML and JSON both become this tree, so that fields are read in one way from both formats, and text such as `1.10`
//! or `012` is not converted to a number.

mod json;
mod yaml;

use serde_json::{Number, Value};

pub(crate) use self::{json::parse as parse_json, yaml::parse as parse_yaml};

/// Maximum size of a document, in bytes.
pub(crate) const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum nesting of lists and maps.
pub(crate) const MAX_DEPTH: usize = 64;
/// Maximum number of values in a document, including those that aliases repeat.
pub(crate) const MAX_NODES: usize = 200_000;

/// Value with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub(crate) line: Option<usize>,
    pub(crate) kind: NodeKind,
}

/// Value before the type of its field is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeKind {
    /// Quoted, or a block of text: always text.
    Text(String),
    /// Unquoted: text, number, boolean or null by its spelling.
    Plain(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// Entry of a map. Keys can be duplicate: the reader of a document reports those.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: Option<usize>,
    pub(crate) value: Node,
    /// The key is an unquoted `<<`, by which YAML 1.1 merges maps. A quoted one is a name like others.
    pub(crate) is_merge_key: bool,
}

/// Type of an unquoted scalar in the YAML 1.2 core schema (section 10.3.2).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ScalarValue {
    Null,
    Bool(bool),
    Number(Number),
    /// A number that JSON cannot write: `.inf`, `.nan`.
    NotFinite,
    Text,
}

// === impl Node ===

impl Node {
    /// Returns the text, if this is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text),
            NodeKind::Plain(text) if resolve(text) == ScalarValue::Text => Some(text),
            NodeKind::Plain(_) | NodeKind::List(_) | NodeKind::Map(_) => None,
        }
    }

    /// Returns `true` for null, which is also the value of a key without one.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, NodeKind::Plain(text) if resolve(text) == ScalarValue::Null)
    }

    /// Returns the value of `key`, if this is a map that contains it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.value),
            NodeKind::Text(_) | NodeKind::Plain(_) | NodeKind::List(_) => None,
        }
    }

    /// Converts to JSON, for fields of any type.
    pub(crate) fn to_json(&self) -> Value {
        match &self.kind {
            NodeKind::Text(text) => Value::String(text.clone()),
            NodeKind::Plain(text) => match resolve(text) {
                ScalarValue::Null => Value::Null,
                ScalarValue::Bool(value) => Value::Bool(value),
                ScalarValue::Number(number) => Value::Number(number),
                ScalarValue::NotFinite | ScalarValue::Text => Value::String(text.clone()),
            },
            NodeKind::List(items) => items.iter().map(Node::to_json).collect(),
            NodeKind::Map(entries) => {
                Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.to_json())).collect())
            }
        }
    }

    /// Describes the value for messages, in at most one line.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            NodeKind::Text(text) => format!("\"{}\"", shorten(text)),
            NodeKind::Plain(text) => match resolve(text) {
                ScalarValue::Null => "no value".to_owned(),
                ScalarValue::Bool(_) => format!("the boolean {text}"),
                ScalarValue::Number(_) | ScalarValue::NotFinite => {
                    format!("the number {}", shorten(text))
                }
                ScalarValue::Text => format!("\"{}\"", shorten(text)),
            },
            NodeKind::List(_) | NodeKind::Map(_) => self.describe_kind().to_owned(),
        }
    }

    /// Describes the type of the value, for secrets.
    pub(crate) fn describe_kind(&self) -> &'static str {
        match &self.kind {
            NodeKind::Text(_) => "text",
            NodeKind::Plain(text) => match resolve(text) {
                ScalarValue::Null => "no value",
                ScalarValue::Bool(_) => "a boolean",
                ScalarValue::Number(_) | ScalarValue::NotFinite => "a number",
                ScalarValue::Text => "text",
            },
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a map",
        }
    }
}

/// Resolves the unquoted scalar `text`.
pub(crate) fn resolve(text: &str) -> ScalarValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return ScalarValue::Null,
        "true" | "True" | "TRUE" => return ScalarValue::Bool(true),
        "false" | "False" | "FALSE" => return ScalarValue::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return ScalarValue::NotFinite,
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return ScalarValue::NotFinite;
    }
    let whole = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let radix = |prefix, radix| {
        text.strip_prefix(prefix)
            .filter(|digits| digits.bytes().all(|byte| char::from(byte).is_digit(radix)))
            .and_then(|digits| u64::from_str_radix(digits, radix).ok())
    };
    if whole && let Ok(value) = text.parse::<i64>() {
        return ScalarValue::Number(value.into());
    }
    if whole && let Ok(value) = text.parse::<u64>() {
        return ScalarValue::Number(value.into());
    }
    if let Some(value) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return ScalarValue::Number(value.into());
    }
    if !is_float(unsigned) {
        return ScalarValue::Text;
    }
    text.parse().ok().and_then(Number::from_f64).map_or(ScalarValue::NotFinite, ScalarValue::Number)
}

/// Matches `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    if let Some(exponent) = exponent {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if exponent.is_empty() || !digits(exponent) {
            return false;
        }
    }
    match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    }
}

pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    let line: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() { format!("{line}…") } else { line }
}

#[cfg(test)]
mod tests;
