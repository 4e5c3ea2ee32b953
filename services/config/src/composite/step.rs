//! One step of a composite tool.

use serde_json::{Map, Value};

use super::inner_step::InnerStep;
use super::on_error::OnError;
use super::placeholder::{or_placeholder, placeholder_schema, placeholder_text};
use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    duration::Duration,
    patterns,
    tree::Node,
};

/// One step of a composite tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Identifier, unique in its tool.
    pub id: String,
    /// Action of the step.
    pub kind: StepKind,
    /// Template; the step is skipped unless it is true.
    pub condition: Option<String>,
    /// Steps that must finish first.
    pub depends_on: Vec<String>,
    /// Timeout of the step.
    pub timeout: Option<Duration>,
    /// Output if the step is skipped, or if the tool continues after its failure or without an answer to its question.
    pub default_results: Option<Value>,
    /// Handling of the step's failure.
    pub on_error: OnError,
}

/// Action of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// Calls a tool.
    Tool {
        /// `workload.tool_name`.
        tool: String,
        /// Arguments; first-level text is a template.
        arguments: Map<String, Value>,
    },
    /// Sends an elicitation to the user.
    Elicitation {
        /// Template of the message.
        message: String,
        /// JSON Schema of the response.
        schema: Map<String, Value>,
        /// Handling of a declined elicitation.
        on_decline: ElicitationAction,
        /// Handling of a cancelled elicitation.
        on_cancel: ElicitationAction,
    },
    /// Calls a tool for each item of a list.
    ForEach {
        /// Template of a JSON array.
        collection: String,
        /// Name of the item in templates.
        item_var: String,
        /// Maximum number of items, at most 1000.
        max_iterations: u32,
        /// Maximum number of concurrent calls, at most 50.
        max_parallel: u32,
        /// Step that runs for each item.
        step: InnerStep,
    },
}

keyword_enum! {
    /// Handling of an elicitation that the user declines or cancels.
    pub enum ElicitationAction {
        /// The tool ends successfully without the remaining steps.
        SkipRemaining = "skip_remaining",
        /// The tool fails.
        Abort = "abort",
        /// The next step runs.
        Continue = "continue",
    }
}

section! {
    /// Handling of an elicitation that the user declines or cancels.
    pub struct ElicitationHandler {
        /// skip_remaining ends the tool, abort fails it, continue goes to the next step.
        pub action: ElicitationAction = ElicitationAction::Abort;
    }
}

keyword_enum! {
    /// Action of a step.
    enum StepTag {
        /// Calls a tool.
        Tool = "tool",
        /// Sends an elicitation to the user.
        Elicitation = "elicitation",
        /// Calls a tool for each item of a list.
        ForEach = "forEach",
    }
}

section! {
    /// One step of a composite tool.
    struct RawStep {
        /// Unique id of the step.
        id: String, [Constraint::NotEmpty];
        /// tool calls a tool, elicitation sends a request to the user, forEach calls a tool for each item of a list.
        r#type: StepTag = StepTag::Tool;
        /// The tool, as workload.tool_name. Only with `type: tool`.
        tool: Option<String>, [Constraint::NotEmpty];
        /// Arguments; first-level text is a template over .params and .steps. Only with `type: tool`.
        arguments: Option<Map<String, Value>>;
        /// Template; the step is skipped unless it is true.
        condition: Option<String>;
        /// Ids of steps that must finish first.
        depends_on: Vec<String> = Vec::new();
        /// Timeout of the step.
        timeout: Option<Duration>, [Constraint::Positive];
        /// Output if the step is skipped, or if the tool continues after its failure or without an answer to its question.
        default_results: Option<Value>;
        /// Handling of the step's failure.
        on_error: OnError = OnError::Abort;
        /// Template of the message. Only with `type: elicitation`.
        message: Option<String>, [Constraint::NotEmpty];
        /// JSON Schema of the response. Only with `type: elicitation`.
        schema: Option<Map<String, Value>>;
        /// Handling of a declined elicitation. Only with `type: elicitation`.
        on_decline: Option<ElicitationHandler>;
        /// Handling of a cancelled elicitation. Only with `type: elicitation`.
        on_cancel: Option<ElicitationHandler>;
        /// Template of a JSON array. Only with `type: forEach`.
        collection: Option<String>, [Constraint::NotEmpty];
        /// Name of the item in templates; `item` when absent. Only with `type: forEach`.
        item_var: Option<String>, [Constraint::Matches(&patterns::IDENTIFIER)];
        /// Maximum number of items; 100 when absent. Only with `type: forEach`.
        max_iterations: Option<u32>, [Constraint::Range(1, 1000)];
        /// Maximum number of concurrent calls; 10 when absent. Only with `type: forEach`.
        max_parallel: Option<u32>, [Constraint::Range(1, 50)];
        /// Step that runs for each item. Only with `type: forEach`.
        step: Option<InnerStep>;
    }
    rules [Rule::Variants {
        tag: "type",
        default: Some("tool"),
        variants: &[
            Variant {
                value: "tool",
                requires: &["tool"],
                forbids: &[
                    "message", "schema", "onDecline", "onCancel",
                    "collection", "itemVar", "maxIterations", "maxParallel", "step",
                ],
            },
            Variant {
                value: "elicitation",
                requires: &["message", "schema"],
                forbids: &["tool", "arguments", "collection", "itemVar", "maxIterations", "maxParallel", "step"],
            },
            Variant {
                value: "forEach",
                requires: &["collection", "step"],
                forbids: &["tool", "arguments", "message", "schema", "onDecline", "onCancel"],
            },
        ],
    }]
}

