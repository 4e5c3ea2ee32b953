//! Embeddings: vectors of texts, made by a service.

mod embedder;
mod error;
mod job;
mod model;
mod response;
mod service;
mod shared;
mod worker;

pub use self::embedder::{Embedder, EmbedderStatus, FallbackReason};
pub use self::error::{EmbeddingError, EmbeddingModelError, EmbeddingUrlError};
pub use self::service::EmbeddingService;
