//! Custom resource definitions of all kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::{
    EmbeddingServer, EmbeddingServerSpec, EmbeddingServerStatus, MCPExternalAuthConfig,
    MCPExternalAuthConfigSpec, MCPExternalAuthConfigStatus, MCPGroup, MCPGroupSpec, MCPGroupStatus,
    MCPOIDCConfig, MCPOIDCConfigSpec, MCPOIDCConfigStatus, MCPRemoteProxy, MCPRemoteProxySpec,
    MCPRemoteProxyStatus, MCPServer, MCPServerEntry, MCPServerEntrySpec, MCPServerEntryStatus,
    MCPServerSpec, MCPServerStatus, MCPTelemetryConfig, MCPTelemetryConfigSpec,
    MCPTelemetryConfigStatus, MCPToolConfig, MCPToolConfigSpec, MCPToolConfigStatus,
    VirtualMCPCompositeToolDefinition, VirtualMCPCompositeToolDefinitionSpec,
    VirtualMCPCompositeToolDefinitionStatus, VirtualMCPServer, VirtualMCPServerSpec,
    VirtualMCPServerStatus,
    schema::{bounds, structural},
};

/// Returns the definitions of all kinds, sorted by name.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        definition::<EmbeddingServer, EmbeddingServerSpec, EmbeddingServerStatus>(),
        definition::<MCPExternalAuthConfig, MCPExternalAuthConfigSpec, MCPExternalAuthConfigStatus>(
        ),
        definition::<MCPGroup, MCPGroupSpec, MCPGroupStatus>(),
        definition::<MCPOIDCConfig, MCPOIDCConfigSpec, MCPOIDCConfigStatus>(),
        definition::<MCPRemoteProxy, MCPRemoteProxySpec, MCPRemoteProxyStatus>(),
        definition::<MCPServer, MCPServerSpec, MCPServerStatus>(),
        definition::<MCPServerEntry, MCPServerEntrySpec, MCPServerEntryStatus>(),
        definition::<MCPTelemetryConfig, MCPTelemetryConfigSpec, MCPTelemetryConfigStatus>(),
        definition::<MCPToolConfig, MCPToolConfigSpec, MCPToolConfigStatus>(),
        definition::<
            VirtualMCPCompositeToolDefinition,
            VirtualMCPCompositeToolDefinitionSpec,
            VirtualMCPCompositeToolDefinitionStatus,
        >(),
        definition::<VirtualMCPServer, VirtualMCPServerSpec, VirtualMCPServerStatus>(),
    ];
    all.sort_by(|left, right| left.metadata.name.cmp(&right.metadata.name));
    all
}

fn definition<Kind, Spec, Status>() -> CustomResourceDefinition
where
    Kind: CustomResourceExt,
    Spec: JsonSchema,
    Status: JsonSchema,
{
    let mut definition = Kind::crd();
    let mut spec = structural::schema::<Spec>();
    bounds::apply(&mut spec);
    let description = spec.get("description").cloned().unwrap_or_default();
    let schema: Value = json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": { "spec": spec, "status": structural::schema::<Status>() },
    });
    let schema: JSONSchemaProps =
        serde_json::from_value(schema).expect("the schema has keywords of Kubernetes only");
    for version in &mut definition.spec.versions {
        version.schema = Some(CustomResourceValidation {
            open_api_v3_schema: Some(JSONSchemaProps::clone(&schema)),
        });
    }
    definition
}

/// Error of writing a definition.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("failed to write the definition as YAML: {0}")]
pub struct YamlError(String);

/// Writes a definition as YAML, for `kubectl apply`.
///
/// # Errors
///
/// Returns the error of the YAML writer.
pub fn to_yaml(definition: &CustomResourceDefinition) -> Result<String, YamlError> {
    serde_saphyr::to_string(definition).map_err(|error| YamlError(error.to_string()))
}
