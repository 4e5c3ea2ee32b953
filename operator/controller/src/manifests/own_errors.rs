//! Mistakes of resources by themselves, which their schemas do not show.

use vmcp_api::conversion::ResourceError;
use vmcp_api::{
    EmbeddingServer, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig, MCPRemoteProxy, MCPServer,
    MCPServerEntry, MCPTelemetryConfig, MCPToolConfig, VirtualMCPCompositeToolDefinition,
    VirtualMCPServer,
};

use crate::Settings;
use crate::controllers::composite_tool_definition::check_definition;
use crate::controllers::shared_config::errors_of;
use crate::server_review::review_server;

/// Resource that can be judged by itself.
pub(super) trait OwnErrors {
    /// Returns the mistakes that the controller of the kind reports.
    fn own_errors(&self, settings: &Settings) -> Vec<ResourceError>;
}

impl OwnErrors for VirtualMCPCompositeToolDefinition {
    fn own_errors(&self, _settings: &Settings) -> Vec<ResourceError> {
        check_definition(self).err().map(|(_, errors)| errors).unwrap_or_default()
    }
}

impl OwnErrors for VirtualMCPServer {
    fn own_errors(&self, settings: &Settings) -> Vec<ResourceError> {
        review_server(self, settings).errors
    }
}

macro_rules! shared {
    ($($kind:ty),+ $(,)?) => {
        $(
            impl OwnErrors for $kind {
                fn own_errors(&self, _settings: &Settings) -> Vec<ResourceError> {
                    errors_of(self)
                }
            }
        )+
    };
}

shared!(MCPExternalAuthConfig, MCPOIDCConfig, MCPTelemetryConfig, MCPToolConfig);

/// Kinds whose mistakes need other resources, or a conversion.
macro_rules! judged_with_others {
    ($($kind:ty),+ $(,)?) => {
        $(
            impl OwnErrors for $kind {
                fn own_errors(&self, _settings: &Settings) -> Vec<ResourceError> {
                    Vec::new()
                }
            }
        )+
    };
}

judged_with_others!(EmbeddingServer, MCPGroup, MCPRemoteProxy, MCPServer, MCPServerEntry,);
