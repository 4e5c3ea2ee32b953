//! Parser of rustdoc's JSON, limited to the needed parts, so that changes elsewhere do not matter.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Returns the types and traits of other crates in the public API of the documented one, each with the item that
/// exposes it.
pub(crate) fn exposed(documented: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let reader = Reader {
        paths: documented["paths"].as_object().unwrap(),
        crates: documented["external_crates"].as_object().unwrap(),
    };
    let mut found = BTreeMap::new();
    for item in documented["index"].as_object().unwrap().values() {
        if is_shown(item) {
            let name = item["name"].as_str().unwrap_or("impl");
            reader.collect(&item["inner"], name, &mut found);
        }
    }
    assert!(found.contains_key("core"), "this rustdoc writes what is not understood here");
    found
}

struct Reader<'a> {
    paths: &'a Map<String, Value>,
    crates: &'a Map<String, Value>,
}

/// Returns `true` for public items of the crate, except implementations that every type has.
fn is_shown(item: &Value) -> bool {
    if item["crate_id"] != 0 {
        return false;
    }
    match item["inner"].get("impl") {
        Some(implementation) => {
            implementation["blanket_impl"].is_null() && implementation["is_synthetic"] != true
        }
        // Other items are part of public ones: variants and members of traits.
        None => item["visibility"] == "public" || item["visibility"] == "default",
    }
}

impl Reader<'_> {
    fn collect(&self, part: &Value, within: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
        match part {
            Value::Array(parts) => {
                for part in parts {
                    self.collect(part, within, found);
                }
            }
            Value::Object(members) => {
                if let Some((of, name)) = self.foreign(members) {
                    found.entry(of).or_default().insert(format!("{name} in {within}"));
                }
                for part in members.values() {
                    self.collect(part, within, found);
                }
            }
            _ => {}
        }
    }

    /// Returns crate and name of the referenced item, if it belongs to another crate.
    fn foreign(&self, members: &Map<String, Value>) -> Option<(String, String)> {
        let path = self.paths.get(&members.get("id")?.to_string())?;
        let of = &self.crates.get(&path["crate_id"].to_string())?["name"];
        let name = path["path"].as_array()?.last()?;
        Some((of.as_str()?.to_owned(), name.as_str()?.to_owned()))
    }
}
