//! Compilation of the output.

use std::collections::BTreeMap;

use vmcp_config::composite::{Output, OutputType, Property};

use super::errors::{Errors, member};
use super::expression::{Expression, Scope, TemplateReads};
use super::{PlannedOutput, PlannedProperty, PropertySource};
use crate::coerce;

/// Maximum nesting of properties.
const MAX_NESTING: usize = 10;

pub(super) fn compile(
    output: &Output,
    path: &str,
    scope: &Scope<'_>,
    reads: &mut TemplateReads,
    errors: &mut Errors,
) -> PlannedOutput {
    let Output { properties, required } = output;
    let path = format!("{path}.output");
    if properties.is_empty() {
        errors.reject(format!("{path}.properties"), "no property", "at least one property");
    }
    for name in required.iter().filter(|name| !properties.contains_key(*name)) {
        let known = properties.keys().map(String::as_str);
        let allowed = "the name of a property".to_owned();
        let path = format!("{path}.required");
        errors.reject_name(&path, name, (format!("\"{name}\""), allowed), known);
    }
    let mut compiler = Compiler { scope, reads, errors };
    let path = format!("{path}.properties");
    let properties = compiler.compile_all(properties, &path, 1);
    PlannedOutput { properties, required: required.clone() }
}

struct Compiler<'a, 's> {
    scope: &'a Scope<'s>,
    reads: &'a mut TemplateReads,
    errors: &'a mut Errors,
}

impl Compiler<'_, '_> {
    fn compile_all(
        &mut self,
        properties: &BTreeMap<String, Property>,
        path: &str,
        level: usize,
    ) -> Vec<PlannedProperty> {
        if level > MAX_NESTING {
            let allowed = format!("at most {MAX_NESTING} levels of properties");
            self.errors.reject(path, "properties nested too deeply", allowed);
            return Vec::new();
        }
        properties
            .iter()
            .filter_map(|(name, property)| {
                self.compile_one(name, property, &member(path, name), level)
            })
            .collect()
    }

    fn compile_one(
        &mut self,
        name: &str,
        property: &Property,
        path: &str,
        level: usize,
    ) -> Option<PlannedProperty> {
        let Property { r#type: kind, description: _, value, properties, default } = property;
        let source = match (value, properties) {
            (Some(text), None) => {
                let path = format!("{path}.value");
                let expression =
                    Expression::compile(text, &path, self.scope, self.reads, self.errors)?;
                PropertySource::Template(expression)
            }
            (None, Some(properties)) if *kind == OutputType::Object => {
                let path = format!("{path}.properties");
                PropertySource::Properties(self.compile_all(properties, &path, level + 1))
            }
            (None, Some(_)) => {
                let found = format!("properties with type: {kind}");
                let allowed = "properties only with type: object";
                self.errors.reject(format!("{path}.properties"), found, allowed);
                return None;
            }
            (found, _) => {
                let found = if found.is_some() { "both of them" } else { "none of them" };
                self.errors.reject(path, found, "exactly one of value, properties");
                return None;
            }
        };
        let default = match default.as_ref().map(|value| (value, coerce::default(value, *kind))) {
            None => None,
            Some((_, Some(default))) => Some(default),
            Some((value, None)) => {
                let allowed = format!("a value of type {kind}");
                self.errors.reject(format!("{path}.default"), value.to_string(), allowed);
                None
            }
        };
        Some(PlannedProperty {
            name: name.to_owned(),
            path: path.to_owned(),
            kind: *kind,
            source,
            default,
        })
    }
}
