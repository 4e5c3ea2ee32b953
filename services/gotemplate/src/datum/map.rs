//! Maps: JSON objects, maps of the caller, and results of `fromJson`.

use std::rc::Rc;

use serde_json::Value as Json;

use super::{Datum, Text};
use crate::Value;

/// Map during a rendering.
#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    Object(&'a serde_json::Map<String, Json>),
    Entries(&'a [(&'a str, Value<'a>)]),
    /// Entries with distinct keys in ascending order.
    Shared(Rc<[(Rc<str>, Datum<'a>)]>),
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Object(object) => object.len(),
            Self::Entries(entries) => entries.len(),
            Self::Shared(entries) => entries.len(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Datum<'a>> {
        match self {
            Self::Object(object) => object.get(key).map(Datum::from_json),
            Self::Entries(entries) => {
                let entry = entries.iter().find(|(known, _)| *known == key);
                entry.map(|(_, value)| Datum::from_value(value))
            }
            Self::Shared(entries) => {
                let found = entries.binary_search_by(|(known, _)| known.as_ref().cmp(key));
                found.ok().map(|index| entries[index].1.clone())
            }
        }
    }

    /// Returns the entries in the order of their keys, which is that of printing and `range` in Go.
    pub(crate) fn sorted(&self) -> Vec<(Text<'a>, Datum<'a>)> {
        let mut entries: Vec<(Text<'a>, Datum<'a>)> = match self {
            Self::Object(object) => {
                let entries = object.iter();
                entries.map(|(key, value)| (Text::Borrowed(key), Datum::from_json(value))).collect()
            }
            Self::Entries(entries) => {
                let entries = entries.iter();
                entries
                    .map(|(key, value)| (Text::Borrowed(key), Datum::from_value(value)))
                    .collect()
            }
            Self::Shared(entries) => {
                let text = |key: &Rc<str>| Text::Shared(Rc::clone(key), 0..key.len());
                entries.iter().map(|(key, value)| (text(key), value.clone())).collect()
            }
        };
        // Stable: of equal keys, the first one is first.
        entries.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        entries
    }
}
