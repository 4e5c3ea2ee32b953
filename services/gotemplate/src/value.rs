//! Data of a rendering.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

/// Value that a template reads. Borrows JSON documents, without a copy.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// JSON value. Its numbers are floating-point numbers, as in Go.
    Json(&'a Json),
    /// JSON object.
    Object(&'a Map<String, Json>),
    /// Integer: `int` in Go. A template can compare it with `3`, but not with `3.0`.
    Integer(i64),
    /// Boolean.
    Boolean(bool),
    /// Text.
    Text(Cow<'a, str>),
    /// Map with distinct keys. If keys are equal, the first one counts.
    Map(Vec<(&'a str, Value<'a>)>),
}

impl<'a> From<&'a Json> for Value<'a> {
    fn from(value: &'a Json) -> Self {
        Self::Json(value)
    }
}

impl<'a> From<&'a Map<String, Json>> for Value<'a> {
    fn from(value: &'a Map<String, Json>) -> Self {
        Self::Object(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl<'a> From<Vec<(&'a str, Value<'a>)>> for Value<'a> {
    fn from(value: Vec<(&'a str, Value<'a>)>) -> Self {
        Self::Map(value)
    }
}