raw_conversion!(Step as RawStep);

// === impl Step ===

impl Step {
    fn from_raw(raw: RawStep, node: &Node, cx: &mut Context) -> Option<Self> {
        let RawStep {
            id,
            r#type,
            tool,
            arguments,
            condition,
            depends_on,
            timeout,
            default_results,
            on_error,
            message,
            schema,
            on_decline,
            on_cancel,
            collection,
            item_var,
            max_iterations,
            max_parallel,
            step,
        } = raw;
        let is_lossy = cx.is_lossy();
        let kind = match r#type {
            StepTag::Tool => StepKind::Tool {
                tool: or_placeholder(tool, is_lossy, placeholder_text)?,
                arguments: arguments.unwrap_or_default(),
            },
            StepTag::Elicitation => StepKind::Elicitation {
                message: or_placeholder(message, is_lossy, placeholder_text)?,
                schema: or_placeholder(schema, is_lossy, placeholder_schema)?,
                on_decline: action(on_decline),
                on_cancel: action(on_cancel),
            },
            StepTag::ForEach => StepKind::ForEach {
                collection: or_placeholder(collection, is_lossy, || "[]".to_owned())?,
                item_var: read_item_var(item_var, node, cx)?,
                max_iterations: max_iterations.unwrap_or(100),
                max_parallel: max_parallel.unwrap_or(10),
                step: or_placeholder(step, is_lossy, InnerStep::placeholder)?,
            },
        };
        Some(Self { id, kind, condition, depends_on, timeout, default_results, on_error })
    }

    fn to_raw(&self) -> RawStep {
        let Self { id, kind, condition, depends_on, timeout, default_results, on_error } =
            self.clone();
        let mut form = RawStep {
            id,
            r#type: StepTag::Tool,
            tool: None,
            arguments: None,
            condition,
            depends_on,
            timeout,
            default_results,
            on_error,
            message: None,
            schema: None,
            on_decline: None,
            on_cancel: None,
            collection: None,
            item_var: None,
            max_iterations: None,
            max_parallel: None,
            step: None,
        };
        form.describe(kind);
        form
    }
}

impl RawStep {
    fn describe(&mut self, kind: StepKind) {
        match kind {
            StepKind::Tool { tool, arguments } => {
                self.r#type = StepTag::Tool;
                self.tool = Some(tool);
                self.arguments = Some(arguments);
            }
            StepKind::Elicitation { message, schema, on_decline, on_cancel } => {
                self.r#type = StepTag::Elicitation;
                self.message = Some(message);
                self.schema = Some(schema);
                self.on_decline = Some(ElicitationHandler { action: on_decline });
                self.on_cancel = Some(ElicitationHandler { action: on_cancel });
            }
            StepKind::ForEach { collection, item_var, max_iterations, max_parallel, step } => {
                self.r#type = StepTag::ForEach;
                self.collection = Some(collection);
                self.item_var = Some(item_var);
                self.max_iterations = Some(max_iterations);
                self.max_parallel = Some(max_parallel);
                self.step = Some(step);
            }
        }
    }
}

/// Returns the name of the item in templates.
fn read_item_var(name: Option<String>, node: &Node, cx: &mut Context) -> Option<String> {
    let name = name.unwrap_or_else(|| "item".to_owned());
    if name != "index" {
        return Some(name);
    }
    cx.reject_key(node, "itemVar", "\"index\"", "another name; index is the number of the item");
    cx.is_lossy().then_some(name)
}

fn action(answer: Option<ElicitationHandler>) -> ElicitationAction {
    answer.map_or(ElicitationAction::Abort, |answer| answer.action)
}
