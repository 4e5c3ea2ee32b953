//! Claims as a tree that is made at once: what reading them bit by bit is compared with. A fuzz target does the same.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::{Claim, Claims, ClaimsError, MAX_CLAIMS};

/// Panics if `text` says something else as a tree.
pub(crate) fn check(text: &str) {
    let claims = Claims::parse(text.to_owned());
    let tree = tree(text);
    assert_eq!(claims.clone().map(Map::from), tree.clone());
    let (Ok(claims), Ok(tree)) = (claims, tree) else { return };
    assert_eq!(claims.iter().count(), tree.len());
    for (name, value) in &tree {
        let claim = claims.get(name).unwrap();
        assert_eq!(&claim.value(), value);
        let unquoted = claim.text();
        assert_eq!(unquoted.as_deref(), value.as_str());
        assert_eq!(claims.text(name), value.as_str());
        assert_eq!((claim.is_string(), claim.is_array()), (value.is_string(), value.is_array()));
        let items: Vec<_> = claim.items().map(Claim::value).collect();
        assert_eq!(items, value.as_array().cloned().unwrap_or_default());
        let rest = claims.clone().without(name);
        assert!(!rest.has(name) && !rest.object().contains_key(name));
        assert_eq!(rest.iter().count(), tree.len() - 1);
    }
    // The same claims, made of the tree.
    let again = Claims::from(tree.clone());
    assert_eq!(&again, &claims);
    for (name, value) in &tree {
        assert_eq!(again.get(name).unwrap().json(), value.to_string());
    }
}

/// Reads a whole claims set into a tree at once: what reading it bit by bit is compared with.
fn tree(text: &str) -> Result<Map<String, Value>, ClaimsError> {
    let left = Cell::new(MAX_CLAIMS);
    let mut reader = serde_json::Deserializer::from_str(text);
    match (StrictVisitor(&left).deserialize(&mut reader), reader.end()) {
        (Ok(Value::Object(claims)), Ok(())) => Ok(claims),
        (Err(_), _) if left.get() == 0 => Err(ClaimsError::TooMany),
        _ => Err(ClaimsError::Malformed),
    }
}

/// Visitor that rejects duplicate members; the cell has the number of members that are still allowed.
#[derive(Clone, Copy)]
struct StrictVisitor<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate members")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let left = self.0.get().checked_sub(1).ok_or_else(|| Error::custom("too many"))?;
            self.0.set(left);
            let value = members.next_value_seed(self)?;
            if object.insert(name, value).is_some() {
                return Err(Error::custom("duplicate member"));
            }
        }
        Ok(Value::Object(object))
    }
}
