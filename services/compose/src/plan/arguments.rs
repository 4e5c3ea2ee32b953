//! Compilation of a call's arguments.

use serde_json::{Map, Value};

use super::Argument;
use super::errors::{Errors, member};
use super::expression::{Expression, Scope, TemplateReads};

/// Compiles arguments. Text on the first level is a template; all other values are sent as they are.
pub(super) fn compile(
    arguments: &Map<String, Value>,
    path: &str,
    scope: &Scope<'_>,
    reads: &mut TemplateReads,
    errors: &mut Errors,
) -> Vec<(String, Argument)> {
    let path = format!("{path}.arguments");
    let mut compiled = Vec::with_capacity(arguments.len());
    for (name, value) in arguments {
        let argument = match value {
            Value::String(text) => {
                let path = member(&path, name);
                match Expression::compile(text, &path, scope, reads, errors) {
                    Some(expression) => Argument::Template(expression),
                    None => continue,
                }
            }
            value => Argument::Fixed(value.clone()),
        };
        compiled.push((name.clone(), argument));
    }
    compiled
}

/// Returns the path below `value` of the first text that looks like a template, below the first level of arguments.
pub(super) fn find_nested_template(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains("{{").then(|| path.to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find_nested_template(item, &format!("{path}[{index}]"))),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, value)| find_nested_template(value, &member(path, name))),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
