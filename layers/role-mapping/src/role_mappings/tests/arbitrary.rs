//! Any text as an expression over claims. A fuzz target does the same.

use serde_json::{Value, json};

use crate::{RoleMapping, RoleMappings, RoleMatch};

/// Panics, or overflows the stack, or takes for ever if an expression can do that.
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
