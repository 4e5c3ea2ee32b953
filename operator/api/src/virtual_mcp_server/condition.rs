//! Conditions of a VirtualMCPServer.

use crate::condition::conditions;

conditions! {
    /// Whether the spec is valid.
    ServerValid: "Valid" {
        Valid = True "ValidationSucceeded",
        Invalid = False "ValidationFailed",
    }
    /// Whether the pod template is valid.
    PodTemplateSpecValid: "PodTemplateSpecValid" {
        Valid = True "PodTemplateSpecValid",
        Invalid = False "InvalidPodTemplateSpec",
    }
    /// Whether the group exists and is ready.
    GroupRefValidated: "GroupRefValidated" {
        Valid = True "GroupRefValid",
        NotFound = False "GroupRefNotFound",
        NotReady = False "GroupRefNotReady",
    }
    /// Whether the composite tool definitions exist and are valid.
    CompositeToolRefsValidated: "CompositeToolRefsValidated" {
        Valid = True "CompositeToolRefsValid",
        NotFound = False "CompositeToolRefNotFound",
        Invalid = False "CompositeToolRefInvalid",
    }
    /// Whether the embedding server is ready.
    EmbeddingServerReady: "EmbeddingServerReady" {
        Ready = True "EmbeddingServerReady",
        NotFound = False "EmbeddingServerNotFound",
        NotReady = False "EmbeddingServerNotReady",
    }
    /// Whether the embedded authorization server is valid and fits the rest.
    AuthServerConfigValidated: "AuthServerConfigValidated" {
        Valid = True "AuthServerConfigValid",
        Invalid = False "AuthServerConfigInvalid",
        PrimaryProviderRequiresAuthServer = False "AuthzPrimaryProviderRequiresAuthServer",
        RequiresUpstream = False "AuthzRequiresUpstream",
        UpstreamUnknown = False "AuthzUpstreamUnknown",
    }
    /// Whether the upstream provider for policies was chosen without being named.
    AuthzUpstreamSelection: "AuthzUpstreamSelectionWarning" {
        AutoSelected = True "AuthzUpstreamAutoSelected",
    }
    /// Whether an upstream provider has no source of the user's identity, so that the server derives one.
    IdentitySynthesized: "IdentitySynthesized" {
        WithoutUserInfo = True "OAuth2UpstreamWithoutUserInfo",
        WithUserInfo = False "AllUpstreamsHaveUserInfo",
    }
    /// Whether several replicas lack a storage of sessions that they share.
    SessionStorageWarning: "SessionStorageWarning" {
        MissingForReplicas = True "SessionStorageMissingForReplicas",
        Configured = False "SessionStorageConfigured",
        NotApplicable = False "SessionStorageWarningNotApplicable",
    }
    /// Whether the MCPOIDCConfig exists and is valid.
    OidcConfigRefValidated: "OIDCConfigRefValidated" {
        Valid = True "OIDCConfigRefValid",
        NotFound = False "OIDCConfigRefNotFound",
        NotValid = False "OIDCConfigRefNotValid",
        FetchError = False "OIDCConfigRefFetchError",
    }
    /// Whether the MCPTelemetryConfig exists and is valid.
    TelemetryConfigRefValidated: "TelemetryConfigRefValidated" {
        Valid = True "TelemetryConfigRefValid",
        NotFound = False "TelemetryConfigRefNotFound",
        Invalid = False "TelemetryConfigRefInvalid",
        FetchError = False "TelemetryConfigRefFetchError",
    }
    /// Whether the Secrets of the server exist.
    AuthConfigured: "AuthConfigured" {
        Valid = True "AuthValid",
        Invalid = False "AuthInvalid",
    }
    /// Whether the credentials of one backend could be resolved; the type of the condition ends in `-` and its name.
    BackendAuthConfig: "BackendAuthConfig" {
        Succeeded = True "ConversionSucceeded",
        Failed = False "ConversionFailed",
    }
    /// Whether the server serves.
    ServerReady: "Ready" {
        DeploymentReady = True "DeploymentReady",
        DeploymentNotReady = False "DeploymentNotReady",
        DeploymentFailed = False "DeploymentFailed",
        BackendsUnavailable = False "BackendsUnavailable",
        BackendsDegraded = False "BackendsDegraded",
        BackendsUnknown = False "BackendsUnknown",
    }
    /// Whether requests reach all backends.
    BackendsReady: "BackendsReady" {
        AllRoutable = True "AllBackendsRoutable",
        SomeUnhealthy = False "SomeBackendsUnhealthy",
        NoneRoutable = False "NoRoutableBackends",
        Pending = False "BackendsPending",
    }
    /// Whether the backends were discovered.
    BackendsDiscovered: "BackendsDiscovered" {
        Discovered = True "BackendsDiscovered",
    }
    /// Whether a backend is degraded.
    BackendsDegraded: "Degraded" {
        Degraded = True "BackendsDegraded",
    }
}
