//! Step that runs for each item of a list.

use serde_json::{Map, Value};

use super::on_error::OnError;
use super::placeholder::placeholder_text;
use crate::config_value::{Constraint, keyword_enum, section};

section! {
    /// Step that runs for each item: a call of a tool.
    pub struct InnerStep {
        /// Name of the step in messages.
        pub id: Option<String>;
        /// Type of the step; only calls of tools are supported.
        pub r#type: InnerType = InnerType::Tool;
        /// The tool, as workload.tool_name.
        pub tool: String, [Constraint::NotEmpty];
        /// Arguments; first-level text is a template.
        pub arguments: Map<String, Value> = Map::new();
        /// Handling of a failed call.
        pub on_error: OnError = OnError::Abort;
    }
}

keyword_enum! {
    /// Action of an inner step.
    pub enum InnerType {
        /// Calls a tool.
        Tool = "tool",
    }
}

// === impl InnerStep ===

impl InnerStep {
    /// Returns the replacement of a missing step in lossy mode.
    pub(super) fn placeholder() -> Self {
        Self {
            id: None,
            r#type: InnerType::Tool,
            tool: placeholder_text(),
            arguments: Map::new(),
            on_error: OnError::Abort,
        }
    }
}
