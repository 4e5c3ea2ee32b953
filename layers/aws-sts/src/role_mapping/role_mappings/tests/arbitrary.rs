//! Check of an arbitrary text as an expression over claims, shared with a fuzz target.

use serde_json::{Value, json};

use super::{RoleMapping, RoleMappings, RoleMatch};

/// Compiles `source` and evaluates it. A panic, a stack overflow or an evaluation without end is a bug.
pub(crate) fn check(source: &str) {
    let matches = RoleMatch::Matcher(source.to_owned());
    let mapping = RoleMapping { role: "role", matches, priority: None };
    let Ok(roles) = RoleMappings::new(None, vec![mapping], "groups") else { return };
    let list: Vec<_> = (0..500).collect();
    if let Value::Object(claims) =
        json!({ "a": list, "b": "text", "c": { "d": [1.5, null, true] } })
    {
        _ = roles.select(&claims.into());
    }
}
