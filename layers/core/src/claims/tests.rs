use std::cell::Cell;

use proptest::prelude::*;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::json;

use super::*;

fn read(text: &str) -> Result<Claims, ClaimsFault> {
    Claims::read(text.to_owned())
}

/// Reads a whole claims set into a tree at once: what reading it bit by bit is compared with.
fn tree(text: &str) -> Result<Map<String, Value>, ClaimsFault> {
    let left = Cell::new(MAX_CLAIMS);
    let mut reader = serde_json::Deserializer::from_str(text);
    match (Strict(&left).deserialize(&mut reader), reader.end()) {
        (Ok(Value::Object(claims)), Ok(())) => Ok(claims),
        (Err(_), _) if left.get() == 0 => Err(ClaimsFault::TooMany),
        _ => Err(ClaimsFault::Malformed),
    }
}

/// Refuses duplicate members; the cell holds how many members are still allowed.
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

/// Texts that are JSON or nearly so, with few names, so that some stand twice.
fn texts() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?",
        "[0-9.eE+-]{1,6}",
        Just("1.7976931348623158e308".to_owned()),
        Just("17976931348623159000e289".to_owned()),
        Just("true".to_owned()),
        Just("null".to_owned()),
        any::<String>().prop_map(|text| json!(text).to_string()),
        "\"(\\\\u[0-9a-fd]{4}|\\\\[\"\\\\/bfnrt]|[ -~é😀]){0,4}\"",
    ];
    let name = || prop_oneof!["\"[ab]\"", "\"\\\\u006[12]\"", "\"[a-z]{0,3}\""];
    let value = scalar.prop_recursive(4, 24, 5, move |inner| {
        let member = (name(), inner.clone()).prop_map(|(name, value)| format!("{name} : {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec(member, 0..5).prop_map(|all| format!("{{ {}}}", all.join(","))),
        ]
    });
    let member = (prop_oneof!["\"[a-z]{1,2}\"", "\"\\\\u006[12]\""], value);
    prop::collection::vec(member.prop_map(|(name, value)| format!("{name}:{value}")), 0..6)
        .prop_map(|members| format!(" {{{} }} ", members.join(",\n")))
}

proptest! {
    #[test]
    fn says_what_the_tree_says(text in texts()) {
        let claims = read(&text);
        let tree = tree(&text);
        prop_assert_eq!(claims.clone().map(Map::from), tree.clone());
        let (Ok(claims), Ok(tree)) = (claims, tree) else { return Ok(()) };
        prop_assert_eq!(claims.iter().count(), tree.len());
        for (name, value) in &tree {
            let claim = claims.get(name).unwrap();
            prop_assert_eq!(&claim.value(), value);
            let unquoted = claim.text();
            prop_assert_eq!(unquoted.as_deref(), value.as_str());
            prop_assert_eq!(claims.text(name), value.as_str());
            prop_assert_eq!((claim.is_string(), claim.is_array()), (value.is_string(), value.is_array()));
            let items: Vec<_> = claim.items().map(Claim::value).collect();
            prop_assert_eq!(items, value.as_array().cloned().unwrap_or_default());
            let rest = claims.clone().without(name);
            prop_assert!(!rest.has(name) && !rest.object().contains_key(name));
            prop_assert_eq!(rest.iter().count(), tree.len() - 1);
        }
        // The same claims, made of the tree.
        let again = Claims::from(tree.clone());
        prop_assert_eq!(&again, &claims);
        for (name, value) in &tree {
            prop_assert_eq!(again.get(name).unwrap().json(), value.to_string());
        }
    }

    #[test]
    fn never_fails_otherwise_than_by_an_error(text in any::<String>()) {
        _ = read(&text);
        _ = read(&format!("{{\"a\":{text}}}"));
    }
}

#[test]
fn refuses_a_duplicate_at_any_depth() {
    for twice in [r#"{"a":1,"a":1}"#, r#"{"a":{"b":[{"c":1,"d":2,"\u0063":3}]}}"#] {
        assert_eq!(read(twice), Err(ClaimsFault::Malformed), "{twice}");
    }
    assert!(read(r#"{"a":{"b":1},"c":{"b":1}}"#).is_ok());
}

#[test]
fn refuses_what_is_no_single_object() {
    for other in ["", "[]", "1", "{}{}", "{", "{\"a\":1e400}", "{\"a\":\"\u{1}\"}", "\u{feff}{}"] {
        assert_eq!(read(other), Err(ClaimsFault::Malformed), "{other}");
    }
    let long = format!("{{\"a\":[{}]}}", "9".repeat(400));
    assert_eq!(read(&long), Err(ClaimsFault::Malformed));
    let deep = ["{\"a\":".repeat(200), "1".into(), "}".repeat(200)].concat();
    assert_eq!(read(&deep), Err(ClaimsFault::Malformed));
}

#[test]
fn what_is_as_deep_as_it_may_be_is_still_read() {
    let depth = vmcp_wire::MAX_DEPTH - 1;
    let claims = read(&format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth))).unwrap();
    let mut value = &claims.object()["a"];
    for _ in 0..depth {
        value = &value[0];
    }
    assert_eq!(value, 1);
}

#[test]
fn refuses_too_many_members_wherever_they_are() {
    let members = |count| {
        let list: Vec<_> = (0..count).map(|name| format!("\"{name}\":0")).collect();
        format!("{{\"nested\":{{{}}}}}", list.join(","))
    };
    assert!(read(&members(MAX_CLAIMS - 1)).is_ok());
    assert_eq!(read(&members(MAX_CLAIMS)), Err(ClaimsFault::TooMany));
}

#[test]
fn numbers_stay_as_exact_as_they_were_written() {
    let claims =
        read(r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":0.30000000000000004}"#);
    let claims = claims.unwrap();
    let value = |name| claims.get(name).unwrap().value();
    assert_eq!((value("a").as_u64(), value("b").as_i64()), (Some(u64::MAX), Some(i64::MIN)));
    assert_eq!(value("c").as_f64(), Some(0.300_000_000_000_000_04));
}

#[test]
fn only_names_are_in_the_debug_form() {
    let printed = format!("{:?}", read(r#"{"email":"canary"}"#).unwrap());
    assert_eq!(printed, r#"{"email"}"#);
}
