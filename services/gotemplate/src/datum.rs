//! Values during a rendering, with the distinctions that Go makes between them.

mod list;
mod map;
mod text;
mod whole;

use serde_json::{Number, Value as Json};

pub(crate) use self::{list::List, map::Map, text::Text, whole::Whole};
use crate::Value;

/// Value during a rendering. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum Datum<'a> {
    /// No value: a key that a map does not contain. Its fields are absent, too.
    Absent,
    /// Null inside of a map or list, until a pipeline turns it into [`Datum::Absent`]. Its fields are an error.
    Null,
    Boolean(bool),
    /// `int`
    Integer(i64),
    /// `uint8`: element of a text.
    Byte(u8),
    /// `float64`: every number of a JSON document, except [`Datum::Whole`].
    Float(f64),
    /// `float64` in Go: a whole number of a JSON document that keeps digits that a `float64` does not have.
    Whole(Whole),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
}

impl<'a> Datum<'a> {
    /// Returns the root of the data. Unlike a null inside of it, a null root is absent.
    pub(crate) fn root(value: &'a Value<'a>) -> Self {
        Self::from_value(value).null_as_absent()
    }

    pub(crate) fn from_value(value: &'a Value<'a>) -> Self {
        match value {
            Value::Json(json) => Self::from_json(json),
            Value::Object(object) => Self::Map(Map::Object(object)),
            Value::Integer(value) => Self::Integer(*value),
            Value::Boolean(value) => Self::Boolean(*value),
            Value::Text(text) => Self::Text(Text::Borrowed(text)),
            Value::Map(entries) => Self::Map(Map::Entries(entries)),
        }
    }

    pub(crate) fn from_json(value: &'a Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Boolean(*value),
            Json::Number(number) => {
                Whole::of(number).map_or_else(|| Self::Float(float(number)), Self::Whole)
            }
            Json::String(text) => Self::Text(Text::Borrowed(text)),
            Json::Array(items) => Self::List(List::borrowed(items)),
            Json::Object(object) => Self::Map(Map::Object(object)),
        }
    }

    /// Returns the value as the result of a pipeline: a null becomes absent.
    pub(crate) fn null_as_absent(self) -> Self {
        match self {
            Self::Null => Self::Absent,
            other => other,
        }
    }

    /// Returns whether the value is neither absent nor null.
    pub(crate) fn is_present(&self) -> bool {
        !matches!(self, Self::Absent | Self::Null)
    }

    /// Returns whether a condition with this value holds: it is neither absent, false, zero nor empty.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Absent | Self::Null => false,
            Self::Boolean(value) => *value,
            Self::Integer(value) => *value != 0,
            Self::Byte(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Whole(_) => true,
            Self::Text(text) => !text.as_str().is_empty(),
            Self::List(list) => list.len() > 0,
            Self::Map(map) => map.len() > 0,
        }
    }

    /// Returns the name of the value's type in Go.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Absent | Self::Null => "<nil>",
            Self::Boolean(_) => "bool",
            Self::Integer(_) => "int",
            Self::Byte(_) => "uint8",
            Self::Float(_) | Self::Whole(_) => "float64",
            Self::Text(_) => "string",
            Self::List(_) => "[]interface {}",
            Self::Map(_) => "map[string]interface {}",
        }
    }

    /// Returns the kind of the value, with an article, for error messages.
    pub(crate) fn description(&self) -> &'static str {
        match self {
            Self::Absent => "a missing value",
            Self::Null => "a null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) | Self::Byte(_) => "an integer",
            Self::Float(_) | Self::Whole(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Returns the `float64` of a number. Numbers above its range, which only some builds of `serde_json` hold, are infinite.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_else(|| {
        if number.to_string().starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }
    })
}
