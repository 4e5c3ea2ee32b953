//! Composite tools: those of the resource, and the definitions that it refers to.

use vmcp_config::{CompositeTool, ConfigError, ResourceRef};

use super::converter::{Converter, describe, join};
use crate::{
    ValidationStatus, VirtualMCPCompositeToolDefinition, VirtualMCPCompositeToolDefinitionSpec,
    virtual_mcp_server::{CompositeToolRefsValidated, ServerValid},
};

/// Composite tools with the path of each.
pub(super) type LocatedTools = Vec<(CompositeTool, String)>;

/// Errors of a definition, with paths within its spec. None of the lists is empty.
pub(super) enum DefinitionErrors {
    /// It has not the shape of a composite tool.
    Schema(Vec<ConfigError>),
    /// It has, and cannot be compiled.
    Workflow(Vec<ConfigError>),
}

impl Converter<'_> {
    /// Returns the tools of the resource and those of the definitions, in this order.
    pub(super) fn composite_tools(
        &mut self,
        inline: Vec<CompositeTool>,
        references: &[ResourceRef],
    ) -> LocatedTools {
        let mut tools: LocatedTools = inline
            .into_iter()
            .enumerate()
            .map(|(index, tool)| (tool, format!("spec.config.compositeTools[{index}]")))
            .collect();
        for (tool, path) in &tools {
            for error in self.tool_errors(tool) {
                self.reject(join(path, &error.path), ServerValid::Invalid, describe(&error));
            }
        }
        let errors = self.errors.len();
        for (index, ResourceRef { name }) in references.iter().enumerate() {
            let path = format!("spec.config.compositeToolRefs[{index}].name");
            let Some(tool) = self.referenced_tool(name, &path) else { continue };
            if let Some((_, other)) = tools.iter().find(|(other, _)| other.name == tool.name) {
                let message = format!(
                    "VirtualMCPCompositeToolDefinition {name} has the tool name \"{}\" of {other}; rename one",
                    tool.name
                );
                self.reject(path, CompositeToolRefsValidated::Invalid, message);
                continue;
            }
            tools.push((tool, format!("VirtualMCPCompositeToolDefinition/{name}: spec")));
        }
        if self.errors.len() == errors && !references.is_empty() {
            let message = "all composite tool definitions exist and are valid";
            self.report(CompositeToolRefsValidated::Valid, message);
        }
        tools
    }

    fn tool_errors(&self, tool: &CompositeTool) -> Vec<ConfigError> {
        let checks = self.inputs.checks.as_ref();
        checks.map(|checks| checks.composite_tool(tool)).unwrap_or_default()
    }

    /// Reads and compiles the tool of a definition.
    pub(super) fn definition_tool(
        &self,
        spec: &VirtualMCPCompositeToolDefinitionSpec,
    ) -> Result<CompositeTool, DefinitionErrors> {
        let tool = spec
            .parse()
            .map_err(|errors| DefinitionErrors::Schema(errors.iter().cloned().collect()))?;
        let errors = self.tool_errors(&tool);
        if errors.is_empty() {
            return Ok(tool);
        }
        Err(DefinitionErrors::Workflow(errors))
    }

    fn referenced_tool(&mut self, name: &str, path: &str) -> Option<CompositeTool> {
        let Some(definition) = self.inputs.composite_tool_definitions.get(name).cloned() else {
            let message = format!("VirtualMCPCompositeToolDefinition {name} does not exist");
            self.reject(path, CompositeToolRefsValidated::NotFound, message);
            return None;
        };
        let result = self.definition_tool(&definition.spec).map_err(|errors| {
            let errors: Vec<_> = errors.list().iter().map(ToString::to_string).collect();
            errors.join("; ")
        });
        let result = result.and_then(|tool| match reported_errors(&definition) {
            Some(errors) if self.inputs.checks.is_none() => Err(errors.join("; ")),
            Some(_) | None => Ok(tool),
        });
        match result {
            Ok(tool) => Some(tool),
            Err(message) => {
                let message =
                    format!("VirtualMCPCompositeToolDefinition {name} is invalid: {message}");
                self.reject(path, CompositeToolRefsValidated::Invalid, message);
                None
            }
        }
    }
}

impl DefinitionErrors {
    pub(super) fn list(&self) -> &[ConfigError] {
        match self {
            Self::Schema(errors) | Self::Workflow(errors) => errors,
        }
    }
}

/// Returns the errors that the controller of a definition reports. A result of another generation tells nothing about this one.
fn reported_errors(definition: &VirtualMCPCompositeToolDefinition) -> Option<&[String]> {
    let status = definition.status.as_ref()?;
    let is_current = status.observed_generation.is_none()
        || status.observed_generation == definition.metadata.generation;
    let is_invalid = status.validation_status == ValidationStatus::Invalid;
    (is_current && is_invalid).then_some(&status.validation_errors)
}
