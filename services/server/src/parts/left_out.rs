//! Backends that are configured, and that the server leaves out.

use vmcp_config::{ConfigError, Warning};

/// Backend that is configured, but not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutBackend {
    /// Name of the backend.
    pub backend: String,
    /// Reason in one word.
    pub reason: LeftOutReason,
    /// Missing or unusable setting.
    pub message: String,
}

/// Reason why a backend is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// A secret of the backend is not there yet.
    SecretPending,
    /// A secret of the backend has an unusable value.
    SecretInvalid,
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
    /// Returns the warning of the backend at `index` of the configuration.
    pub(super) fn warning(&self, index: usize) -> Warning {
        let Self { backend, reason, message } = self;
        Warning {
            path: format!("backends[{index}]"),
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
        }
    }
}
