//! Errors of an embedding service.

use std::time::Duration;

use http::StatusCode;
use vmcp_core::BoxError;

/// Error of a request to an embedding service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// The connection failed, or the response ended early.
    #[error("failed to reach the embedding service: {0}; check its address and that it runs")]
    Unreachable(#[source] BoxError),
    /// The service did not respond in time.
    #[error(
        "the embedding service did not respond within {0:?}; raise embeddingServiceTimeout or give it more resources"
    )]
    Timeout(Duration),
    /// The service responded with another status than 200.
    #[error("the embedding service responded with status {0}; its log tells why")]
    Status(StatusCode),
    /// The service responded with a body that is larger than any number of embeddings.
    #[error(
        "the embedding service responded with more than {0} bytes; check that the address is that of an embedding service"
    )]
    TooLarge(usize),
    /// The body of the response is not of the documented form.
    #[error(
        "the embedding service responded with {0}; check that the address is that of an embedding service"
    )]
    Malformed(String),
    /// The vectors of one model differ in their number of dimensions.
    #[error(
        "the embedding service returned vectors of {found} dimensions instead of {expected}; all replicas must serve one model"
    )]
    Width {
        /// Number of dimensions of earlier vectors.
        expected: usize,
        /// Number of dimensions of this one.
        found: usize,
    },
    /// The service began to serve another model.
    #[error("the embedding service changed its model; the tools are embedded again")]
    ModelChanged,
    /// The service lists several models, or none.
    #[error("the embedding service lists {0} models; name one in embeddingServiceModel")]
    AmbiguousModel(usize),
}

impl EmbeddingError {
    /// Returns `true` if the service read the request, and a text is not acceptable.
    pub(super) fn is_rejected_text(&self) -> bool {
        const REJECTIONS: [StatusCode; 3] = [
            StatusCode::BAD_REQUEST,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        matches!(self, Self::Status(status) if REJECTIONS.contains(status))
    }
}

/// Error of an address that is not one of an embedding service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "embeddingService must be an http or https URL without user name, password, query and fragment"
)]
pub struct EmbeddingUrlError;

/// Error of a model for a service that serves only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a text-embeddings-inference server serves one model; that of a server with OpenAI's API is named if its URL ends in /v1"
)]
pub struct EmbeddingModelError;
