//! Outputs of a conversion.

use std::fmt;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use vmcp_config::{Backend, EnvName, File, Never, OutgoingAuth, WorkloadTools};

use super::{Member, MemberKind, SecretEntry};
use crate::{
    condition::{ConditionReason, ConditionStatus},
    virtual_mcp_server::Phase,
};

/// Configuration of a server, and what its pods need beside it.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// Configuration of the server.
    pub file: File,
    /// The configuration as YAML. It holds no value of a Secret.
    pub yaml: String,
    /// Files of the operator's Secret, sorted. Those whose source does not exist are listed too.
    pub secrets: Vec<SecretEntry>,
    /// Variables that have to be in the environment of the container.
    pub environment: Vec<EnvironmentVariable>,
    /// Hosts of the server's public URLs and routes, other than those of its Service, sorted.
    pub hosts: Vec<String>,
    /// Members of the group that are not backends.
    pub left_out: Vec<LeftOut>,
    /// Settings that have no effect, or that are deprecated.
    pub warnings: Vec<Warning>,
    /// Conditions of the server that the conversion determines, sorted by type.
    pub conditions: Vec<ConditionUpdate>,
}

/// Backends of a server, and their credentials and tools.
#[derive(Clone, Debug)]
pub struct Backends {
    /// The backends, sorted by name.
    pub backends: Vec<Backend>,
    /// Variables that the headers of the backends read.
    pub variables: Vec<EnvName>,
    /// Credentials for the backends, with an entry for each backend that has some.
    pub outgoing_auth: OutgoingAuth,
    /// Selection and overrides of tools, with the contents of MCPToolConfigs.
    pub tools: Vec<WorkloadTools<Never>>,
    /// Files of the operator's Secret that the backends need, sorted.
    pub secrets: Vec<SecretEntry>,
    /// Members of the group that are not backends.
    pub left_out: Vec<LeftOut>,
    /// Settings that have no effect.
    pub warnings: Vec<Warning>,
    /// Conditions of the server about credentials of backends.
    pub conditions: Vec<ConditionUpdate>,
}

/// A literal variable in the environment of the container.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct EnvironmentVariable {
    /// Name of the variable.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A member of the group that is not a backend.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeftOut {
    /// Name of the member.
    pub backend: String,
    /// Kind of the member.
    pub kind: MemberKind,
    /// Reason in a word.
    pub reason: LeftOutReason,
    /// Reason in a sentence.
    pub message: String,
}

/// Reason for which a member of the group is not a backend.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LeftOutReason {
    /// Another kind has a member of the same name.
    DuplicateName,
    /// The member is being deleted.
    Deleting,
    /// The status of the member has no URL yet.
    UrlUnknown,
    /// The entry was not checked yet, or its group is not ready.
    EntryPending,
    /// The entry is invalid.
    EntryInvalid,
    /// The URL, the transport or a header is invalid.
    BackendInvalid,
    /// The MCPExternalAuthConfig does not exist.
    AuthConfigNotFound,
    /// The MCPExternalAuthConfig is invalid, or does not fit this server.
    AuthConfigInvalid,
    /// The MCPExternalAuthConfig is of a kind that is not a credential for backends.
    AuthConfigUnsupported,
    /// A key of a Secret or ConfigMap does not exist yet.
    SecretPending,
}

/// A setting that has no effect, or that is deprecated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Warning {
    /// Reason of the event.
    pub reason: WarningReason,
    /// Message of the event, with the path.
    pub message: String,
}

/// Reason of an event of type Warning.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum WarningReason {
    /// A field of `spec` replaces one of `spec.config`.
    ConfigOverridden,
    /// The embedding service of `spec.config` is used without an EmbeddingServer.
    EmbeddingServiceManual,
    /// The EmbeddingServer replaces the embedding service of `spec.config`.
    EmbeddingServiceOverridden,
    /// `spec.config.telemetry` is used.
    InlineTelemetryDeprecated,
    /// A credential is in the resource in plain text.
    PlaintextCredential,
    /// A setting has no effect.
    SettingWithoutEffect,
    /// An MCPToolConfig is missing or invalid, so the tools of its workload are hidden.
    ToolConfigInvalid,
}

