//! Vectors of queries and sets, from caches or from the service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::{Clock, Fingerprint, lock};

use super::job::Job;
use super::shared::{MAX_PENDING_QUERIES, Shared};
use super::worker;
use super::{EmbeddingError, EmbeddingService};
use crate::interner::InternedValue;
use crate::set_data::SetData;
use crate::tool_set::ToolSet;
use crate::vector::{SetVectors, Vector};

/// Time that a search waits for embeddings before it answers by keywords.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of sets that wait for their embeddings.
const MAX_JOBS: usize = 1024;

/// Embeddings of tools and queries, cached by model and text.
///
/// A task embeds the tools of each set that is searched, in batches. While the service is away or responds with errors,
/// searches use keywords only, and the task tries again after 1 s to 1 min. Clones share everything.
#[derive(Clone)]
pub struct Embedder(Arc<Shared>);

/// State of an [`Embedder`], for status and gauges.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EmbedderStatus {
    /// Model that the service serves, if it was ever reached.
    pub model: Option<String>,
    /// Error for which searches use keywords only.
    pub outage: Option<Arc<EmbeddingError>>,
    /// Number of cached vectors of tools.
    pub tool_vectors: usize,
    /// Number of cached vectors of queries.
    pub query_vectors: usize,
    /// Number of sets whose tools are still being embedded.
    pub pending_sets: usize,
    /// Number of queries that are being embedded.
    pub pending_queries: usize,
}

/// Reason of a search by keywords only although an embedding service is configured.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The tools are still being embedded.
    Preparing,
    /// The service took longer than a search waits.
    Slow,
    /// Too many queries wait for the service.
    Busy,
    /// The service is away, or its responses are of no use.
    Unavailable(Arc<EmbeddingError>),
}

impl Embedder {
    /// Creates an embedder without vectors. It sends no request before the first search or
    /// [`prepare`](Self::prepare).
    #[must_use]
    pub fn new(service: EmbeddingService, clock: Clock) -> Self {
        Self(Arc::new(Shared::new(service, clock)))
    }

    /// Starts to embed the tools of a set, so that its first search need not wait. Requires a tokio runtime.
    pub fn prepare(&self, set: &ToolSet) {
        if self.ready_vectors(set.data()).is_none() {
            self.enqueue(set.data());
        }
    }

    /// Returns the state.
    #[must_use]
    pub fn status(&self) -> EmbedderStatus {
        let pending_queries = MAX_PENDING_QUERIES - self.0.pending_queries.available_permits();
        let state = lock(&self.0.state);
        let model = state.model.as_ref();
        let (tool_vectors, query_vectors) = model.map(|it| it.counts()).unwrap_or_default();
        EmbedderStatus {
            model: model.map(|model| model.info.id.clone()),
            outage: state.outage.clone(),
            tool_vectors,
            query_vectors,
            pending_sets: state.jobs.len(),
            pending_queries,
        }
    }

    /// Returns the vectors of a query and of the tools of a set, both of one model.
    pub(crate) async fn vectors(
        &self,
        set: &ToolSet,
        query: &str,
    ) -> Result<(Vector, Arc<SetVectors>), FallbackReason> {
        let deadline = Instant::now() + SEARCH_TIMEOUT;
        let vectors = self.set_vectors(set.data(), deadline);
        let query = self.query_vector(query, deadline);
        // Without the one, the other is of no use; a request for it goes on and fills the cache.
        let (vectors, (query, generation)) = futures_util::future::try_join(vectors, query).await?;
        // The model may have changed between the two.
        if vectors.generation == generation {
            Ok((query, vectors))
        } else {
            Err(FallbackReason::Preparing)
        }
    }

    async fn set_vectors(
        &self,
        set: &Arc<InternedValue<SetData>>,
        deadline: Instant,
    ) -> Result<Arc<SetVectors>, FallbackReason> {
        if let Some(ready) = self.ready_vectors(set) {
            return Ok(ready);
        }
        // Only the first searches wait: those that find the tools still being embedded after that time do not.
        let deadline = deadline.min(self.enqueue(set) + SEARCH_TIMEOUT);
        let ready = self.wait_until(deadline, || self.ready_vectors(set)).await?;
        ready.ok_or(FallbackReason::Preparing)
    }

    async fn query_vector(
        &self,
        text: &str,
        deadline: Instant,
    ) -> Result<(Vector, u64), FallbackReason> {
        worker::ensure(&self.0);
        let model = || lock(&self.0.state).model.clone();
        let model = self.wait_until(deadline, model).await?.ok_or(FallbackReason::Slow)?;
        let key = Fingerprint::of(text);
        if let Some(vector) = model.query(key) {
            return Ok((vector, model.generation()));
        }
        let permits = Arc::clone(&self.0.pending_queries);
        let permit = permits.try_acquire_owned().map_err(|_| FallbackReason::Busy)?;
        let (shared, generation, text) = (Arc::clone(&self.0), model.generation(), text.to_owned());
        // A task of its own: it outlives this search, and puts the vector into the cache.
        let task = tokio::spawn(async move {
            let fetch = || Arc::clone(&shared).embed_query(model, text);
            let result = shared.queries.join((generation, key), fetch).await;
            // An outage is over when the worker says so.
            worker::ensure(&shared);
            drop(permit);
            result
        });
        match tokio::time::timeout_at(deadline, task).await {
            Ok(Ok(Ok(vector))) => Ok((vector, generation)),
            Ok(Ok(Err(error))) => Err(FallbackReason::Unavailable(error)),
            // The task panicked, or the runtime shuts down.
            Ok(Err(_)) => Err(FallbackReason::Busy),
            Err(_) => Err(FallbackReason::Slow),
        }
    }

    /// Returns the vectors of a set, if they were made by the current model.
    fn ready_vectors(&self, set: &SetData) -> Option<Arc<SetVectors>> {
        let vectors = lock(set.vectors()).clone()?;
        let generation = lock(&self.0.state).model.as_ref()?.generation();
        (vectors.generation == generation).then_some(vectors)
    }

    /// Waits until `ready` returns a value or the service is away. `None` after the deadline.
    async fn wait_until<T>(
        &self,
        deadline: Instant,
        ready: impl Fn() -> Option<T>,
    ) -> Result<Option<T>, FallbackReason> {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // Enabled before the state is read, so that no change is missed.
            changed.as_mut().enable();
            let outage = lock(&self.0.state).outage.clone();
            if let Some(error) = outage {
                worker::ensure(&self.0);
                return Err(FallbackReason::Unavailable(error));
            }
            if let Some(ready) = ready() {
                return Ok(Some(ready));
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Ok(ready());
            }
        }
    }

    /// Adds a set to those that wait for their embeddings, and returns the time since which it waits.
    fn enqueue(&self, set: &Arc<InternedValue<SetData>>) -> Instant {
        let since = {
            let mut state = lock(&self.0.state);
            let found = state.jobs.iter().find(|job| job.is_of(set)).map(Job::since);
            found.unwrap_or_else(|| {
                if state.jobs.len() >= MAX_JOBS {
                    state.jobs.pop_front();
                }
                let now = Instant::now();
                state.jobs.push_back(Job::new(set, now));
                now
            })
        };
        worker::ensure(&self.0);
        since
    }
}

impl fmt::Debug for Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedder").field("status", &self.status()).finish()
    }
}
