//! Compilation of steps.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use vmcp_config::composite::{ElicitationAction, InnerStep, OnError, Step, StepKind};

use super::errors::{Errors, member};
use super::expression::{Expression, Scope, StepRead, TemplateReads};
use super::{
    Action, PlannedCall, PlannedLoop, PlannedQuestion, PlannedStep, Retry, arguments,
    question_schema,
};
use crate::limits::{
    MAX_ELICITATION_DEPTH, MAX_ELICITATION_SCHEMA_BYTES, MAX_ELICITATION_TIMEOUT,
    MAX_MESSAGE_BYTES, RETRY_DELAY, STEP_TIMEOUT,
};
use crate::{JsonSchema, condition, schema};

/// Members of the output of a `forEach` step.
const LOOP_FIELDS: &[&str] = &["iterations", "count", "completed", "failed"];
/// Members of the output of an elicitation step.
const QUESTION_FIELDS: &[&str] = &["action", "content", "skipped"];

pub(super) fn compile(
    step: &Step,
    path: &str,
    scope: &Scope<'_>,
    reads: &mut TemplateReads,
    errors: &mut Errors,
) -> Option<PlannedStep> {
    let Step { id, kind, condition, depends_on: _, timeout, default_results, on_error } = step;
    let default_results = default_results.as_ref().and_then(|results| {
        if results.is_object() {
            return Some(Arc::new(results.clone()));
        }
        let found = format!("{results}");
        errors.reject(format!("{path}.defaultResults"), found, "an object, as each output is one");
        None
    });
    let condition = compile_condition(condition.as_deref(), path, scope, reads, errors);
    let configured_timeout = timeout.map(Duration::from);
    let (action, timeout) = match kind {
        StepKind::Tool { tool, arguments } => {
            let compiled = arguments::compile(arguments, path, scope, reads, errors);
            let call = PlannedCall {
                tool: tool.as_str().into(),
                arguments: compiled,
                retry: compile_retry(*on_error),
            };
            (Some(Action::Call(call)), configured_timeout.unwrap_or(STEP_TIMEOUT))
        }
        StepKind::Elicitation { message, schema, on_decline, on_cancel } => {
            reject_retry(*on_error, path, "a question", errors);
            let actions = (*on_decline, *on_cancel);
            let action = compile_question((message, schema), actions, path, scope, reads, errors);
            let timeout = configured_timeout.unwrap_or(STEP_TIMEOUT);
            (action, timeout.min(MAX_ELICITATION_TIMEOUT))
        }
        StepKind::ForEach { .. } => {
            reject_retry(*on_error, path, "a forEach; put onError into its step", errors);
            let action = compile_loop(kind, path, scope, reads, errors);
            (action, configured_timeout.unwrap_or(STEP_TIMEOUT))
        }
    };
    Some(PlannedStep {
        id: id.as_str().into(),
        path: path.to_owned(),
        action: action?,
        condition: condition?,
        timeout,
        configured_timeout,
        default_results,
        continues: *on_error == OnError::Continue,
    })
}

/// Compiles a condition. `None` after an error.
#[allow(clippy::option_option)] // The outer one is an error, the inner one an absent setting.
fn compile_condition(
    condition: Option<&str>,
    path: &str,
    scope: &Scope<'_>,
    reads: &mut TemplateReads,
    errors: &mut Errors,
) -> Option<Option<Expression>> {
    let Some(text) = condition else { return Some(None) };
    let path = format!("{path}.condition");
    let expression = Expression::compile(text, &path, scope, reads, errors)?;
    if let Some(text) = expression.template.literal()
        && condition::parse(text).is_none()
    {
        errors.reject(path, format!("\"{text}\""), "a template whose text is true or false");
        return None;
    }
    Some(Some(expression))
}

fn compile_retry(on_error: OnError) -> Option<Retry> {
    match on_error {
        OnError::Abort | OnError::Continue => None,
        OnError::Retry { count, delay } => {
            let delay = delay.map_or(RETRY_DELAY, Duration::from);
            Some(Retry { count, delay })
        }
    }
}

fn reject_retry(on_error: OnError, path: &str, what: &str, errors: &mut Errors) {
    if matches!(on_error, OnError::Retry { .. }) {
        let path = format!("{path}.onError.action");
        errors.reject(
            path,
            format!("retry of {what}"),
            "abort or continue; only a call is retried",
        );
    }
}

fn compile_question(
    (message, schema): (&str, &Map<String, Value>),
    (on_decline, on_cancel): (ElicitationAction, ElicitationAction),
    path: &str,
    scope: &Scope<'_>,
    reads: &mut TemplateReads,
    errors: &mut Errors,
) -> Option<Action> {
    let message_path = format!("{path}.message");
    if message.len() > MAX_MESSAGE_BYTES {
        let found = format!("{} bytes", message.len());
        errors.reject(&message_path, found, format!("at most {MAX_MESSAGE_BYTES} bytes"));
    }
    let message = Expression::compile(message, &message_path, scope, reads, errors);
    let schema_path = format!("{path}.schema");
    let (bytes, depth) = schema::measure(schema);
    if bytes > MAX_ELICITATION_SCHEMA_BYTES {
        let allowed = format!("at most {MAX_ELICITATION_SCHEMA_BYTES} bytes");
        errors.reject(&schema_path, format!("{bytes} bytes of JSON"), allowed);
        return None;
    }
    if depth > MAX_ELICITATION_DEPTH {
        let allowed = format!("at most {MAX_ELICITATION_DEPTH} levels");
        errors.reject(&schema_path, format!("{depth} levels of nesting"), allowed);
        return None;
    }
    let schema = match JsonSchema::compile(schema) {
        Ok(compiled) => {
            question_schema::check(schema, &schema_path, errors);
            compiled
        }
        Err(found) => {
            let allowed = "a JSON Schema without references to other documents";
            errors.reject(schema_path, found, allowed);
            return None;
        }
    };
    Some(Action::Elicit(PlannedQuestion { message: message?, schema, on_decline, on_cancel }))
}

