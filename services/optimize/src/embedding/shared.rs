//! Requests of an embedder, and the state that they change.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use vmcp_core::{Clock, Fingerprint, SingleFlight, lock};

use super::job::Job;
use super::model::Model;
use super::service::Batch;
use super::{EmbeddingError, EmbeddingService};
use crate::document::{MAX_EMBEDDED_TEXT, truncated};
use crate::vector::Vector;

/// Time after which a query checks that the service still serves the same model.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of queries whose embeddings are awaited, by searches or after them.
pub(super) const MAX_PENDING_QUERIES: usize = 256;

/// Length to which texts are cut at least, in bytes, however often the service rejects them.
const MIN_TEXT: usize = 256;

/// State that an embedder's clones and its worker share.
pub(super) struct Shared {
    pub(super) service: EmbeddingService,
    pub(super) clock: Clock,
    pub(super) state: Mutex<State>,
    /// Notified after each change of the state.
    pub(super) changed: Notify,
    pub(super) queries: SingleFlight<(u64, Fingerprint), Result<Vector, Arc<EmbeddingError>>>,
    pub(super) pending_queries: Arc<Semaphore>,
}

/// State of the service, and the sets that remain to be embedded.
#[derive(Default)]
pub(super) struct State {
    pub(super) model: Option<Arc<Model>>,
    /// Error for which searches do not use the service, until the worker has reached it again.
    pub(super) outage: Option<Arc<EmbeddingError>>,
    pub(super) jobs: VecDeque<Job>,
    pub(super) has_worker: bool,
}

impl Shared {
    pub(super) fn new(service: EmbeddingService, clock: Clock) -> Self {
        Self {
            service,
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
            queries: SingleFlight::new(),
            pending_queries: Arc::new(Semaphore::new(MAX_PENDING_QUERIES)),
        }
    }

    /// Embeds a query. An error is an outage for all searches, until the worker has reached the service again.
    pub(super) async fn embed_query(
        self: Arc<Self>,
        model: Arc<Model>,
        text: String,
    ) -> Result<Vector, Arc<EmbeddingError>> {
        match self.request_query(&model, &text).await {
            Ok(vector) => {
                model.insert_query(Fingerprint::of(&*text), vector.clone());
                Ok(vector)
            }
            // One query must not take the service from all others.
            Err(error) if error.is_rejected_text() => Err(Arc::new(error)),
            Err(error) => Err(self.record_outage(error)),
        }
    }

    async fn request_query(&self, model: &Model, text: &str) -> Result<Vector, EmbeddingError> {
        let texts = [text.to_owned()];
        let mut max_text = MAX_EMBEDDED_TEXT;
        let embed = self.embed(model, &texts, &mut max_text);
        let confirm = async {
            if model.confirmed_at().elapsed() < CONFIRM_INTERVAL {
                return Ok(());
            }
            self.confirm(model).await
        };
        let (batch, confirmed) = futures_util::future::join(embed, confirm).await;
        let mut batch = batch?;
        confirmed?;
        model.check(&batch)?;
        batch.vectors.pop().ok_or_else(|| EmbeddingError::Malformed("no vector".to_owned()))
    }

    /// Requests embeddings of texts of up to `max_text` bytes. Where the service rejects them, probably because one is longer
    /// than the model reads and the service does not cut it, halves that length.
    pub(super) async fn embed(
        &self,
        model: &Model,
        texts: &[String],
        max_text: &mut usize,
    ) -> Result<Batch, EmbeddingError> {
        loop {
            let cut: Vec<_> = texts.iter().map(|text| truncated(text, *max_text)).collect();
            match self.service.embed(&model.info, &cut).await {
                Err(error) if error.is_rejected_text() && *max_text > MIN_TEXT => {
                    *max_text = (*max_text / 2).max(MIN_TEXT);
                }
                result => return result,
            }
        }
    }

    /// Checks that the service still serves `model`.
    pub(super) async fn confirm(&self, model: &Model) -> Result<(), EmbeddingError> {
        if self.service.fetch_model().await?.id != model.info.id {
            return Err(EmbeddingError::ModelChanged);
        }
        model.confirm();
        Ok(())
    }

    /// Records that the service is of no use until the worker has reached it again.
    pub(super) fn record_outage(&self, error: EmbeddingError) -> Arc<EmbeddingError> {
        let error = Arc::new(error);
        let is_new = {
            let mut state = lock(&self.state);
            state.outage.replace(Arc::clone(&error)).is_none()
        };
        if is_new {
            let error: &dyn std::error::Error = &*error;
            tracing::warn!(error, host = self.service.host(), "embedding_service_unavailable");
        }
        self.changed.notify_waiters();
        error
    }
}

impl State {
    /// Returns `true` if there is something that the worker has to do.
    pub(super) fn has_work(&self) -> bool {
        self.model.is_none() || self.outage.is_some() || !self.jobs.is_empty()
    }
}
