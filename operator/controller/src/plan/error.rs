//! Errors of a resource that show when its objects are planned.

use std::fmt;

use vmcp_api::{
    conversion::ConditionUpdate,
    virtual_mcp_server::{PodTemplateSpecValid, ServerValid},
};

/// Error of a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlanError {
    /// Path in the resource.
    pub path: String,
    /// Mistake, and the change that mends it.
    pub message: String,
    kind: ErrorKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ErrorKind {
    PodTemplate,
    Server,
}

/// Path of the pod template.
const POD_TEMPLATE: &str = "spec.podTemplateSpec";

// === impl PlanError ===

impl PlanError {
    /// Creates an error at a path within the pod template.
    pub(super) fn pod_template(path: &str, message: impl Into<String>) -> Self {
        let separator = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        let path = format!("{POD_TEMPLATE}{separator}{path}");
        Self { path, message: message.into(), kind: ErrorKind::PodTemplate }
    }

    /// Creates an error at another path.
    pub(super) fn server(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), message: message.into(), kind: ErrorKind::Server }
    }

    /// Returns whether the error is one of the pod template.
    pub(crate) fn is_of_pod_template(&self) -> bool {
        self.kind == ErrorKind::PodTemplate
    }

    /// Returns the condition that the error ends in.
    #[must_use]
    pub fn condition(&self) -> ConditionUpdate {
        match self.kind {
            ErrorKind::PodTemplate => {
                ConditionUpdate::new(PodTemplateSpecValid::Invalid, self.to_string())
            }
            ErrorKind::Server => ConditionUpdate::new(ServerValid::Invalid, self.to_string()),
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for PlanError {}
