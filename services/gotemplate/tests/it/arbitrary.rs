//! Check of an arbitrary template, shared with a fuzz target.

use serde_json::{Map, Value as Json, json};
use vmcp_gotemplate::{Access, Limits, RenderError, Segment, Template, Value};

const LIMITS: Limits = Limits {
    max_output_bytes: 100_000,
    max_memory_bytes: 1_000_000,
    max_depth: 20,
    max_steps: 10_000,
};

/// Parses and renders `source`, and reads its paths. A panic, a stack overflow, work without end, or a read of data that no path
/// covers is a bug.
pub(crate) fn check(source: &str) {
    let Ok(template) = Template::parse(source) else { return };
    let data = json!({
        "a": [1, 2.5, "x", null, true, { "b": [] }], "b": { "c": "text", "d": { "e": -3 } }, "c": "é\n\"", "d": null,
        "doc": "{\"a\": [1, {\"b\": null}]}", "e": { "f": { "g": [{ "h": 1 }, { "h": null }] }, "i": {} }
    });
    let result = render(&template, &data);
    if let Ok(output) = &result {
        assert!(output.len() <= LIMITS.max_output_bytes);
        assert!(template.literal().is_none_or(|literal| literal == output));
    }
    let reduced = render(&template, &covered(&data, &template));
    let is_limit = |result: &Result<_, RenderError>| {
        result.as_ref().is_err_and(|error| error.kind().is_limit())
    };
    assert!(
        is_limit(&result) || is_limit(&reduced) || result == reduced,
        "reads more than its paths"
    );
}

fn render(template: &Template, data: &Json) -> Result<String, RenderError> {
    let entries = data.as_object().into_iter().flatten();
    let entries = entries.map(|(name, value)| (name.as_str(), Value::Json(value)));
    template.render(&Value::Map(entries.chain([("int", Value::Integer(3))]).collect()), &LIMITS)
}

/// Returns the parts of the data that the paths of a template cover. A value that is only tested keeps whether it is empty.
pub(crate) fn covered(data: &Json, template: &Template) -> Json {
    let paths = template.paths().iter().map(|path| (path.segments(), path.access()));
    covered_below(data, &paths.collect::<Vec<_>>())
}

fn covered_below(value: &Json, paths: &[(&[Segment], Access)]) -> Json {
    if paths.iter().any(|(rest, access)| rest.is_empty() && *access == Access::Value) {
        return value.clone();
    }
    let is_tested = paths.iter().any(|(rest, _)| rest.is_empty());
    let below = |covers: &dyn Fn(&Segment) -> bool| -> Vec<(&[Segment], Access)> {
        let paths = paths.iter().filter_map(|(rest, access)| {
            let (first, rest) = rest.split_first()?;
            (*first == Segment::Any || covers(first)).then_some((rest, *access))
        });
        paths.collect()
    };
    match value {
        Json::Object(object) => {
            let mut kept = Map::new();
            for (key, value) in object {
                let paths = below(&|segment| *segment == Segment::Key(key.clone()));
                if !paths.is_empty() {
                    kept.insert(key.clone(), covered_below(value, &paths));
                }
            }
            if is_tested && !object.is_empty() && kept.is_empty() {
                kept.insert("other".to_owned(), json!(1));
            }
            Json::Object(kept)
        }
        Json::Array(items) => {
            let items = items.iter().enumerate().map(|(index, value)| {
                covered_below(value, &below(&|segment| *segment == Segment::Index(index)))
            });
            items.collect()
        }
        other => other.clone(),
    }
}
