//! Compiled workflow.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use vmcp_config::{CompositeTool, ConfigError};
use vmcp_core::ToolAnnotations;

use crate::plan::{Action, Plan, PlannedStep};
use crate::{DefinitionHash, RunError, RunErrorKind, ToolLookup};

/// Compiled composite tool. A clone shares the compiled form.
#[derive(Clone, Debug)]
pub struct Workflow(pub(crate) Arc<Plan>);

/// Step of a workflow, for descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSummary<'a> {
    /// Identifier.
    pub id: &'a str,
    /// `tool`, `elicitation` or `forEach`.
    pub kind: &'static str,
    /// The tool that it calls, if any.
    pub tool: Option<&'a str>,
    /// Timeout.
    pub timeout: Duration,
}

/// Finding of [`Workflow::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// Path of the setting: `compositeTools[0].steps[2].tool`.
    pub path: String,
    /// The problem and its remedy.
    pub message: String,
}

/// Severity of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The workflow may fail or act twice.
    Warning,
    /// The workflow cannot succeed.
    Error,
}

impl Workflow {
    /// Compiles a composite tool. `path` is its place in the configuration, such as `compositeTools[0]`.
    ///
    /// # Errors
    /// All mistakes that can be known without the tools, each with its path.
    pub fn compile(tool: &CompositeTool, path: &str) -> Result<Self, Vec<ConfigError>> {
        Plan::compile(tool, path).map(|plan| Self(Arc::new(plan)))
    }

    /// Checks the workflow against the tools that its steps call.
    #[must_use]
    pub fn check(&self, tools: &dyn ToolLookup) -> Vec<Finding> {
        self.0.check(tools)
    }

    /// Returns the name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the description of the tool.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Returns the place of the definition in the configuration.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the hash of the definition.
    #[must_use]
    pub fn definition(&self) -> DefinitionHash {
        self.0.definition
    }

    /// Returns the timeout of a run.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Returns the tools that the steps call, each once, as the configuration names them.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        self.0.calls().map(|(_, call, _)| &*call.tool).filter(move |tool| seen.insert(*tool))
    }

    /// Returns the `inputSchema` of the tool.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        self.0.input_schema()
    }

    /// Returns the `outputSchema` of the tool, if it has structured output.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Value> {
        self.0.output_schema.as_ref()
    }

    /// Returns the annotations that follow from those of the called tools: read-only if all are, destructive or open-world if
    /// one is. A tool that says nothing counts as MCP's defaults say, an unknown tool as the worst case. `None` without calls.
    #[must_use]
    pub fn annotations(&self, tools: &dyn ToolLookup) -> Option<ToolAnnotations> {
        let mut called = self.tools().peekable();
        called.peek()?;
        let (mut read_only, mut destructive, mut open_world) = (true, false, false);
        for tool in called {
            let known = tools.tool(tool).map(|tool| tool.annotations).unwrap_or_default();
            read_only &= known.read_only.unwrap_or(false);
            destructive |= known.destructive.unwrap_or(known.read_only != Some(true));
            open_world |= known.open_world.unwrap_or(true);
        }
        Some(ToolAnnotations {
            read_only: Some(read_only),
            destructive: Some(destructive),
            idempotent: None,
            open_world: Some(open_world),
        })
    }

    /// Returns the arguments with the defaults of absent ones.
    ///
    /// # Errors
    /// [`RunErrorKind::InvalidArguments`], if they do not fit the `inputSchema`. Names each invalid argument.
    pub fn check_arguments(
        &self,
        mut arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, RunError> {
        for (name, default) in &self.0.parameters.defaults {
            if !arguments.contains_key(name) {
                arguments.insert(name.clone(), default.clone());
            }
        }
        let value = Value::Object(arguments);
        let violations = self.0.parameters.schema.violations(&value);
        let Value::Object(arguments) = value else { return Ok(Map::new()) };
        if violations.is_empty() {
            return Ok(arguments);
        }
        let list: Vec<_> = violations
            .into_iter()
            .map(|violation| match violation.pointer.as_str() {
                "" => violation.message,
                pointer => format!("{pointer}: {}", violation.message),
            })
            .collect();
        let message = format!("invalid arguments for tool {}: {}", self.name(), list.join("; "));
        Err(RunError::new(RunErrorKind::InvalidArguments, message))
    }

    /// Returns the steps in the order of the definition.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = StepSummary<'_>> {
        self.0.steps.iter().map(summarize)
    }

    /// Returns the numbers of the steps that have to be done before step `number` starts, in the order of the definition.
    pub fn dependencies(&self, number: usize) -> impl Iterator<Item = usize> {
        self.0.graph.direct(number).iter()
    }

    /// Returns the numbers of the steps in an order in which each follows its dependencies.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        self.0.graph.order()
    }

    /// Returns the chain of dependencies with the largest sum of weights: the numbers of its steps, first one first. With a
    /// weight of 1 it is the longest chain, with measured durations the one that decides how long a run takes.
    #[must_use]
    pub fn critical_path(&self, weight: impl Fn(usize) -> u64) -> Vec<usize> {
        self.0.graph.critical_path(weight)
    }
}

fn summarize(step: &PlannedStep) -> StepSummary<'_> {
    let (kind, tool) = match &step.action {
        Action::Call(call) => ("tool", Some(&*call.tool)),
        Action::Elicit(_) => ("elicitation", None),
        Action::ForEach(of) => ("forEach", Some(&*of.call.tool)),
    };
    StepSummary { id: &step.id, kind, tool, timeout: step.timeout }
}

impl PartialEq for Workflow {
    fn eq(&self, other: &Self) -> bool {
        self.definition() == other.definition()
    }
}
