//! Tools of steps that no configured backend can have.

use super::{CompositeTool, StepKind};
use crate::{
    ConfigError, File, Warning, aggregation::ConflictResolution, backend::Backend,
    error::MAX_ERRORS, outgoing_auth::Source, suggest::nearest, tree::shorten,
};

impl File {
    /// Returns `false` if none of the configured backends can have the tool that a step names: it is not
    /// `workload.tool_name` of one of them, and does not begin with one of their prefixes.
    #[must_use]
    pub fn may_have_tool(&self, tool: &str) -> bool {
        if self.outgoing_auth.source == Source::Discovered {
            return true;
        }
        // Names of backends and of tools may contain dots.
        let is_of = |name: &str| tool.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let mut names = self.backends.iter().map(|backend| backend.name.as_str());
        match &self.aggregation.conflict_resolution {
            ConflictResolution::Prefix { format } => {
                names.any(|name| is_of(name) || tool.starts_with(&format.prefix(name)))
            }
            // Tools keep their names, which are known to the backends only.
            ConflictResolution::Priority { .. } | ConflictResolution::Manual => true,
        }
    }

    /// Returns the steps that call a composite tool, which is not a tool of a backend.
    pub(crate) fn steps_that_call_composite_tools(&self) -> impl Iterator<Item = ConfigError> {
        let is_composite = |name: &str| self.composite_tools.iter().any(|tool| tool.name == name);
        let steps = step_tools(&self.composite_tools)
            .filter(move |(_, tool)| is_composite(tool) && !self.may_have_tool(tool));
        steps.map(|(path, tool)| {
            let found = format!("\"{}\", which is a composite tool", shorten(tool));
            ConfigError::new(path, found, "a tool of a backend: composite tools call no others")
        })
    }

    /// Warns about steps that call tools of unknown backends.
    pub(crate) fn check_step_tools(&self, warnings: &mut Vec<Warning>) {
        for (path, tool) in step_tools(&self.composite_tools) {
            if self.may_have_tool(tool) || warnings.len() >= MAX_ERRORS {
                continue;
            }
            let message = format!(
                "no backend can have the tool \"{}\": name it workload.tool_name",
                shorten(tool)
            );
            warnings.push(Warning { path, message, suggestion: suggest(tool, &self.backends) });
        }
    }
}

/// Returns the tools that steps call, each with the path of the setting.
fn step_tools(tools: &[CompositeTool]) -> impl Iterator<Item = (String, &str)> {
    tools.iter().enumerate().flat_map(|(number, composite)| {
        composite.steps.iter().enumerate().filter_map(move |(step, of)| {
            let path = format!("compositeTools[{number}].steps[{step}]");
            match &of.kind {
                StepKind::Tool { tool, .. } => Some((format!("{path}.tool"), tool.as_str())),
                StepKind::ForEach { step, .. } => {
                    Some((format!("{path}.step.tool"), step.tool.as_str()))
                }
                StepKind::Elicitation { .. } => None,
            }
        })
    })
}

/// Returns the tool with the name of the backend that was probably meant.
fn suggest(tool: &str, backends: &[Backend]) -> Option<String> {
    let (workload, name) = tool.split_once('.')?;
    let names = backends.iter().map(|backend| backend.name.as_str());
    Some(format!("{}.{name}", nearest(workload, names)?))
}
