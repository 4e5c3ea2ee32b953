//! Checks of a plan that need the tools, and warnings.

use std::time::Duration;

use serde_json::{Map, Value};
use vmcp_config::nearest;

use super::arguments::find_nested_template;
use super::errors::member;
use super::expression::{Expression, StepRead};
use super::{Action, Argument, Plan, PlannedCall, PlannedStep};
use crate::{Finding, JsonSchema, Severity, ToolInfo, ToolLookup, coerce, condition};

impl Plan {
    /// Checks the plan against the tools that its steps call.
    pub(crate) fn check(&self, tools: &dyn ToolLookup) -> Vec<Finding> {
        let mut findings = Findings::default();
        for (_, call, path) in self.calls() {
            findings.check_call(self, call, &path, tools);
        }
        for read in &self.reads.steps {
            self.check_output_read(read, tools, &mut findings);
        }
        for step in &self.steps {
            findings.check_step(step);
            findings.check_timeout(step, self.timeout);
        }
        self.check_parameter_reads(&mut findings);
        self.check_skipped_reads(&mut findings);
        findings.0
    }

    /// Returns the type of the only value that a template prints, if its schema names one.
    fn printed_type(&self, expression: &Expression, tools: &dyn ToolLookup) -> Option<String> {
        let keys = expression.printed.as_ref()?;
        let (root, rest) = keys.split_first()?;
        match root.as_str() {
            "params" => type_of(self.parameters.schema.as_value(), rest),
            "steps" => {
                let (id, rest) = rest.split_first()?;
                let (field, rest) = rest.split_first()?;
                let step = self.steps.iter().find(|step| *step.id == **id)?;
                let Action::Call(call) = &step.action else { return None };
                let schema = tools.tool(&call.tool)?.output_schema?;
                (field == "output").then(|| type_of(&schema, rest)).flatten()
            }
            _ => None,
        }
    }

    /// Reports a read of a field that the tool's output schema does not have.
    fn check_output_read(&self, read: &StepRead, tools: &dyn ToolLookup, to: &mut Findings) {
        let (step, Some(fields)) = (&self.steps[read.step], &read.output) else { return };
        let Action::Call(call) = &step.action else { return };
        let schema = tools.tool(&call.tool).and_then(|tool| tool.output_schema);
        let mut schema = schema.as_deref();
        let mut place = format!(".steps.{}.output", step.id);
        for field in fields {
            let Some(properties) = schema.and_then(|s| s.get("properties")?.as_object()) else {
                return;
            };
            if let Some(property) = properties.get(field) {
                place = format!("{place}.{field}");
                schema = Some(property);
                continue;
            }
            let is_closed =
                schema.and_then(|s| s.get("additionalProperties")) == Some(&Value::Bool(false));
            let severity = if is_closed { Severity::Error } else { Severity::Warning };
            let hint = suggest(field, properties);
            to.add(
                severity,
                &read.path,
                format!(
                    "reads {place}.{field}, which the outputSchema of {} lacks{hint}",
                    call.tool
                ),
            );
            return;
        }
    }

    fn check_parameter_reads(&self, to: &mut Findings) {
        let schema = &self.parameters.schema;
        let is_open = schema.as_value().get("patternProperties").is_some();
        for read in self.reads.parameters.iter().filter(|_| !is_open) {
            if schema.property(&read.name).is_some() {
                if read.is_printed && self.parameters.may_be_absent(&read.name) {
                    to.add(Severity::Warning, &read.path, absent_parameter(&read.name));
                }
                continue;
            }
            let properties = schema.as_value().get("properties").and_then(Value::as_object);
            let hint = properties.map_or(String::new(), |all| suggest(&read.name, all));
            let message = format!(
                "reads .params.{}, which parameters do not declare: clients do not know of it{hint}",
                read.name
            );
            to.add(Severity::Warning, &read.path, message);
        }
        for path in &self.reads.vars {
            to.add(Severity::Warning, path, "reads .vars, which is always empty".to_owned());
        }
    }

    /// Reports output properties without a value after a user's answer skipped the remaining steps.
    fn check_skipped_reads(&self, to: &mut Findings) {
        use vmcp_config::composite::ElicitationAction::SkipRemaining;
        let skips = |step: &PlannedStep| match &step.action {
            Action::Elicit(question) => {
                question.on_decline == SkipRemaining || question.on_cancel == SkipRemaining
            }
            Action::Call(_) | Action::ForEach(_) => false,
        };
        let skipping: Vec<_> = (0..self.steps.len()).filter(|&n| skips(&self.steps[n])).collect();
        let may_skip = |step: usize| {
            skipping.iter().any(|&by| by != step && !self.graph.transitive(by).contains(step))
        };
        for read in self.reads.steps.iter().filter(|read| read.in_output) {
            let step = &self.steps[read.step];
            if read.is_condition || step.default_results.is_some() || !may_skip(read.step) {
                continue;
            }
            let message = format!(
                "reads step \"{}\", which skip_remaining may skip: give the step defaultResults or \
                 the property a default",
                step.id
            );
            to.add(Severity::Warning, &read.path, message);
        }
    }
}

