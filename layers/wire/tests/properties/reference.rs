//! Other readers of JSON: strict and lenient ones, all built on serde_json.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use vmcp_wire::{Key, MAX_ID, MAX_MEMBERS, MAX_METHOD};

/// The members of an object, in order, duplicates included.
#[derive(Debug)]
pub(crate) struct Entries(pub(crate) Vec<(String, Box<RawValue>)>);

/// Choice of a parser among members.
#[derive(Debug)]
pub(crate) struct ParserBehavior {
    pub(crate) name: &'static str,
    last: bool,
    same: fn(&str, &str) -> bool,
}

pub(crate) const PARSER_BEHAVIORS: [ParserBehavior; 5] = [
    ParserBehavior { name: "the last one", last: true, same: |found, wanted| found == wanted },
    ParserBehavior { name: "the first one", last: false, same: |found, wanted| found == wanted },
    ParserBehavior { name: "the last one without regard to case", last: true, same: same_letters },
    ParserBehavior {
        name: "the first one without regard to case",
        last: false,
        same: same_letters,
    },
    ParserBehavior {
        name: "the last one up to NUL",
        last: true,
        same: |found, wanted| found.split('\0').next() == Some(wanted),
    },
];

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

impl Entries {
    pub(crate) fn read(object: &str) -> Option<Self> {
        serde_json::from_str(object).ok()
    }

    /// The JSON text of a member's value.
    pub(crate) fn pick(&self, wanted: &str, behavior: &ParserBehavior) -> Option<&str> {
        let mut found = self.0.iter().filter(|(name, _)| (behavior.same)(name, wanted));
        let entry = if behavior.last { found.next_back() } else { found.next() };
        entry.map(|(_, value)| value.get())
    }
}

/// Returns the method and the member `member` of `params` as such a parser reads them, as JSON text.
pub(crate) fn reading(
    message: &str,
    member: &str,
    behavior: &ParserBehavior,
) -> (Option<String>, Option<String>) {
    let Some(message) = Entries::read(message) else { return (None, None) };
    let params = message.pick("params", behavior).and_then(Entries::read);
    let value = params.as_ref().and_then(|params| params.pick(member, behavior));
    (message.pick("method", behavior).map(str::to_owned), value.map(str::to_owned))
}

/// Returns `true` if the rules of the envelope accept a JSON text; `None` if this parser cannot tell.
pub(crate) fn accepts(message: &str) -> Option<bool> {
    let Some(message) = Entries::read(message) else { return Some(false) };
    let names = ["jsonrpc", "id", "method", "params", "result", "error"];
    if !distinct(&message, &names)? {
        return Some(false);
    }
    let strict = &PARSER_BEHAVIORS[0];
    let [version, id, method, params, result, error] = names.map(|name| message.pick(name, strict));
    if string(version).as_deref() != Some("2.0") || !params.map_or(Some(true), accepts_params)? {
        return Some(false);
    }
    let id_fits = id.is_some_and(|id| id.len() <= MAX_ID && is_id(id));
    Some(match (method, result, error) {
        (Some(_), None, None) => {
            let length = string(method).unwrap_or_default().len();
            (1..=MAX_METHOD).contains(&length) && (id.is_none() || id_fits)
        }
        (None, Some(_), None) => params.is_none() && (id == Some("null") || id_fits),
        (None, None, Some(_)) => params.is_none() && (id.is_none_or(|id| id == "null") || id_fits),
        _ => false,
    })
}

fn accepts_params(params: &str) -> Option<bool> {
    let Some(params) = Entries::read(params) else { return Some(false) };
    let inner = |key: &str, names: &[&str]| {
        let value = params.pick(key, &PARSER_BEHAVIORS[0]).and_then(Entries::read);
        value.map_or(Some(true), |value| distinct(&value, names))
    };
    let itself = distinct(&params, &Key::ALL.map(Key::name))?;
    Some(itself && inner("_meta", &[])? && inner("ref", &["type", "name", "uri"])?)
}

/// Returns `true` if each member differs from each other and from the known ones.
fn distinct(object: &Entries, names: &[&str]) -> Option<bool> {
    let keys: Vec<_> = object.0.iter().map(|(key, _)| key.as_str()).collect();
    // Longer ones may exceed the limit on the literal, depending on how they are escaped.
    if keys.iter().any(|key| key.len() > 40) {
        return None;
    }
    let twice = keys.iter().enumerate().any(|(index, key)| keys[..index].contains(key));
    let disguised = keys
        .iter()
        .any(|key| !names.contains(key) && names.iter().any(|name| disguises(key, name)));
    Some(keys.len() <= MAX_MEMBERS && !twice && !disguised)
}

fn disguises(key: &str, name: &str) -> bool {
    let visible = key.split('\0').next().unwrap_or_default();
    same_letters(visible, name)
}

/// Equal by any of the ways in which libraries disregard case.
fn same_letters(found: &str, wanted: &str) -> bool {
    let turkic = found.replace('İ', "i");
    // One character may need the lower case and the next the upper case to become a letter of ASCII.
    let upper_then_lower = turkic.to_uppercase().to_lowercase();
    let lower_then_upper = turkic.to_lowercase().to_uppercase();
    upper_then_lower == wanted.to_lowercase() || lower_then_upper == wanted.to_uppercase()
}

fn string(value: Option<&str>) -> Option<String> {
    serde_json::from_str(value?).ok()
}

fn is_id(literal: &str) -> bool {
    let integer = literal.strip_prefix('-').unwrap_or(literal);
    literal.starts_with('"')
        || (!integer.is_empty() && integer.bytes().all(|byte| byte.is_ascii_digit()))
}
