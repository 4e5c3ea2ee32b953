//! Composite tools: those of the resource, and the definitions that it refers to.

use vmcp_config::{CompositeTool, ConfigError, ResourceRef};

use super::converter::{Converter, describe, describe_all, join};
use crate::{
    ValidationStatus,
    virtual_mcp_server::{CompositeToolRefsValidated, ServerValid},
};

/// Composite tools with the path of each.
pub(super) type LocatedTools = Vec<(CompositeTool, String)>;

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

    fn referenced_tool(&mut self, name: &str, path: &str) -> Option<CompositeTool> {
        let Some(definition) = self.inputs.composite_tool_definitions.get(name).cloned() else {
            let message = format!("VirtualMCPCompositeToolDefinition {name} does not exist");
            self.reject(path, CompositeToolRefsValidated::NotFound, message);
            return None;
        };
        let parsed = definition.spec.parse().map_err(|errors| describe_all(&errors));
        // A result of another generation tells nothing about this one.
        let status = definition.status.as_ref().filter(|status| {
            status.observed_generation.is_none()
                || status.observed_generation == definition.metadata.generation
        });
        let result = match (parsed, status) {
            (Ok(_), Some(status)) if status.validation_status == ValidationStatus::Invalid => {
                Err(status.validation_errors.join("; "))
            }
            (Ok(tool), _) => {
                let errors: Vec<_> =
                    self.tool_errors(&tool).iter().map(ToString::to_string).collect();
                if errors.is_empty() { Ok(tool) } else { Err(errors.join("; ")) }
            }
            (Err(errors), _) => Err(errors),
        };
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
