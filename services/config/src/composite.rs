//! Composite tools (`compositeTools`).

mod inner_step;
mod on_error;
mod output;
mod placeholder;
mod rules;
mod step;
mod step_tools;

use serde_json::{Map, Value};

pub use self::{
    inner_step::InnerStep,
    on_error::OnError,
    output::{Output, OutputType, Property},
    step::{ElicitationAction, ElicitationHandler, Step, StepKind},
};
use crate::{
    config_value::{Constraint, Rule, section},
    duration::Duration,
};

section! {
    /// Composite tool: a tool of several steps.
    pub struct CompositeTool {
        /// Unique name of the tool.
        pub name: String, [Constraint::NotEmpty];
        /// Description for clients.
        pub description: Option<String>;
        /// JSON Schema of the arguments: `type: object` and what belongs to it.
        pub parameters: Option<Map<String, Value>>;
        /// Timeout of the tool.
        pub timeout: Option<Duration>, [Constraint::Positive];
        /// The steps, at most 100.
        pub steps: Vec<Step>, [Constraint::MinItems(1), Constraint::MaxItems(100)];
        /// Structured output. Absent means the output of the last step.
        pub output: Option<Output>;
    }
    rules [Rule::Unique("steps", "id")]
    check CompositeTool::check
}
