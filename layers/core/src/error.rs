//! The error that crosses layer boundaries, and how to look inside it.

use std::error::Error;

/// Error of outgoing layers: a small typed cause, boxed.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Error of a request that was not sent: its backend has not acted on it, whatever the source says.
///
/// ```
/// use vmcp_core::{BoxError, NotSentError, cause_ref};
/// let error: BoxError = Box::new(NotSentError::new("connection refused"));
/// assert!(cause_ref::<NotSentError>(error.as_ref()).is_some());
/// assert_eq!(error.to_string(), "connection refused");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct NotSentError {
    /// `true` if a limit of the gateway held the request back, which says nothing about the backend.
    pub is_local_limit: bool,
    source: BoxError,
}

impl NotSentError {
    /// Wraps the reason.
    pub fn new(source: impl Into<BoxError>) -> Self {
        Self { is_local_limit: false, source: source.into() }
    }

    /// Wraps a limit of the gateway.
    pub fn by_local_limit(source: impl Into<BoxError>) -> Self {
        Self { is_local_limit: true, ..Self::new(source) }
    }
}

/// Returns the first cause of type `E` in the chain that starts at `error`.
///
/// ```
/// use vmcp_core::{BoxError, cause_ref};
/// let error: BoxError = Box::new(std::io::Error::other("gone"));
/// assert!(cause_ref::<std::io::Error>(error.as_ref()).is_some());
/// ```
pub fn cause_ref<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
