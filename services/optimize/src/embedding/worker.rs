//! Task that embeds the tools of sets, and that reaches the service again after an outage.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::{Fingerprint, lock};

use super::EmbeddingError;
use super::model::{Model, SetVectors};
use super::shared::Shared;
use super::vector::Vector;
use crate::interner::InternedValue;
use crate::set_data::SetData;

/// Pause after the first failure. It doubles with each further one.
const MIN_BACKOFF: Duration = Duration::from_secs(1);

/// Longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// Text that is embedded to learn a model's width, and that it works.
const PROBE: &str = "tool";

/// Set whose tools are being embedded.
pub(super) struct Job {
    set: Weak<InternedValue<SetData>>,
    since: Instant,
    progress: Progress,
}

/// Vectors that one model made of a set's tools, in order.
#[derive(Default)]
struct Progress {
    generation: Option<u64>,
    rows: Vec<Option<Vector>>,
}

/// Texts of the next request: positions, keys and texts.
type MissingTexts = (Vec<(usize, Fingerprint)>, Vec<String>);

impl Job {
    pub(super) fn new(set: &Arc<InternedValue<SetData>>, since: Instant) -> Self {
        Self { set: Arc::downgrade(set), since, progress: Progress::default() }
    }

    pub(super) fn is_of(&self, set: &Arc<InternedValue<SetData>>) -> bool {
        std::ptr::eq(self.set.as_ptr(), Arc::as_ptr(set))
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }
}

/// Guard that lets another worker start if this one does not end by itself: its runtime shut down, or it panicked.
struct WorkerGuard {
    embedder: Weak<Shared>,
    is_done: bool,
}

/// Runs until there is nothing to do, or the embedder is gone.
pub(super) async fn run(embedder: Weak<Shared>) {
    let mut guard = WorkerGuard { embedder: Weak::clone(&embedder), is_done: false };
    let mut backoff = MIN_BACKOFF;
    loop {
        // Held for one step only, so that the embedder's owner can drop it.
        let Some(shared) = embedder.upgrade() else { return };
        match shared.step().await {
            Ok(true) => backoff = MIN_BACKOFF,
            Ok(false) => {
                guard.is_done = true;
                return;
            }
            Err(error) => {
                shared.record_outage(error);
                drop(shared);
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(MAX_BACKOFF);
            }
        }
    }
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        // A worker that is done said so under the lock when it found nothing to do; another may run by now.
        if let (false, Some(shared)) = (self.is_done, self.embedder.upgrade()) {
            lock(&shared.state).has_worker = false;
        }
    }
}

impl Shared {
    /// Sends the next request or two. Returns `false` if there is nothing to do; the worker then ends.
    async fn step(&self) -> Result<bool, EmbeddingError> {
        let (model, has_outage) = {
            let state = lock(&self.state);
            (state.model.clone(), state.outage.is_some())
        };
        let model = match model {
            Some(model) if !has_outage => model,
            _ => self.establish().await?,
        };
        let Some((mut progress, set)) = self.next_job() else {
            return Ok(false);
        };
        let embedded = self.advance(&model, &mut progress, &set).await;
        {
            let mut state = lock(&self.state);
            // Absent if newer jobs took its place.
            if let Some(at) = state.jobs.iter().position(|job| job.is_of(&set)) {
                match embedded {
                    Ok(true) => drop(state.jobs.remove(at)),
                    Ok(false) | Err(_) => state.jobs[at].progress = progress,
                }
            }
        }
        self.changed.notify_waiters();
        embedded.map(|_| true)
    }

    /// Learns the model of the service, and ends an outage. Vectors of the same model stay.
    async fn establish(&self) -> Result<Arc<Model>, EmbeddingError> {
        let info = self.service.model().await?;
        let first = self.service.embed(&info, &[PROBE]).await?;
        let model = Model::new(info, &first, self.clock.clone());
        let mut state = lock(&self.state);
        let model = match state.model.take().filter(|current| current.is_same(&model)) {
            Some(current) => {
                current.confirm();
                current
            }
            None => Arc::new(model),
        };
        state.model = Some(Arc::clone(&model));
        let was_away = state.outage.take().is_some();
        drop(state);
        if was_away {
            tracing::info!(host = self.service.host(), "embedding_service_available");
        }
        self.changed.notify_waiters();
        Ok(model)
    }

    /// Takes the progress of the next job whose set still exists. The job itself stays where searches find the time since
    /// which it waits. Without a job, the worker ends: a later one starts another.
    fn next_job(&self) -> Option<(Progress, Arc<InternedValue<SetData>>)> {
        let mut state = lock(&self.state);
        while let Some(job) = state.jobs.front_mut() {
            if let Some(set) = job.set.upgrade() {
                return Some((std::mem::take(&mut job.progress), set));
            }
            state.jobs.pop_front();
        }
        state.has_worker = false;
        None
    }

    /// Embeds the next tools of a set. Returns `true` if all of them have vectors, which the set then has.
    async fn advance(
        &self,
        model: &Model,
        progress: &mut Progress,
        set: &SetData,
    ) -> Result<bool, EmbeddingError> {
        if progress.generation != Some(model.generation()) {
            *progress = Progress { generation: Some(model.generation()), rows: Vec::new() };
        }
        let (places, texts) = next_texts(model, progress, set);
        if !texts.is_empty() {
            let batch = self.embed(model, &texts).await?;
            model.check(&batch)?;
            // A model that was replaced during the request may have made some of the vectors.
            self.confirm(model).await?;
            for ((at, key), vector) in places.into_iter().zip(batch.vectors) {
                model.insert_tool(key, vector.clone());
                progress.rows[at] = Some(vector);
            }
        }
        if progress.rows.len() < set.documents().len() {
            return Ok(false);
        }
        let rows = std::mem::take(&mut progress.rows).into();
        let vectors = SetVectors { generation: model.generation(), rows };
        *lock(set.vectors()) = Some(Arc::new(vectors));
        Ok(true)
    }
}

/// Continues with the vectors that are cached, up to the number of missing ones that fit into a request.
fn next_texts(model: &Model, progress: &mut Progress, set: &SetData) -> MissingTexts {
    let (mut places, mut texts) = (Vec::new(), Vec::<String>::new());
    // Rows without a vector are those of an earlier request that failed.
    let failed = progress.rows.iter().position(Option::is_none);
    progress.rows.truncate(failed.unwrap_or(progress.rows.len()));
    for at in progress.rows.len()..set.documents().len() {
        if at >= model.max_tools() {
            progress.rows.resize(set.documents().len(), None);
            break;
        }
        let document = set.document(at);
        let cached = model.tool(document.embedding_key);
        if cached.is_none() {
            if texts.len() == model.info.max_batch {
                break;
            }
            places.push((at, document.embedding_key));
            texts.push(document.embedded_text());
        }
        progress.rows.push(cached);
    }
    (places, texts)
}
