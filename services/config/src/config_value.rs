//! Reader, writer and JSON Schema of a field, from one definition.
//!
//! [`section!`] describes an object once: names, types, defaults, limits, documentation. Reader, writer and schema are
//! generated from that description, so they cannot disagree. [`raw_conversion!`] does the same for types that are an enum
//! in Rust and a flat object with a discriminating key in the document.

pub(crate) mod cel;
mod fields;
mod key_check;
mod keyword_enum;
mod rules;
mod section;
pub(crate) mod values;
mod word_list;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize as _, Deserializer, Serialize, de::Error as _};

pub(crate) use self::{
    fields::{Fields, ObjectSchema},
    keyword_enum::keyword_enum,
    rules::{Constraint, Rule, Variant},
    section::{raw_conversion, section, section_with_default},
    word_list::join_list,
};
use crate::{context::Context, tree::Node};

/// A value of the configuration.
pub trait ConfigValue: Serialize + JsonSchema + Sized {
    /// Reads `node`. `None` means that the errors have been reported.
    fn read(node: &Node, cx: &mut Context) -> Option<Self>;

    /// Returns the value for an absent key. `None` means that the key is required.
    fn default_value() -> Option<Self> {
        None
    }

    /// Returns `true` if the key is omitted when written.
    fn is_omitted(&self) -> bool {
        false
    }

    /// Returns `true` if messages must not quote the value.
    fn is_secret() -> bool {
        false
    }

    /// Returns `true` for types that are written as text. For an optional field, `""` is equivalent to an absent key.
    fn is_text() -> bool {
        false
    }

    /// Returns `true` for free text, as opposed to a keyword, number or address in text. If the field has a default,
    /// `""` is then equivalent to an absent key.
    fn is_free_text() -> bool {
        false
    }

    /// Returns `true` if `""` is equivalent to an absent key even without a default.
    fn empty_is_absent() -> bool {
        false
    }

    /// Returns a value that replaces an invalid one, so that the rest of the document can be checked.
    fn placeholder() -> Option<Self> {
        None
    }

    /// Returns `true` if the type has no values, so that the schema omits the field.
    fn is_never() -> bool {
        false
    }

    /// Returns the schema of a field of this type.
    fn field_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

/// Reads from any serde format. The text of the error lists all errors.
pub(crate) fn deserialize<'de, T: ConfigValue, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let node: Node = serde::Deserialize::deserialize(deserializer)?;
    parse(&node).map_err(D::Error::custom)
}

/// Reads a part of a resource from JSON: its `config`, or the [`AuthServer`](crate::AuthServer) within it.
///
/// # Errors
///
/// Returns all errors of the part, with paths within it.
pub fn from_json<T: ConfigValue>(value: &serde_json::Value) -> Result<T, crate::ConfigErrors> {
    match Node::deserialize(value) {
        Ok(node) => parse(&node),
        Err(error) => Err(crate::ConfigErrors::single(crate::ConfigError::new(
            "",
            error.to_string(),
            "a JSON value",
        ))),
    }
}

/// Reads the valid parts of a document with errors. Placeholders and defaults replace the rest.
pub(crate) fn parse_lossy<T: ConfigValue>(node: &Node) -> Option<T> {
    T::read(node, &mut Context::lossy())
}

/// Reads a whole document.
pub(crate) fn parse<T: ConfigValue>(node: &Node) -> Result<T, crate::ConfigErrors> {
    let mut cx = Context::default();
    key_check::check_keys(node, &mut cx);
    let value = T::read(node, &mut cx);
    match (value, cx.finish()) {
        (Some(value), None) => Ok(value),
        (_, Some(errors)) => Err(errors),
        (None, None) => Err(crate::ConfigErrors::single(crate::ConfigError {
            path: String::new(),
            line: node.line,
            found: node.describe(),
            allowed: "a complete configuration".to_owned(),
            suggestion: None,
        })),
    }
}

/// Converts a field name to the key in documents: `failure_threshold` to `failureThreshold`.
pub(crate) fn to_camel_case(field: &'static str) -> Cow<'static, str> {
    let field = field.strip_prefix("r#").unwrap_or(field);
    if !field.contains('_') {
        return Cow::Borrowed(field);
    }
    let mut camel = String::with_capacity(field.len());
    let mut upper = false;
    for letter in field.chars() {
        if letter == '_' {
            upper = true;
        } else if std::mem::take(&mut upper) {
            camel.push(letter.to_ascii_uppercase());
        } else {
            camel.push(letter);
        }
    }
    Cow::Owned(camel)
}

/// Joins the lines of a documentation comment.
pub(crate) fn description(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let line = line.trim();
        if !text.is_empty() && !line.is_empty() {
            text.push(if text.ends_with('\n') { '\n' } else { ' ' });
        }
        text.push_str(line);
    }
    text
}
