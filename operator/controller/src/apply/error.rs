//! Failures of writes.

use crate::key::{Key, ObjectKey};

/// Failure of a write to an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// The object belongs to another owner.
    #[error("{kind} {key} exists and {owner}; delete or rename it")]
    Foreign { kind: String, key: Key, owner: String },
    /// The API server refused the object. Another attempt has the same result until something changes.
    #[error("the API server refused {kind} {key}: {message}")]
    Refused { kind: String, key: Key, message: String },
    /// The owner lacks what the API server gives to each stored object.
    #[error("{owner} has no name, uid or generation: the API server did not store it")]
    IncompleteOwner { owner: ObjectKey },
    /// Another attempt may succeed.
    #[error("failed to read or write {kind} {key}: {source}")]
    Request { kind: String, key: Key, source: kube::Error },
    /// The API server did not respond in time.
    #[error("failed to read or write {kind} {key}: no response within {seconds} s")]
    Timeout { kind: String, key: Key, seconds: u64 },
}

// === impl ApplyError ===

impl ApplyError {
    /// Sorts the failure of a request into refused and failed.
    pub(super) fn of_request(kind: &str, key: &Key, source: kube::Error) -> Self {
        let (kind, key) = (kind.to_owned(), key.clone());
        match source {
            kube::Error::Api(status)
                if matches!(status.code, 400 | 403 | 404 | 405 | 413 | 422) =>
            {
                Self::Refused { kind, key, message: status.message }
            }
            source => Self::Request { kind, key, source },
        }
    }

    /// Returns whether the user has to know and act.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Foreign { .. } | Self::Refused { .. } => true,
            Self::IncompleteOwner { .. } | Self::Request { .. } | Self::Timeout { .. } => false,
        }
    }
}
