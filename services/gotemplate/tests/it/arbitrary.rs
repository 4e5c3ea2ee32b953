//! Check of an arbitrary template, shared with a fuzz target.

use serde_json::{Value as Json, json};
use vmcp_gotemplate::{Limits, Template, Value};

/// Parses and renders `source`, and reads its paths. A panic, a stack overflow or work without end is a bug.
pub(crate) fn check(source: &str) {
    let Ok(template) = Template::parse(source) else { return };
    let data = json!({
        "a": [1, 2.5, "x", null, true, { "b": [] }], "b": { "c": "text", "d": { "e": -3 } }, "c": "é\n\"", "d": null,
        "doc": "{\"a\": [1, {\"b\": null}]}"
    });
    let Json::Object(object) = &data else { return };
    let entries = object.iter().map(|(name, value)| (name.as_str(), Value::Json(value)));
    let root = Value::Map(entries.chain([("int", Value::Integer(3))]).collect());
    let limits = Limits {
        max_output_bytes: 100_000,
        max_memory_bytes: 1_000_000,
        max_depth: 20,
        max_steps: 10_000,
    };
    if let Ok(output) = template.render(&root, &limits) {
        assert!(output.len() <= limits.max_output_bytes);
        assert!(template.literal().is_none_or(|literal| literal == output));
    }
    for path in template.paths() {
        assert!(source.lines().count() + 1 >= path.line());
    }
}
