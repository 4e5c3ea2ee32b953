//! Conditions of a VirtualMCPServer.

use crate::condition::conditions;

conditions! {
    /// Condition that tells whether the spec is valid.
    ServerValid: "Valid" {
        Valid = True "ValidationSucceeded",
        Invalid = False "ValidationFailed",
    }
    /// Condition that tells whether the pod template is valid.
    PodTemplateSpecValid: "PodTemplateSpecValid" {
        Valid = True "PodTemplateSpecValid",
        Invalid = False "InvalidPodTemplateSpec",
    }
    /// Condition that tells whether the group exists and is ready.
    GroupRefValidated: "GroupRefValidated" {
        Valid = True "GroupRefValid",
        NotFound = False "GroupRefNotFound",
        NotReady = False "GroupRefNotReady",
    }
    /// Condition that tells whether the composite tool definitions exist and are valid.
    CompositeToolRefsValidated: "CompositeToolRefsValidated" {
        Valid = True "CompositeToolRefsValid",
        NotFound = False "CompositeToolRefNotFound",
        Invalid = False "CompositeToolRefInvalid",
    }
    /// Condition that tells whether the embedding server is ready.
    EmbeddingServerReady: "EmbeddingServerReady" {
        Ready = True "EmbeddingServerReady",
        NotFound = False "EmbeddingServerNotFound",
        NotReady = False "EmbeddingServerNotReady",
    }
    /// Condition that tells whether the embedded authorization server is valid and fits the rest.
    AuthServerConfigValidated: "AuthServerConfigValidated" {
        Valid = True "AuthServerConfigValid",
        Invalid = False "AuthServerConfigInvalid",
        PrimaryProviderRequiresAuthServer = False "AuthzPrimaryProviderRequiresAuthServer",
        RequiresUpstream = False "AuthzRequiresUpstream",
        UpstreamUnknown = False "AuthzUpstreamUnknown",
    }
    /// Condition that tells whether the upstream provider for policies was chosen without being named.
    AuthzUpstreamSelection: "AuthzUpstreamSelectionWarning" {
        AutoSelected = True "AuthzUpstreamAutoSelected",
    }
    /// Condition that tells whether the server derives identities, because an upstream provider has no source of them.
    IdentitySynthesized: "IdentitySynthesized" {
        WithoutUserInfo = True "OAuth2UpstreamWithoutUserInfo",
        WithUserInfo = False "AllUpstreamsHaveUserInfo",
    }
    /// Condition that tells whether several replicas lack a storage of sessions that they share.
    SessionStorageWarning: "SessionStorageWarning" {
        MissingForReplicas = True "SessionStorageMissingForReplicas",
        Configured = False "SessionStorageConfigured",
        NotApplicable = False "SessionStorageWarningNotApplicable",
    }
    /// Condition that tells whether the MCPOIDCConfig exists and is valid.
    OidcConfigRefValidated: "OIDCConfigRefValidated" {
        Valid = True "OIDCConfigRefValid",
        NotFound = False "OIDCConfigRefNotFound",
        NotValid = False "OIDCConfigRefNotValid",
        FetchError = False "OIDCConfigRefFetchError",
    }
    /// Condition that tells whether the MCPTelemetryConfig exists and is valid.
    TelemetryConfigRefValidated: "TelemetryConfigRefValidated" {
        Valid = True "TelemetryConfigRefValid",
        NotFound = False "TelemetryConfigRefNotFound",
        Invalid = False "TelemetryConfigRefInvalid",
        FetchError = False "TelemetryConfigRefFetchError",
    }
    /// Condition that tells whether the Secrets of the server exist.
    AuthConfigured: "AuthConfigured" {
        Valid = True "AuthValid",
        Invalid = False "AuthInvalid",
    }
    /// Condition that tells whether the credentials for backends without an entry could be resolved.
    DefaultAuthConfig: "DefaultAuthConfig" {
        Succeeded = True "ConversionSucceeded",
        Failed = False "ConversionFailed",
    }
    /// Condition that tells whether the credentials of the server's entry for one backend could be resolved; its type ends
    /// in `-` and the name of the backend.
    BackendAuthConfig: "BackendAuthConfig" {
        Succeeded = True "ConversionSucceeded",
        Failed = False "ConversionFailed",
    }
    /// Condition that tells whether the credentials of one backend's own reference could be resolved; its type ends in `-`
    /// and the name of the backend.
    DiscoveredAuthConfig: "DiscoveredAuthConfig" {
        Succeeded = True "ConversionSucceeded",
        Failed = False "ConversionFailed",
    }
    /// Condition that tells whether the server serves.
    ServerReady: "Ready" {
        DeploymentReady = True "DeploymentReady",
        DeploymentNotReady = False "DeploymentNotReady",
        DeploymentFailed = False "DeploymentFailed",
        BackendsUnavailable = False "BackendsUnavailable",
        BackendsDegraded = False "BackendsDegraded",
        BackendsUnknown = False "BackendsUnknown",
    }
    /// Condition that tells whether requests reach all backends.
    BackendsReady: "BackendsReady" {
        AllRoutable = True "AllBackendsRoutable",
        SomeUnhealthy = False "SomeBackendsUnhealthy",
        NoneRoutable = False "NoRoutableBackends",
        Pending = False "BackendsPending",
    }
    /// Condition that tells whether the backends were discovered.
    BackendsDiscovered: "BackendsDiscovered" {
        Discovered = True "BackendsDiscovered",
    }
    /// Condition that tells whether a backend is degraded.
    BackendsDegraded: "Degraded" {
        Degraded = True "BackendsDegraded",
    }
    /// Condition that tells whether no other server requires the same audience.
    AudienceUnique: "AudienceUnique" {
        Unique = True "AudienceUnique",
        Shared = False "AudienceShared",
    }
    /// Condition that tells whether no other server has an embedded authorization server with the same issuer.
    IssuerUnique: "IssuerUnique" {
        Unique = True "IssuerUnique",
        Shared = False "IssuerShared",
    }
    /// Condition that tells whether no other server has the same telemetry service name.
    ServiceNameUnique: "ServiceNameUnique" {
        Unique = True "ServiceNameUnique",
        Shared = False "ServiceNameShared",
    }
    /// Condition that tells whether all members of the group are backends.
    MembersIncluded: "MembersIncluded" {
        All = True "AllMembersIncluded",
        LeftOut = False "MembersLeftOut",
    }
    /// Condition that tells whether the generated objects exist as planned.
    ObjectsApplied: "ObjectsApplied" {
        Applied = True "ObjectsApplied",
        ForeignOwner = False "ForeignOwner",
        Refused = False "ObjectRefused",
    }
}