/// Findings so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, path: &str, message: String) {
        self.0.push(Finding { severity, path: path.to_owned(), message });
    }

    fn error(&mut self, path: &str, message: String) {
        self.add(Severity::Error, path, message);
    }

    fn warn(&mut self, path: &str, message: String) {
        self.add(Severity::Warning, path, message);
    }

    fn check_call(&mut self, plan: &Plan, call: &PlannedCall, path: &str, tools: &dyn ToolLookup) {
        for (name, argument) in &call.arguments {
            if let Argument::Fixed(value) = argument
                && let Some(place) = find_nested_template(value, name)
            {
                let message = format!(
                    "{place} is sent as it is: only text on the first level of arguments is a template"
                );
                self.warn(&member(&format!("{path}.arguments"), name), message);
            }
        }
        let Some(tool) = tools.tool(&call.tool) else {
            let message = format!("no backend has the tool \"{}\"", call.tool);
            return self.error(&format!("{path}.tool"), message);
        };
        if call.retry.is_some() && !tool.is_repeatable() {
            let message = format!(
                "retries {}, which is neither read-only nor idempotent: a retry may act twice",
                call.tool
            );
            self.warn(&format!("{path}.onError.action"), message);
        }
        let path = format!("{path}.arguments");
        self.check_arguments(call, &tool, &path);
        for (name, argument) in &call.arguments {
            let printed = argument.template().and_then(|it| plan.printed_type(it, tools));
            if let Some(printed) = printed {
                self.check_printed(&printed, &tool, name, &member(&path, name));
            }
        }
    }

    /// Reports an argument whose template prints a value of another type than the tool expects.
    fn check_printed(&mut self, printed: &str, tool: &ToolInfo, name: &str, path: &str) {
        let schema = tool.input_schema.as_deref();
        let expected = schema.and_then(|schema| type_of(schema, &[name.to_owned()]));
        match (printed, expected.as_deref()) {
            (_, Some("object" | "array" | "null")) => {}
            ("object" | "array" | "boolean", Some(expected @ ("integer" | "number")))
            | ("object" | "array", Some(expected @ "boolean")) => {
                self.error(path, format!("prints {printed}, but the tool expects {expected}"));
            }
            ("object" | "array", _) => {
                let message = format!("prints {printed} as Go does: use json for JSON");
                self.warn(path, message);
            }
            _ => {}
        }
    }

    fn check_arguments(&mut self, call: &PlannedCall, tool: &ToolInfo, path: &str) {
        let Some(schema) = tool.input_schema.as_deref() else { return };
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !call.arguments.iter().any(|(argument, _)| argument == name) {
                let message = format!("{} requires the argument \"{name}\"", call.tool);
                self.error(&member(path, name), message);
            }
        }
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for (name, argument) in &call.arguments {
            match properties.and_then(|properties| properties.get(name)) {
                Some(property) => self.check_argument(argument, property, &member(path, name)),
                None if is_closed => {
                    let hint = properties.map_or(String::new(), |all| suggest(name, all));
                    let message = format!("{} has no argument \"{name}\"{hint}", call.tool);
                    self.error(&member(path, name), message);
                }
                None => {}
            }
        }
    }

    fn check_argument(&mut self, argument: &Argument, property: &Value, path: &str) {
        let kind = property.get("type").and_then(Value::as_str);
        let literal = match argument {
            Argument::Fixed(value) => Some(value.clone()),
            Argument::Template(expression) => {
                let text = expression.template.literal();
                text.map(|text| coerce::argument(text.to_owned(), Some(property)))
            }
        };
        let Some(value) = literal else {
            if let Some(kind @ ("object" | "array" | "null")) = kind {
                self.error(path, format!("is text, but the tool expects {kind}"));
            }
            return;
        };
        // The root of the schema is not at hand here, so references cannot be followed.
        let Some(property) = property.as_object() else { return };
        if crate::schema::has_reference(property) {
            return;
        }
        let Ok(schema) = JsonSchema::compile(property) else { return };
        for violation in schema.violations(&value) {
            self.error(path, format!("does not fit the tool's input: {}", violation.message));
        }
    }

    fn check_timeout(&mut self, step: &PlannedStep, of_workflow: Duration) {
        let Some(configured) = step.configured_timeout else { return };
        let path = format!("{}.timeout", step.path);
        if step.timeout < configured {
            let message = format!("is longer than a question waits: {:?}", step.timeout);
            self.warn(&path, message);
        } else if configured > of_workflow {
            let message = format!("is longer than the timeout of the workflow: {of_workflow:?}");
            self.warn(&path, message);
        }
    }

    fn check_step(&mut self, step: &PlannedStep) {
        let literal = step.condition.as_ref().and_then(|c| c.template.literal());
        if literal.and_then(condition::parse) == Some(false) {
            let message = "is always false: the step never runs".to_owned();
            self.warn(&format!("{}.condition", step.path), message);
        }
    }
}

fn absent_parameter(name: &str) -> String {
    format!(
        "prints .params.{name}, which is optional and has no default: without it, the text is \"<no value>\"; \
         require it, set a default, or test it with if"
    )
}

/// Returns the type of the value at `keys`, if the schema names a single one.
fn type_of(schema: &Value, keys: &[String]) -> Option<String> {
    let at = keys.iter().try_fold(schema, |schema, key| schema.get("properties")?.get(key))?;
    at.get("type")?.as_str().map(ToOwned::to_owned)
}

fn suggest(name: &str, properties: &Map<String, Value>) -> String {
    nearest(name, properties.keys().map(String::as_str))
        .map_or(String::new(), |known| format!(" (did you mean {known}?)"))
}
