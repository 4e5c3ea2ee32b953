//! Parts of resources that have the types of the server's configuration, and that only its parser judges.

use vmcp_api::conversion::Checks as _;
use vmcp_api::{
    EmbeddingServer, Inline, InlineType, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig,
    MCPRemoteProxy, MCPServer, MCPServerEntry, MCPTelemetryConfig, MCPToolConfig,
    VirtualMCPCompositeToolDefinition, VirtualMCPServer,
};
use vmcp_config::ConfigError;

use crate::server_checks::ServerChecks;

/// Resource with parts that the parser of the server judges.
pub(super) trait PartErrors {
    /// Returns path and message of each mistake.
    fn part_errors(&self) -> Vec<(String, String)>;
}

impl PartErrors for VirtualMCPServer {
    fn part_errors(&self) -> Vec<(String, String)> {
        // The conversion reports them, with more context.
        Vec::new()
    }
}

impl PartErrors for MCPExternalAuthConfig {
    fn part_errors(&self) -> Vec<(String, String)> {
        let spec = &self.spec;
        let mut errors = inline("spec.embeddedAuthServer", spec.embedded_auth_server.as_ref());
        errors.extend(inline("spec.awsSts", spec.aws_sts.as_ref()));
        errors.extend(inline("spec.upstreamInject", spec.upstream_inject.as_ref()));
        errors
    }
}

impl PartErrors for MCPToolConfig {
    fn part_errors(&self) -> Vec<(String, String)> {
        let overrides = self.spec.tools_override.iter();
        let errors =
            overrides.map(|(name, part)| inline(&format!("spec.toolsOverride.{name}"), Some(part)));
        errors.flatten().collect()
    }
}

impl PartErrors for VirtualMCPCompositeToolDefinition {
    fn part_errors(&self) -> Vec<(String, String)> {
        let errors = match self.spec.parse() {
            Ok(tool) => ServerChecks.composite_tool(&tool),
            Err(errors) => errors.iter().cloned().collect(),
        };
        errors.iter().map(|error| located("spec", error)).collect()
    }
}

macro_rules! without_parts {
    ($($kind:ty),+ $(,)?) => {
        $(
            impl PartErrors for $kind {
                fn part_errors(&self) -> Vec<(String, String)> {
                    Vec::new()
                }
            }
        )+
    };
}

without_parts!(
    EmbeddingServer,
    MCPGroup,
    MCPOIDCConfig,
    MCPRemoteProxy,
    MCPServer,
    MCPServerEntry,
    MCPTelemetryConfig,
);

fn inline<T: InlineType>(path: &str, part: Option<&Inline<T>>) -> Vec<(String, String)> {
    let errors = part.and_then(|part| part.parse().err());
    errors.iter().flatten().map(|error| located(path, error)).collect()
}

/// Returns the path of an error within a part, and its message without the path.
fn located(at: &str, error: &ConfigError) -> (String, String) {
    let separator = if error.path.is_empty() || error.path.starts_with('[') { "" } else { "." };
    let path = format!("{at}{separator}{}", error.path);
    let error = ConfigError { path: String::new(), line: None, ..error.clone() };
    (path, error.to_string())
}
