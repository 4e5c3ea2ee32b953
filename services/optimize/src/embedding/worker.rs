//! Task that embeds the tools of sets, and that reaches the service again after an outage.

use std::sync::{Arc, Weak};
use std::time::Duration;

use vmcp_core::{Fingerprint, lock};

use super::EmbeddingError;
use super::job::Progress;
use super::model::Model;
use super::shared::Shared;
use crate::interner::InternedValue;
use crate::set_data::SetData;
use crate::vector::{SetVectors, Vector};

/// Pause after the first failure. It doubles with each further one.
const MIN_BACKOFF: Duration = Duration::from_secs(1);

/// Longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// Text that is embedded to learn a model's width, and that it works.
const PROBE: &str = "tool";

/// Next tools of a set: their vectors as far as they are cached, and the texts of the others.
struct NextTools {
    rows: Vec<Option<Vector>>,
    /// Place in `rows` of each text, and the key of its vector.
    places: Vec<(usize, Fingerprint)>,
    texts: Vec<String>,
}

/// Guard that lets another worker start if this one does not end by itself: its runtime shut down, or it panicked.
struct WorkerGuard {
    embedder: Weak<Shared>,
    is_done: bool,
}

/// Starts a worker if there is work for it and none runs.
pub(super) fn ensure(shared: &Arc<Shared>) {
    let mut state = lock(&shared.state);
    if !state.has_worker && state.has_work() {
        state.has_worker = true;
        drop(state);
        tokio::spawn(run(Arc::downgrade(shared)));
    }
}

/// Runs until there is nothing to do, or the embedder is gone.
async fn run(embedder: Weak<Shared>) {
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
            let at = state.jobs.iter().position(|job| job.is_of(&set));
            if let Some(mut job) = at.and_then(|at| state.jobs.remove(at)) {
                job.progress = progress;
                match embedded {
                    Ok(true) => {}
                    Ok(false) => state.jobs.push_front(job),
                    // The next one may have better luck.
                    Err(_) => state.jobs.push_back(job),
                }
            }
        }
        self.changed.notify_waiters();
        embedded.map(|_| true)
    }

    /// Learns the model of the service, and ends an outage. Vectors of the same model stay.
    async fn establish(&self) -> Result<Arc<Model>, EmbeddingError> {
        let info = self.service.fetch_model().await?;
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
            let (generation, max_batch) = (Some(model.generation()), model.info.max_batch);
            *progress = Progress { generation, max_batch, ..Progress::default() };
        }
        let mut next = next_tools(model, progress, set);
        if !next.texts.is_empty() {
            match self.embed(model, &next.texts, &mut progress.max_text).await {
                Ok(batch) => {
                    model.check(&batch)?;
                    // A model that was replaced during the request may have made some of the vectors.
                    self.confirm(model).await?;
                    for ((at, key), vector) in next.places.into_iter().zip(batch.vectors) {
                        model.insert_tool(key, vector.clone());
                        next.rows[at] = Some(vector);
                    }
                    progress.max_batch = (progress.max_batch * 2).min(model.info.max_batch);
                }
                // The text alone is not acceptable: its tool is found by keywords.
                Err(error) if error.is_rejected_text() && next.texts.len() == 1 => {}
                Err(error) if error.is_rejected_text() => {
                    progress.max_batch = next.texts.len() / 2;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        progress.rows.append(&mut next.rows);
        if progress.rows.len() < set.documents().len() {
            return Ok(false);
        }
        let rows = std::mem::take(&mut progress.rows).into();
        let vectors = SetVectors { generation: model.generation(), rows };
        *lock(set.vectors()) = Some(Arc::new(vectors));
        Ok(true)
    }
}

/// Returns the next tools, up to the number of texts that fit into a request.
fn next_tools(model: &Model, progress: &Progress, set: &SetData) -> NextTools {
    let mut next = NextTools { rows: Vec::new(), places: Vec::new(), texts: Vec::new() };
    let len = set.documents().len();
    for at in progress.rows.len()..len {
        if at >= model.max_tools() {
            next.rows.resize(len - progress.rows.len(), None);
            break;
        }
        let document = set.document(at);
        let cached = model.tool(document.embedding_key);
        if cached.is_none() {
            if next.texts.len() == progress.max_batch {
                break;
            }
            next.places.push((next.rows.len(), document.embedding_key));
            next.texts.push(document.embedded_text());
        }
        next.rows.push(cached);
    }
    next
}
