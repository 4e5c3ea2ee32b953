//! JSON that two readers cannot understand differently.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::TokenFault;

/// The most members that the objects of a claims set may have together.
pub const MAX_CLAIMS: usize = 512;

/// For how many members an object has room at first: as many as the claims of most tokens are.
const USUAL_CLAIMS: usize = 16;

/// Reads a claims set: a JSON object in which no object has a member twice, since the one who signed
/// and the one who reads could take different ones (RFC 7519 section 4).
///
/// # Errors
/// [`TokenFault::Malformed`], or [`TokenFault::TooManyClaims`] with more than [`MAX_CLAIMS`] members.
pub fn parse_claims(json: &[u8]) -> Result<Map<String, Value>, TokenFault> {
    let left = Cell::new(MAX_CLAIMS);
    // Once for all of it, rather than in each string.
    let json = std::str::from_utf8(json).map_err(|_| TokenFault::Malformed)?;
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = reader.deserialize_any(Top(Strict(&left)));
    match (read, reader.end()) {
        (Ok(claims), Ok(())) => Ok(claims),
        (Err(_), _) if left.get() == 0 => Err(TokenFault::TooManyClaims),
        _ => Err(TokenFault::Malformed),
    }
}

/// Reads the claims set itself, which is larger than what is in it.
struct Top<'a>(Strict<'a>);

/// Reads a value; the cell holds how many members are still allowed.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
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

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        self.object(members, Map::new()).map(Value::Object)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object without duplicate members")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        self.0.object(members, Map::with_capacity(USUAL_CLAIMS))
    }
}

impl Strict<'_> {
    fn object<'de, A: MapAccess<'de>>(
        self,
        mut members: A,
        mut object: Map<String, Value>,
    ) -> Result<Map<String, Value>, A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            let left = self.0.get().checked_sub(1).ok_or_else(|| Error::custom("too many"))?;
            self.0.set(left);
            let value = members.next_value_seed(self)?;
            if object.insert(name, value).is_some() {
                return Err(Error::custom("duplicate member"));
            }
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_duplicate_at_any_depth() {
        for twice in [r#"{"a":1,"a":1}"#, r#"{"a":{"b":[{"c":1,"d":2,"\u0063":3}]}}"#] {
            assert_eq!(parse_claims(twice.as_bytes()), Err(TokenFault::Malformed), "{twice}");
        }
        assert!(parse_claims(br#"{"a":{"b":1},"c":{"b":1}}"#).is_ok());
    }

    #[test]
    fn reads_what_the_plain_reader_reads() {
        let text = br#" {"s":"\u00e9","n":null,"b":[true,-1,18446744073709551615,1.5],"o":{}} "#;
        let plain: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(parse_claims(text).map(Value::Object), Ok(plain));
    }

    #[test]
    fn refuses_what_is_no_single_object() {
        for bytes in [&b"{\"a\":\"\xff\"}"[..], b"{}\xff", b"\xef\xbb\xbf{}"] {
            assert_eq!(parse_claims(bytes), Err(TokenFault::Malformed), "{bytes:?}");
        }
        for other in ["", "[]", "1", "{}{}", "{", "{\"a\":1e400}", "{\"a\":\"\u{1}\"}"] {
            assert_eq!(parse_claims(other.as_bytes()), Err(TokenFault::Malformed), "{other}");
        }
        let deep = ["{\"a\":".repeat(200), "1".into(), "}".repeat(200)].concat();
        assert_eq!(parse_claims(deep.as_bytes()), Err(TokenFault::Malformed));
    }

    #[test]
    fn refuses_too_many_members_wherever_they_are() {
        let members = |count| {
            let list: Vec<_> = (0..count).map(|name| format!("\"{name}\":0")).collect();
            format!("{{\"nested\":{{{}}}}}", list.join(","))
        };
        assert!(parse_claims(members(MAX_CLAIMS - 1).as_bytes()).is_ok());
        let refused = parse_claims(members(MAX_CLAIMS).as_bytes());
        assert_eq!(refused, Err(TokenFault::TooManyClaims));
    }
}
