//! Vectors that one model of an embedding service made.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::{Cache, Clock, Fingerprint, lock};

use super::EmbeddingError;
use super::service::{Batch, ModelInfo};
use crate::vector::Vector;

/// Maximum size of the vectors of one model's cache, and of one set, in bytes.
const MAX_VECTOR_BYTES: usize = 128 * 1024 * 1024;

/// Maximum number of cached vectors of queries.
const MAX_QUERIES: usize = 1024;

/// Lifetime of a cached vector of a tool. A set keeps its vectors for as long as it exists.
const TOOL_LIFETIME: Duration = Duration::from_hours(24);

/// Lifetime of a cached vector of a query.
const QUERY_LIFETIME: Duration = Duration::from_hours(1);

/// Model in use, with the vectors that it made. Another model, also one of the same name and another width, is another value.
pub(super) struct Model {
    pub(super) info: ModelInfo,
    /// Name in responses of the service, which need not be the configured one.
    reported: Option<String>,
    width: usize,
    generation: u64,
    /// Time at which the service was last seen to serve this model.
    confirmed_at: Mutex<Instant>,
    tools: Cache<Fingerprint, Vector>,
    queries: Cache<Fingerprint, Vector>,
    clock: Clock,
}

impl Model {
    /// Creates a model from the embeddings of one text.
    pub(super) fn new(info: ModelInfo, first: &Batch, clock: Clock) -> Self {
        // `Relaxed`: the numbers only have to differ.
        static GENERATIONS: AtomicU64 = AtomicU64::new(0);
        let width = first.vectors.first().map_or(1, Vector::width);
        Self {
            info,
            reported: first.model.clone(),
            width,
            generation: GENERATIONS.fetch_add(1, Ordering::Relaxed),
            confirmed_at: Mutex::new(Instant::now()),
            tools: Cache::new(max_vectors(width)),
            queries: Cache::new(MAX_QUERIES),
            clock,
        }
    }

    /// Returns `true` if `other` is the same model.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.info.id, &self.reported, self.width)
            == (&other.info.id, &other.reported, other.width)
    }

    /// Checks that a response comes from this model.
    pub(super) fn check(&self, batch: &Batch) -> Result<(), EmbeddingError> {
        if batch.model != self.reported {
            return Err(EmbeddingError::ModelChanged);
        }
        match batch.vectors.iter().map(Vector::width).find(|width| *width != self.width) {
            Some(found) => Err(EmbeddingError::Width { expected: self.width, found }),
            None => Ok(()),
        }
    }

    pub(super) fn confirm(&self) {
        *lock(&self.confirmed_at) = Instant::now();
    }

    pub(super) fn confirmed_at(&self) -> Instant {
        *lock(&self.confirmed_at)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the maximum number of tools of a set that have a vector.
    pub(super) fn max_tools(&self) -> usize {
        max_vectors(self.width)
    }

    pub(super) fn tool(&self, key: Fingerprint) -> Option<Vector> {
        self.tools.get(&key, self.clock.now())
    }

    pub(super) fn insert_tool(&self, key: Fingerprint, vector: Vector) {
        let now = self.clock.now();
        self.tools.insert(key, vector, now + TOOL_LIFETIME, now);
    }

    pub(super) fn query(&self, key: Fingerprint) -> Option<Vector> {
        self.queries.get(&key, self.clock.now())
    }

    pub(super) fn insert_query(&self, key: Fingerprint, vector: Vector) {
        let now = self.clock.now();
        self.queries.insert(key, vector, now + QUERY_LIFETIME, now);
    }

    /// Returns the numbers of cached vectors of tools and of queries: gauges.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.tools.len(), self.queries.len())
    }
}

fn max_vectors(width: usize) -> usize {
    MAX_VECTOR_BYTES / (width.max(1) * size_of::<f32>())
}
