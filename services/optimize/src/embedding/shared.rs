//! Requests of an embedder, and the state that they change.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::{Notify, Semaphore};
use vmcp_core::{Clock, Fingerprint, SingleFlight, lock};

use super::model::Model;
use super::service::Batch;
use super::vector::Vector;
use super::worker::{self, Job};
use super::{EmbeddingError, EmbeddingService};
use crate::document::truncated;

/// Time after which a query checks that the service still serves the same model.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of queries whose embeddings are awaited, by searches or after them.
pub(super) const MAX_PENDING_QUERIES: usize = 256;

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

/// What is known of the service, and what remains to be embedded.
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

    /// Starts the worker if there is work for it and none runs.
    pub(super) fn ensure_worker(this: &Arc<Self>) {
        let mut state = lock(&this.state);
        if !state.has_worker && state.has_work() {
            state.has_worker = true;
            drop(state);
            tokio::spawn(worker::run(Arc::downgrade(this)));
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
            Err(error) => {
                let error = self.record_outage(error);
                Self::ensure_worker(&self);
                Err(error)
            }
        }
    }

    async fn request_query(&self, model: &Model, text: &str) -> Result<Vector, EmbeddingError> {
        let texts = [text.to_owned()];
        let embed = self.embed(model, &texts);
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

    /// Requests embeddings. Where the service rejects a text, probably because it is longer than the model reads and the
    /// service does not cut it, tries half of the length, for this and later requests.
    pub(super) async fn embed(
        &self,
        model: &Model,
        texts: &[String],
    ) -> Result<Batch, EmbeddingError> {
        loop {
            let max = model.max_text();
            let cut: Vec<_> = texts.iter().map(|text| truncated(text, max)).collect();
            match self.service.embed(&model.info, &cut).await {
                Err(EmbeddingError::Status(status))
                    if is_rejected_text(status) && model.halve_max_text(max) => {}
                result => return result,
            }
        }
    }

    /// Checks that the service still serves `model`.
    pub(super) async fn confirm(&self, model: &Model) -> Result<(), EmbeddingError> {
        if self.service.model().await? != model.info {
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

/// Returns `true` for a status that says that the request was read and a text is not acceptable.
fn is_rejected_text(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY
    )
}
