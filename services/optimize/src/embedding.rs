//! Embeddings: vectors of texts, made by a service.

mod embedder;
mod error;
mod model;
mod response;
mod service;
mod shared;
mod vector;
mod worker;

pub use self::embedder::{Embedder, EmbedderStatus, FallbackReason};
pub use self::error::{EmbeddingError, EmbeddingUrlError};
pub use self::service::EmbeddingService;

pub(crate) use self::model::SetVectors;
pub(crate) use self::vector::Vector;
