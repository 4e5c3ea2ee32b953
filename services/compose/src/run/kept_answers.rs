//! Answers that are kept until the run can continue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use vmcp_core::Clock;

use super::failure::store_error;
use super::journal::Journal;
use crate::{
    Answer, Change, KeptAnswer, RunError, RunErrorKind, RunId, RunOwner, RunRecord, StoreError,
    Timestamp, Workflow, WorkflowStore,
};

/// Pause while another process writes to the run.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Keeps answers to open questions of a suspended run, all or none. Returns `true` if [`resume`](crate::resume) without
/// answers can continue the run: each open question has an answer, or one of them expired. Equal answers to the same
/// question are accepted again; answers to questions that are unknown, or expired without an answer, are ignored.
///
/// # Errors
/// [`RunErrorKind::InvalidAnswer`] for content that does not fit its question, and [`RunErrorKind::RoundConflict`] for another
/// answer to a question that has one.
pub async fn keep_answers(
    workflow: &Workflow,
    (owner, run): (&RunOwner, &RunId),
    answers: &[(Arc<str>, Answer)],
    store: &dyn WorkflowStore,
    clock: &Clock,
) -> Result<bool, RunError> {
    loop {
        let record = store.read(owner, run).await.map_err(store_error)?;
        let now = clock.now().into();
        let kept = select(workflow, &record, answers, now)?;
        let Some(round) = record.open_round().filter(|_| !record.is_finished()) else {
            return Ok(false);
        };
        if kept.is_empty() {
            let is_changed = record.definition != workflow.definition();
            return Ok(is_changed || record.rounds[round].is_ready(now));
        }
        let (lease, leased) = match store.acquire(owner, run).await {
            Ok(leased) => leased,
            Err(StoreError::Leased) => {
                sleep(RETRY_DELAY).await;
                continue;
            }
            Err(StoreError::Finished) => continue,
            Err(error) => return Err(store_error(error)),
        };
        // The journal gives the lease back.
        let journal = Journal::new(store, lease);
        if leased.version != record.version {
            continue;
        }
        match journal.commit(vec![Change::AnswersKept { round, answers: kept }]).await {
            Ok(()) | Err(StoreError::RoundConsumed | StoreError::Superseded) => {}
            Err(error) => return Err(store_error(error)),
        }
    }
}

/// Returns the answers to open questions. Checks each answer against its question.
fn select(
    workflow: &Workflow,
    record: &RunRecord,
    answers: &[(Arc<str>, Answer)],
    now: Timestamp,
) -> Result<Vec<KeptAnswer>, RunError> {
    let mut kept = Vec::new();
    if record.definition != workflow.definition() {
        return Ok(kept);
    }
    let questions = workflow.open_questions(record);
    for (step, answer) in answers {
        let number = workflow.0.steps.iter().position(|planned| planned.id == *step);
        let mut rounds = record.rounds.iter().rev().flat_map(|round| &round.questions);
        let Some(asked) = rounds.find(|question| Some(question.step) == number) else { continue };
        let digest = answer.digest();
        match asked.answered_by {
            Some(earlier) if earlier == digest => continue,
            Some(_) => {
                let message = format!("step \"{step}\" was answered differently before");
                return Err(RunError::new(RunErrorKind::RoundConflict, message).at_step(step));
            }
            None if record.is_finished() || asked.expires_at <= now => continue,
            None => {}
        }
        let Some(question) = questions.iter().find(|question| question.step == *step) else {
            continue;
        };
        if let Answer::Accept(content) = answer {
            question.check(content).map_err(|error| {
                RunError::new(RunErrorKind::InvalidAnswer, error.to_string()).at_step(step)
            })?;
        }
        kept.push(KeptAnswer { step: asked.step, answer: answer.clone(), digest });
    }
    Ok(kept)
}