fn compile_loop(
    kind: &StepKind,
    path: &str,
    scope: &Scope<'_>,
    reads: &mut TemplateReads,
    errors: &mut Errors,
) -> Option<Action> {
    let StepKind::ForEach { collection, item_var, max_iterations, max_parallel, step } = kind
    else {
        return None;
    };
    let collection_path = format!("{path}.collection");
    let collection = Expression::compile(collection, &collection_path, scope, reads, errors);
    if let Some(collection) = &collection {
        check_constant_collection(collection, *max_iterations, &collection_path, errors);
    }
    let inner_path = format!("{path}.step");
    let InnerStep { id: _, r#type: _, tool, arguments, on_error } = step;
    if *on_error == OnError::Continue {
        let allowed = "abort or retry; onError of the forEach step itself continues after failures";
        errors.reject(format!("{inner_path}.onError.action"), "continue", allowed);
    }
    let inner = Scope { item_var: Some(item_var), ..*scope };
    let call = PlannedCall {
        tool: tool.as_str().into(),
        arguments: arguments::compile(arguments, &inner_path, &inner, reads, errors),
        retry: compile_retry(*on_error),
    };
    Some(Action::ForEach(PlannedLoop {
        collection: collection?,
        item_var: item_var.clone(),
        max_iterations: usize::try_from(*max_iterations).unwrap_or(usize::MAX),
        max_parallel: usize::try_from(*max_parallel).unwrap_or(usize::MAX).max(1),
        call,
    }))
}

/// Rejects a collection without a template that is not a JSON array, or that is too long.
fn check_constant_collection(
    collection: &Expression,
    max_iterations: u32,
    path: &str,
    errors: &mut Errors,
) {
    let Some(text) = collection.template.literal() else { return };
    let Ok(Value::Array(items)) = serde_json::from_str(text) else {
        let allowed =
            "a template that prints a JSON array, such as {{json .steps.ID.output.items}}";
        return errors.reject(path, format!("\"{text}\""), allowed);
    };
    if u32::try_from(items.len()).is_ok_and(|count| count <= max_iterations) {
        return;
    }
    let allowed = format!("at most {max_iterations} items, as maxIterations says");
    errors.reject(path, format!("{} items", items.len()), allowed);
}

/// Checks the reads of outputs whose shape is known: those of steps that may be skipped, of questions and of `forEach`.
pub(super) fn check_reads(steps: &[PlannedStep], reads: &TemplateReads, errors: &mut Errors) {
    let mut missing = Vec::new();
    for read in &reads.steps {
        let (Some(target), Some(fields)) = (steps.get(read.step), &read.output) else { continue };
        let known = match &target.action {
            Action::Call(_) => None,
            Action::Elicit(_) => Some(QUESTION_FIELDS),
            Action::ForEach(_) => Some(LOOP_FIELDS),
        };
        if let (Some(known), Some(field)) = (known, fields.first())
            && !known.contains(&field.as_str())
        {
            let found = format!("a template that reads .steps.{}.output.{field}", target.id);
            let allowed = format!("one of {}", known.join(", "));
            errors.reject_name(&read.path, field, (found, allowed), known.iter().copied());
            continue;
        }
        let field = fields.first().map(String::as_str);
        let cause = if target.may_be_skipped() {
            format!("step \"{}\" may be skipped or fail", target.id)
        } else if target.continues_without_answer() && field == Some("content") {
            format!("the user may decline or cancel the question of step \"{}\"", target.id)
        } else {
            continue;
        };
        if lacks_default(target, read, fields) && !missing.contains(&(read.step, field)) {
            missing.push((read.step, field));
            let reason = format!("{} reads it, and {cause}", read.path);
            reject_missing_default(target, field, &reason, errors);
        }
    }
}

fn lacks_default(target: &PlannedStep, read: &StepRead, fields: &[String]) -> bool {
    match (&target.default_results, fields.first()) {
        (None, None) => !read.is_condition,
        (None, Some(_)) => true,
        (Some(_), None) => false,
        (Some(results), Some(field)) => results.get(field).is_none(),
    }
}

fn reject_missing_default(
    target: &PlannedStep,
    field: Option<&str>,
    reason: &str,
    errors: &mut Errors,
) {
    let path = format!("{}.defaultResults", target.path);
    match field {
        None => errors.reject(path, "no value", format!("an object: {reason}")),
        Some(field) => {
            let path = member(&path, field);
            errors.reject(path, "no value", format!("a value: {reason}"));
        }
    }
}
