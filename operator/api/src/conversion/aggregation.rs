//! Selection and overrides of tools, with the contents of MCPToolConfigs.

use std::collections::BTreeMap;

use vmcp_config::{Aggregation, Never, ResourceRef, ToolOverride, WorkloadTools};

use super::{
    WarningReason,
    converter::{Converter, describe_all},
};
use crate::{MCPToolConfig, MCPToolConfigSpec};

/// An MCPToolConfig that could not be used: the path of the reference, and the reason.
pub(super) type ToolConfigError = (String, String);

impl Converter<'_> {
    /// Replaces references by the contents of the MCPToolConfigs. An entry whose MCPToolConfig cannot be used hides all of the
    /// workload's tools.
    pub(super) fn tools(
        &mut self,
        tools: Vec<WorkloadTools<ResourceRef>>,
    ) -> (Vec<WorkloadTools<Never>>, Vec<ToolConfigError>) {
        let mut errors = Vec::new();
        let tools = tools
            .into_iter()
            .enumerate()
            .map(|(index, tools)| {
                let WorkloadTools { workload, exclude_all, filter, overrides, tool_config_ref } =
                    tools;
                let mut resolved =
                    WorkloadTools { workload, exclude_all, filter, overrides, tool_config_ref: None };
                if let Some(ResourceRef { name }) = tool_config_ref {
                    let path = format!("spec.config.aggregation.tools[{index}]");
                    if !resolved.filter.is_empty() || !resolved.overrides.is_empty() {
                        let message = format!(
                            "filter and overrides of {path} have no effect: toolConfigRef replaces them"
                        );
                        self.warn(WarningReason::SettingWithoutEffect, message);
                    }
                    match self.tool_config(&name) {
                        Ok((filter, overrides)) => {
                            (resolved.filter, resolved.overrides) = (filter, overrides);
                        }
                        Err(message) => {
                            resolved = hidden(resolved.workload);
                            errors.push((format!("{path}.toolConfigRef"), message));
                        }
                    }
                }
                resolved
            })
            .collect();
        (tools, errors)
    }

    fn tool_config(
        &self,
        name: &str,
    ) -> Result<(Vec<String>, BTreeMap<String, ToolOverride>), String> {
        let config: Option<&MCPToolConfig> = self.inputs.tool_configs.get(name).map(AsRef::as_ref);
        let config = config.ok_or_else(|| format!("MCPToolConfig {name} does not exist"))?;
        let MCPToolConfigSpec { tools_filter, tools_override } = &config.spec;
        let mut overrides = BTreeMap::new();
        for (tool, inline) in tools_override {
            let parsed = inline.parse().map_err(|errors| {
                let errors = describe_all(&errors);
                format!("MCPToolConfig {name}: spec.toolsOverride.{tool}: {errors}")
            })?;
            overrides.insert(tool.clone(), parsed);
        }
        Ok((tools_filter.clone(), overrides))
    }
}

/// Returns the aggregation of a server that discovers its backends. The server reads the contents of MCPToolConfigs itself, so
/// that a change does not change this configuration; until then it hides the tools.
pub(super) fn for_discovery(tools: &[WorkloadTools<ResourceRef>]) -> Vec<WorkloadTools<Never>> {
    tools
        .iter()
        .map(|tools| {
            let WorkloadTools { workload, exclude_all, filter, overrides, tool_config_ref } =
                tools.clone();
            match tool_config_ref {
                Some(ResourceRef { name: _ }) => hidden(workload),
                None => WorkloadTools {
                    workload,
                    exclude_all,
                    filter,
                    overrides,
                    tool_config_ref: None,
                },
            }
        })
        .collect()
}

/// Returns the aggregation with other tools.
pub(super) fn with_tools(
    aggregation: Aggregation<ResourceRef>,
    tools: Vec<WorkloadTools<Never>>,
) -> Aggregation<Never> {
    let Aggregation { conflict_resolution, exclude_all_tools, tools: _ } = aggregation;
    Aggregation { conflict_resolution, exclude_all_tools, tools }
}

fn hidden(workload: String) -> WorkloadTools<Never> {
    WorkloadTools {
        workload,
        exclude_all: true,
        filter: Vec::new(),
        overrides: BTreeMap::new(),
        tool_config_ref: None,
    }
}
