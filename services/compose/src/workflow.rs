//! Compiled workflow.

use std::sync::Arc;

use serde_json::Value;
use vmcp_config::{CompositeTool, ConfigError};
use vmcp_core::ToolAnnotations;

use crate::{DefinitionHash, ToolLookup};

/// Compiled composite tool. A clone shares the compiled form.
#[derive(Clone, Debug)]
pub struct Workflow(Arc<Plan>);

#[derive(Debug)]
struct Plan {
    name: Arc<str>,
    description: Option<String>,
    definition: DefinitionHash,
    input_schema: Value,
}

/// Finding of [`Workflow::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// Path of the setting: `compositeTools[0].steps[2].tool`.
    pub path: String,
    /// What is wrong, and what to change.
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
        let _ = path;
        let mut input_schema = serde_json::Map::new();
        input_schema.insert("type".to_owned(), "object".into());
        Ok(Self(Arc::new(Plan {
            name: tool.name.as_str().into(),
            description: tool.description.clone(),
            definition: DefinitionHash::new([0; 32]),
            input_schema: Value::Object(input_schema),
        })))
    }

    /// Checks the workflow against the tools that its steps call.
    #[must_use]
    pub fn check(&self, tools: &dyn ToolLookup) -> Vec<Finding> {
        let _ = tools;
        Vec::new()
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

    /// Returns the hash of the definition.
    #[must_use]
    pub fn definition(&self) -> DefinitionHash {
        self.0.definition
    }

    /// Returns the tools that the steps call, each once, as the configuration names them.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    /// Returns the `inputSchema` of the tool.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.0.input_schema
    }

    /// Returns the `outputSchema` of the tool, if it has structured output.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Value> {
        None
    }

    /// Returns the annotations that follow from those of the called tools: read-only if all are, destructive or open-world if
    /// one is. `None` without calls.
    #[must_use]
    pub fn annotations(&self, tools: &dyn ToolLookup) -> Option<ToolAnnotations> {
        let _ = tools;
        None
    }
}

impl PartialEq for Workflow {
    fn eq(&self, other: &Self) -> bool {
        self.definition() == other.definition()
    }
}