/// Error that prevents a conversion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConversionError {
    /// Path in the resource. A path in another resource has its kind and name in front, as in
    /// `MCPOIDCConfig/corporate: spec.inline.issuer`.
    pub path: String,
    /// Condition that the error ends in.
    pub condition: ConditionUpdate,
    /// Phase that the error ends in: Pending if waiting may help, else Failed.
    pub phase: Phase,
    /// Reason of the event of type Warning that the error is reported with, if any.
    pub event: Option<&'static str>,
}

/// New value of a condition, without its times.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConditionUpdate {
    /// Type of the condition.
    pub type_: String,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason of the status.
    pub reason: String,
    /// Message of the condition.
    pub message: String,
}

// === impl LeftOut ===

impl LeftOut {
    pub(super) fn new(member: &Member, reason: LeftOutReason, message: String) -> Self {
        Self { backend: member.name().to_owned(), kind: member.kind(), reason, message }
    }
}

// === impl LeftOutReason ===

impl LeftOutReason {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::DuplicateName,
        Self::Deleting,
        Self::UrlUnknown,
        Self::EntryPending,
        Self::EntryInvalid,
        Self::BackendInvalid,
        Self::AuthConfigNotFound,
        Self::AuthConfigInvalid,
        Self::AuthConfigUnsupported,
        Self::SecretPending,
    ];

    /// Returns the reason as written in status and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateName => "DuplicateName",
            Self::Deleting => "Deleting",
            Self::UrlUnknown => "UrlUnknown",
            Self::EntryPending => "EntryPending",
            Self::EntryInvalid => "EntryInvalid",
            Self::BackendInvalid => "BackendInvalid",
            Self::AuthConfigNotFound => "AuthConfigNotFound",
            Self::AuthConfigInvalid => "AuthConfigInvalid",
            Self::AuthConfigUnsupported => "AuthConfigUnsupported",
            Self::SecretPending => "SecretPending",
        }
    }

    /// Returns `true` if waiting may help: the status of such a backend is `unknown`, that of others `unavailable`.
    #[must_use]
    pub fn is_pending(self) -> bool {
        match self {
            Self::UrlUnknown | Self::EntryPending | Self::SecretPending => true,
            Self::DuplicateName
            | Self::Deleting
            | Self::EntryInvalid
            | Self::BackendInvalid
            | Self::AuthConfigNotFound
            | Self::AuthConfigInvalid
            | Self::AuthConfigUnsupported => false,
        }
    }
}

// === impl WarningReason ===

impl WarningReason {
    /// All reasons, sorted.
    pub const ALL: [Self; 7] = [
        Self::ConfigOverridden,
        Self::EmbeddingServiceManual,
        Self::EmbeddingServiceOverridden,
        Self::InlineTelemetryDeprecated,
        Self::PlaintextCredential,
        Self::SettingWithoutEffect,
        Self::ToolConfigInvalid,
    ];

    /// Returns the reason as written in events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigOverridden => "ConfigOverridden",
            Self::EmbeddingServiceManual => "EmbeddingServiceManual",
            Self::EmbeddingServiceOverridden => "EmbeddingServiceOverridden",
            Self::InlineTelemetryDeprecated => "InlineTelemetryDeprecated",
            Self::PlaintextCredential => "PlaintextCredential",
            Self::SettingWithoutEffect => "SettingWithoutEffect",
            Self::ToolConfigInvalid => "ToolConfigInvalid",
        }
    }
}

// === impl ConversionError ===

impl fmt::Display for ConversionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.condition.message)
    }
}

impl std::error::Error for ConversionError {}

// === impl ConditionUpdate ===

impl ConditionUpdate {
    /// Creates the condition of a reason.
    #[must_use]
    pub fn new<R: ConditionReason>(reason: R, message: impl Into<String>) -> Self {
        Self {
            type_: R::TYPE.to_owned(),
            status: reason.status(),
            reason: reason.as_str().to_owned(),
            message: message.into(),
        }
    }

    /// Creates the condition of a reason for one backend.
    #[must_use]
    pub fn of_backend<R: ConditionReason>(
        reason: R,
        backend: &str,
        message: impl Into<String>,
    ) -> Self {
        Self { type_: format!("{}-{backend}", R::TYPE), ..Self::new(reason, message) }
    }

    /// Returns the condition for a status.
    #[must_use]
    pub fn into_condition(self, generation: Option<i64>, now: Timestamp) -> Condition {
        let Self { type_, status, reason, message } = self;
        Condition {
            type_,
            status: status.as_str().to_owned(),
            reason,
            message,
            observed_generation: generation,
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now),
        }
    }
}
