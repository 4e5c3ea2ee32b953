//! Compilation of a definition: everything that is known without the tools.

use std::time::Duration;

use serde_json::{Map, Value};
use vmcp_config::composite::Step;
use vmcp_config::{CompositeTool, ConfigError};

use super::errors::{Errors, member};
use super::expression::{Scope, TemplateReads};
use super::graph::{Cycle, Graph, StepSet};
use super::{Parameters, Plan, Retention, definition, output, schemas, steps};
use crate::limits::{MAX_STEPS, WORKFLOW_TIMEOUT};
use crate::{JsonSchema, schema};

impl Plan {
    /// Compiles a definition, or returns all of its mistakes.
    pub(crate) fn compile(tool: &CompositeTool, path: &str) -> Result<Self, Vec<ConfigError>> {
        let CompositeTool { name, description, parameters, timeout, steps, output } = tool;
        let mut errors = Errors::default();
        let mut reads = TemplateReads::default();
        let parameters = compile_parameters(parameters.as_ref(), path, &mut errors);
        let graph = compile_graph(steps, path, &mut errors);
        let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
        let mut planned = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            // With a cycle, each step may read all others: the cycle is the only error of the order.
            let all = StepSet::first(steps.len());
            let visible = graph.as_ref().map_or(all, |graph| graph.transitive(number));
            let scope = Scope { ids: &ids, step: Some(&step.id), visible, item_var: None };
            let path = format!("{path}.steps[{number}]");
            planned.extend(steps::compile(step, &path, &scope, &mut reads, &mut errors));
        }
        let visible = StepSet::first(steps.len());
        let scope = Scope { ids: &ids, step: None, visible, item_var: None };
        let planned_output = output
            .as_ref()
            .map(|output| output::compile(output, path, &scope, &mut reads, &mut errors));
        check_parameter_reads(parameters.as_ref(), &reads, &mut errors);
        if planned.len() == steps.len() {
            steps::check_reads(&planned, &reads, &mut errors);
        }
        let errors = errors.into_vec();
        let (Some(parameters), Some(graph), true) = (parameters, graph, errors.is_empty()) else {
            return Err(errors);
        };
        Ok(Self {
            name: name.as_str().into(),
            description: description.clone(),
            path: path.to_owned(),
            definition: definition::hash(tool),
            timeout: timeout.map_or(WORKFLOW_TIMEOUT, Duration::from),
            parameters,
            retention: Retention::new(&planned, planned_output.as_ref()),
            steps: planned,
            graph,
            output: planned_output,
            output_schema: output.as_ref().map(schemas::output_schema),
            reads,
        })
    }
}

fn compile_parameters(
    parameters: Option<&Map<String, Value>>,
    path: &str,
    errors: &mut Errors,
) -> Option<Parameters> {
    let path = format!("{path}.parameters");
    let mut object = Map::new();
    object.insert("type".to_owned(), "object".into());
    let source = parameters.unwrap_or(&object);
    if source.get("type").and_then(Value::as_str) != Some("object") {
        let found = source.get("type").map_or("no value".to_owned(), Value::to_string);
        errors.reject(format!("{path}.type"), found, "object");
        return None;
    }
    let schema = match JsonSchema::compile(source) {
        Ok(schema) => schema,
        Err(message) => {
            errors.reject(path, message, "a JSON Schema without references to other documents");
            return None;
        }
    };
    let properties = source.get("properties").and_then(Value::as_object);
    let defaults: Vec<_> = properties
        .into_iter()
        .flatten()
        .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
        .collect();
    for (name, default) in &defaults {
        check_default(&schema, name, default, &path, errors);
    }
    Some(Parameters { schema, defaults })
}

fn check_default(
    schema: &JsonSchema,
    name: &str,
    default: &Value,
    path: &str,
    errors: &mut Errors,
) {
    let Some(Value::Object(property)) = schema.property(name) else { return };
    // References of the property lead to the root of the whole schema.
    if schema::has_reference(property) {
        return;
    }
    let Ok(property) = JsonSchema::compile(property) else { return };
    if let Some(violation) = property.violations(default).first() {
        let path = format!("{}.default", member(&format!("{path}.properties"), name));
        errors.reject(path, violation.message.clone(), "a default of the property's own type");
    }
}

fn compile_graph(steps: &[Step], path: &str, errors: &mut Errors) -> Option<Graph> {
    let path = format!("{path}.steps");
    if steps.is_empty() || steps.len() > MAX_STEPS {
        let found = format!("{} steps", steps.len());
        errors.reject(path, found, format!("from 1 to {MAX_STEPS} steps"));
        return None;
    }
    let mut direct = Vec::new();
    let mut is_known = true;
    for (number, step) in steps.iter().enumerate() {
        if steps[..number].iter().any(|other| other.id == step.id) {
            let found = format!("the duplicate value \"{}\"", step.id);
            errors.reject(format!("{path}[{number}].id"), found, "a unique id");
            is_known = false;
        }
        let mut set = StepSet::default();
        for id in &step.depends_on {
            if let Some(found) = steps.iter().position(|other| other.id == *id) {
                set.insert(found);
                continue;
            }
            is_known = false;
            let path = format!("{path}[{number}].dependsOn");
            let known = steps.iter().map(|step| step.id.as_str());
            let allowed = "the id of a step of this tool".to_owned();
            errors.reject_name(&path, id, (format!("\"{id}\""), allowed), known);
        }
        direct.push(set);
    }
    if !is_known {
        return None;
    }
    match Graph::new(direct) {
        Ok(graph) => Some(graph),
        Err(Cycle(numbers)) => {
            let first = numbers.first().copied();
            let ids = numbers.iter().copied().chain(first).map(|step| steps[step].id.as_str());
            let cycle = ids.collect::<Vec<_>>().join(" -> ");
            let found = format!("a cycle of dependsOn: {cycle}");
            let path = format!("{path}[{}].dependsOn", first.unwrap_or_default());
            errors.reject(path, found, "dependsOn without cycles");
            None
        }
    }
}

/// Rejects reads of parameters that the schema forbids.
fn check_parameter_reads(
    parameters: Option<&Parameters>,
    reads: &TemplateReads,
    errors: &mut Errors,
) {
    let Some(Parameters { schema, .. }) = parameters else { return };
    let source = schema.as_value();
    let is_closed = source.get("additionalProperties") == Some(&Value::Bool(false))
        && source.get("patternProperties").is_none();
    if !is_closed {
        return;
    }
    let properties = source.get("properties").and_then(Value::as_object);
    for read in &reads.parameters {
        if schema.property(&read.name).is_some() {
            continue;
        }
        let found = format!("a template that reads .params.{}", read.name);
        let known = properties.into_iter().flatten().map(|(name, _)| name.as_str());
        let allowed = "a property of parameters, which has no others".to_owned();
        errors.reject_name(&read.path, &read.name, (found, allowed), known);
    }
}
