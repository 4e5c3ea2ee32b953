//! Backends that are configured or discovered, and that the server leaves out.

use vmcp_config::{ConfigError, Warning};

/// Backend that is configured or discovered, but not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutBackend {
    /// Name of the backend.
    pub backend: String,
    /// Reason in one word.
    pub reason: LeftOutReason,
    /// Missing or unusable setting.
    pub message: String,
}

/// Reason why a backend is left out. Those of secrets concern all backends, the others those that are discovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// A secret of the backend is not there yet.
    SecretPending,
    /// A secret of the backend has an unusable value.
    SecretInvalid,
    /// A member of the group of another kind has the same name and comes first.
    DuplicateName,
    /// The resource is being deleted.
    Deleting,
    /// The status of the resource has no URL yet.
    UrlUnknown,
    /// The entry was not checked yet.
    EntryPending,
    /// The entry is invalid.
    EntryInvalid,
    /// The URL, a header or another setting of the backend is invalid.
    BackendInvalid,
    /// The MCPExternalAuthConfig does not exist.
    AuthConfigNotFound,
    /// The MCPExternalAuthConfig is invalid, or does not fit this server.
    AuthConfigInvalid,
    /// The MCPExternalAuthConfig has a type that is not a credential for backends.
    AuthConfigUnsupported,
    /// The group has too many members.
    TooManyMembers,
}

/// Error of one backend's settings.
#[derive(Clone, Debug)]
pub(super) enum BackendError {
    /// The configuration has to change.
    Config(ConfigError),
    /// The backend is left out until its secret changes.
    LeftOut(LeftOutReason, String),
}

impl LeftOutBackend {
    /// Returns the warning of the backend, with its path in the configuration.
    pub(crate) fn warning(&self, path: String) -> Warning {
        let Self { backend, reason, message } = self;
        Warning {
            path,
            message: format!("{backend} is left out ({}): {message}", reason.name()),
            suggestion: None,
        }
    }
}

impl LeftOutReason {
    /// Returns the reason's name, as in conditions of Kubernetes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SecretPending => "SecretPending",
            Self::SecretInvalid => "SecretInvalid",
            Self::DuplicateName => "DuplicateName",
            Self::Deleting => "Deleting",
            Self::UrlUnknown => "UrlUnknown",
            Self::EntryPending => "EntryPending",
            Self::EntryInvalid => "EntryInvalid",
            Self::BackendInvalid => "BackendInvalid",
            Self::AuthConfigNotFound => "AuthConfigNotFound",
            Self::AuthConfigInvalid => "AuthConfigInvalid",
            Self::AuthConfigUnsupported => "AuthConfigUnsupported",
            Self::TooManyMembers => "TooManyMembers",
        }
    }
}
