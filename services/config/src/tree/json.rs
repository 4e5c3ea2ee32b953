//! Conversion of JSON text, or of any serde format, to a [`Node`].

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};

use super::{Entry, MAX_DEPTH, Node, NodeKind};
use crate::error::{ConfigError, ConfigErrors};

/// Parses the JSON value in `text`.
pub(crate) fn parse(text: &str) -> Result<Node, ConfigErrors> {
    serde_json::from_str(text).map_err(|error| {
        ConfigErrors::single(ConfigError {
            path: String::new(),
            line: Some(error.line()).filter(|line| *line > 0),
            found: format!("invalid JSON: {}", super::shorten(&error.to_string())),
            allowed: "one JSON object (RFC 8259)".to_owned(),
            suggestion: None,
        })
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reader { depth: 0 }.deserialize(deserializer)
    }
}

/// Visitor that limits the depth; `serde_json` has its own limit, other formats may not.
#[derive(Clone, Copy)]
struct Reader {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(D::Error::custom(format!(
                "lists and maps nested deeper than {MAX_DEPTH} levels"
            )));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        // JSON has no other floats than finite ones, and this is how they are written back.
        Ok(plain(
            serde_json::Number::from_f64(value)
                .map_or_else(|| ".nan".to_owned(), |n| n.to_string()),
        ))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node { line: None, kind: NodeKind::Text(value.to_owned()) })
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(plain("null".to_owned()))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(plain("null".to_owned()))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let deeper = Self { depth: self.depth + 1 };
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(deeper)? {
            items.push(item);
        }
        Ok(Node { line: None, kind: NodeKind::List(items) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let deeper = Self { depth: self.depth + 1 };
        let mut entries = Vec::new();
        while let Some(key) = map.next_key()? {
            let value = map.next_value_seed(deeper)?;
            entries.push(Entry { key, line: None, value, is_merge_key: false });
        }
        Ok(Node { line: None, kind: NodeKind::Map(entries) })
    }
}

fn plain(text: String) -> Node {
    Node { line: None, kind: NodeKind::Plain(text) }
}
