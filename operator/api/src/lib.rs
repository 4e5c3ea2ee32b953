#![doc = include_str!("../README.md")]
// The derive of `KubeSchema` repeats each public struct within a function.
#![allow(unreachable_pub)]
// Printer columns of one kind have equal types.
#![allow(clippy::duplicated_attributes)]

mod cluster_defaults;
mod composite_tool_definition;
pub mod condition;
pub mod conversion;
mod definition;
mod embedding_server;
mod external_auth;
mod free_form;
mod group;
mod inline;
pub mod names;
mod oidc_config;
mod reference;
mod remote_proxy;
mod schema;
mod server;
mod server_entry;
mod telemetry_config;
mod tool_config;
pub mod virtual_mcp_server;
mod workload;

pub use vmcp_config::SecretRef;

pub use self::{
    composite_tool_definition::{
        ValidationStatus, VirtualMCPCompositeToolDefinition, VirtualMCPCompositeToolDefinitionSpec,
        VirtualMCPCompositeToolDefinitionStatus, WorkflowReady, WorkflowValidated,
    },
    definition::{YamlError, definitions, to_yaml},
    embedding_server::{
        AccessMode, EmbeddingOverrides, EmbeddingPhase, EmbeddingPodTemplate, EmbeddingReady,
        EmbeddingServer, EmbeddingServerSpec, EmbeddingServerStatus, EmbeddingToken,
        EmbeddingValid, ImagePullPolicy, ModelCache, StatefulSetOverrides,
    },
    external_auth::{
        BearerToken, ExternalAuthIdentitySynthesized, ExternalAuthType, ExternalAuthValid,
        HeaderInjection, MCPExternalAuthConfig, MCPExternalAuthConfigSpec,
        MCPExternalAuthConfigStatus, TokenExchange, WorkloadKind, WorkloadReference,
    },
    free_form::FreeForm,
    group::{GroupPhase, MCPGroup, MCPGroupSpec, MCPGroupStatus, MembersChecked},
    inline::{Inline, InlineType},
    oidc_config::{
        InlineOidc, KubernetesServiceAccountOidc, MCPOIDCConfig, MCPOIDCConfigSpec,
        MCPOIDCConfigStatus, OidcConfigValid, OidcSource,
    },
    reference::{
        CaBundleRef, ConfigMapKeyRef, DeletionBlocked, EnvVar, HeaderForward, HeaderFromSecret,
        KeyRefsValidated, MetadataOverrides, NameRef, OidcConfigRef, PullSecretRef, ResourceList,
        ResourceRequirements, TelemetryConfigRef,
    },
    remote_proxy::{MCPRemoteProxy, MCPRemoteProxySpec, MCPRemoteProxyStatus, ProxyPhase},
    server::{
        MCPServer, MCPServerSpec, MCPServerStatus, PermissionProfile, PermissionProfileType,
        SecretVar, ServerPhase, ServerTransport, Volume,
    },
    server_entry::{
        EntryCaBundleRef, EntryExternalAuthConfig, EntryGroupRef, EntryHeaderSecrets, EntryPhase,
        EntryRemoteUrl, EntryValid, MCPServerEntry, MCPServerEntrySpec, MCPServerEntryStatus,
        RemoteTransport,
    },
    telemetry_config::{
        MCPTelemetryConfig, MCPTelemetryConfigSpec, MCPTelemetryConfigStatus, MetricsExport,
        OpenTelemetry, Prometheus, SensitiveHeader, TelemetryConfigValid, TracingExport,
    },
    tool_config::{MCPToolConfig, MCPToolConfigSpec, MCPToolConfigStatus, ToolConfigValid},
    virtual_mcp_server::{VirtualMCPServer, VirtualMCPServerSpec, VirtualMCPServerStatus},
    workload::{
        AuthServerRef, AuthServerRefValidated, AuthzPrimaryUpstreamProviderIgnored,
        ProxyDeploymentOverrides, WorkloadAudit, WorkloadAuthzConfig, WorkloadOverrides,
    },
};

/// API group of the resources.
pub const GROUP: &str = "vmcp.dev";

/// Version of the resources.
pub const VERSION: &str = "v1beta1";
