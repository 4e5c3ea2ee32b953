//! Plan of a workflow: the definition, compiled and checked.

mod arguments;
mod check;
mod compile;
mod definition;
mod errors;
mod expression;
mod graph;
mod output;
mod question_schema;
mod retention;
mod schemas;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use vmcp_config::composite::{ElicitationAction, OutputType};

pub(crate) use self::{
    definition::digest,
    expression::Expression,
    graph::{Graph, StepSet},
    retention::Retention,
};
use crate::{DefinitionHash, JsonSchema};
use expression::TemplateReads;

/// Plan of a workflow.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: Arc<str>,
    pub(crate) description: Option<String>,
    /// Path of the definition in the configuration.
    pub(crate) path: String,
    pub(crate) definition: DefinitionHash,
    pub(crate) timeout: Duration,
    pub(crate) parameters: Parameters,
    pub(crate) steps: Vec<PlannedStep>,
    pub(crate) graph: Graph,
    pub(crate) retention: Retention,
    pub(crate) output: Option<PlannedOutput>,
    pub(crate) output_schema: Option<Value>,
    reads: TemplateReads,
}

/// Parameters of a workflow.
#[derive(Debug)]
pub(crate) struct Parameters {
    /// `inputSchema` of the tool.
    pub(crate) schema: JsonSchema,
    /// Defaults of the top-level properties.
    pub(crate) defaults: Vec<(String, Value)>,
}

impl Parameters {
    /// Returns `true` if a call may omit parameter `name`, and no default replaces it.
    pub(crate) fn may_be_absent(&self, name: &str) -> bool {
        let required = self.schema.as_value().get("required").and_then(Value::as_array);
        let is_required = required.into_iter().flatten().any(|it| it.as_str() == Some(name));
        !is_required && self.defaults.iter().all(|(default, _)| default != name)
    }
}

/// Step of a plan.
#[derive(Debug)]
pub(crate) struct PlannedStep {
    pub(crate) id: Arc<str>,
    pub(crate) path: String,
    pub(crate) action: Action,
    pub(crate) condition: Option<Expression>,
    pub(crate) timeout: Duration,
    /// Timeout in the definition.
    pub(crate) configured_timeout: Option<Duration>,
    /// Output of a skipped or failed step, and of a question that the user did not answer.
    pub(crate) default_results: Option<Arc<Value>>,
    /// `onError: continue`
    pub(crate) continues: bool,
}

/// Action of a step.
#[derive(Debug)]
pub(crate) enum Action {
    Call(PlannedCall),
    Elicit(PlannedQuestion),
    ForEach(PlannedLoop),
}

/// Call of a tool.
#[derive(Debug)]
pub(crate) struct PlannedCall {
    pub(crate) tool: Arc<str>,
    pub(crate) arguments: Vec<(String, Argument)>,
    pub(crate) retry: Option<Retry>,
}

/// Argument of a call.
#[derive(Debug)]
pub(crate) enum Argument {
    Fixed(Value),
    Template(Expression),
}

/// Retries of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    pub(crate) count: u32,
    pub(crate) delay: Duration,
}

/// Question to the user.
#[derive(Debug)]
pub(crate) struct PlannedQuestion {
    pub(crate) message: Expression,
    pub(crate) schema: JsonSchema,
    pub(crate) on_decline: ElicitationAction,
    pub(crate) on_cancel: ElicitationAction,
}

/// Calls for the items of a list.
#[derive(Debug)]
pub(crate) struct PlannedLoop {
    pub(crate) collection: Expression,
    pub(crate) item_var: String,
    pub(crate) max_iterations: usize,
    pub(crate) max_parallel: usize,
    pub(crate) call: PlannedCall,
}

/// Output of a workflow.
#[derive(Debug)]
pub(crate) struct PlannedOutput {
    pub(crate) properties: Vec<PlannedProperty>,
    pub(crate) required: Vec<String>,
}

/// Property of the output.
#[derive(Debug)]
pub(crate) struct PlannedProperty {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) kind: OutputType,
    pub(crate) source: PropertySource,
    /// Value without a value of the template; of type `kind`.
    pub(crate) default: Option<Value>,
}

/// Source of a property's value.
#[derive(Debug)]
pub(crate) enum PropertySource {
    Template(Expression),
    Properties(Vec<PlannedProperty>),
}

impl Plan {
    /// Returns the calls of the steps, with the path of each.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&PlannedStep, &PlannedCall, String)> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Call(call) => Some((step, call, step.path.clone())),
            Action::ForEach(PlannedLoop { call, .. }) => {
                Some((step, call, format!("{}.step", step.path)))
            }
            Action::Elicit(_) => None,
        })
    }

    /// Returns `true` if a template reads `.content` of `step`. The content of others is not kept.
    pub(crate) fn reads_content(&self, step: usize) -> bool {
        self.reads.content.contains(step)
    }

    pub(crate) fn input_schema(&self) -> &Value {
        self.parameters.schema.as_value()
    }
}

impl PlannedStep {
    /// Returns `true` if the step may end without having succeeded, and the run continues.
    pub(crate) fn may_be_skipped(&self) -> bool {
        self.condition.is_some() || self.continues
    }

    /// Returns `true` if the run may continue without an answer to the question of the step.
    pub(crate) fn continues_without_answer(&self) -> bool {
        let Action::Elicit(question) = &self.action else { return false };
        [question.on_decline, question.on_cancel].contains(&ElicitationAction::Continue)
    }

    /// Returns the output of the step if it has no result of its own.
    pub(crate) fn fallback(&self) -> Arc<Value> {
        self.default_results.clone().unwrap_or_else(|| Arc::new(Value::Object(Map::new())))
    }
}

impl Argument {
    pub(crate) fn template(&self) -> Option<&Expression> {
        match self {
            Self::Fixed(_) => None,
            Self::Template(expression) => Some(expression),
        }
    }

    pub(crate) fn is_template(&self) -> bool {
        self.template().is_some()
    }
}
