//! Templates with the results of Go's own `text/template`. `tests/tools/gotemplate` prints them.
//!
//! `VMCP_GOTEMPLATE_VECTORS` names another file of vectors, such as one with random templates.

use std::{env, fs};

use serde_json::Value as Json;
use vmcp_gotemplate::{Limits, Template, Value};

const VECTORS: &str = include_str!("vectors.json");

/// Returns the document of the vectors.
pub(crate) fn load() -> Json {
    let file = env::var("VMCP_GOTEMPLATE_VECTORS").map(|path| fs::read_to_string(path).unwrap());
    serde_json::from_str(file.as_deref().unwrap_or(VECTORS)).unwrap()
}

/// Returns the templates of all vectors.
pub(crate) fn templates(vectors: &Json) -> impl Iterator<Item = &str> {
    vectors["vectors"].as_array().unwrap().iter().map(|it| it["template"].as_str().unwrap())
}

/// Returns root data with the integers of the vectors.
pub(crate) fn root<'a>(data: &'a Json, vectors: &'a Json) -> Value<'a> {
    let data = data.as_object().unwrap().iter();
    let integers = vectors["integers"].as_object().unwrap().iter();
    let data = data.map(|(name, value)| (name.as_str(), Value::Json(value)));
    let integers =
        integers.map(|(name, value)| (name.as_str(), Value::Integer(value.as_i64().unwrap())));
    Value::Map(data.chain(integers).collect())
}

/// Returns the output of a template, or the step that fails, with its error.
fn output(source: &str, root: &Value<'_>) -> Result<String, (&'static str, String)> {
    let template = Template::parse(source).map_err(|error| ("parse", error.to_string()))?;
    let rendered = template.render(root, &Limits::default());
    rendered.map_err(|error| ("execution", error.to_string()))
}

#[test]
fn templates_render_as_in_go() {
    let vectors = load();
    let root = root(&vectors["data"], &vectors);
    let mut differences = Vec::new();
    let vectors = vectors["vectors"].as_array().unwrap();
    for vector in vectors {
        let source = vector["template"].as_str().unwrap();
        let expected = match (&vector["error"], &vector["departure"], &vector["output"]) {
            (Json::String(step), _, _) => Err(step.as_str()),
            (_, Json::String(output), _) | (_, _, Json::String(output)) => Ok(output.as_str()),
            _ => panic!("a vector without a result: {source}"),
        };
        let found = output(source, &root);
        let is_equal = match (&expected, &found) {
            (Ok(expected), Ok(found)) => expected == found,
            (Err(expected), Err((found, _))) => expected == found,
            _ => false,
        };
        if !is_equal {
            differences.push(format!("{source}\n    Go:   {expected:?}\n    here: {found:?}"));
        }
    }
    assert!(vectors.len() > 1000, "{}", vectors.len());
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
