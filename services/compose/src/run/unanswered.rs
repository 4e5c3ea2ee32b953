//! End of suspended runs whose questions have no answers.

use std::time::SystemTime;

use super::journal::Journal;
use crate::record::null;
use crate::{
    Answer, Change, RoundRecord, RunError, RunErrorKind, RunEvent, RunId, RunObserver, RunOwner,
    RunRecord, RunResult, RunStatus, StepResult, StepStatus, StoreError, Timestamp, Workflow,
    WorkflowStore,
};

/// Error of a question that expired.
pub(super) const NOT_ANSWERED: &str = "the user did not answer in time";

/// Ends a suspended run as timed out if each question of its open round expired at or before `until`. No other step starts,
/// whatever `onCancel` and `onError` say: the calls of steps need a request of the owner. A run of another definition, or with
/// an answer that was kept, stays as it is.
///
/// # Errors
/// The error of the store: [`StoreError::Leased`] while another process writes to the run.
pub async fn end_unanswered(
    workflow: &Workflow,
    (owner, run): (&RunOwner, &RunId),
    until: SystemTime,
    store: &dyn WorkflowStore,
    observer: &dyn RunObserver,
    now: SystemTime,
) -> Result<(), StoreError> {
    let is_over = |round: &RoundRecord| {
        round.questions.iter().all(|it| it.answered_by.is_none() && it.expires_at <= until.into())
    };
    let seen = match store.read(owner, run).await {
        Err(StoreError::NotFound) => return Ok(()),
        seen => seen?,
    };
    let round = seen.open_round().and_then(|round| seen.rounds.get(round));
    let Some(round) = round.filter(|round| is_over(round)) else { return Ok(()) };
    if seen.is_finished() || seen.definition != workflow.definition() {
        return Ok(());
    }
    let (lease, record) = match store.acquire(owner, run).await {
        Err(StoreError::Finished | StoreError::NotFound) => return Ok(()),
        leased => leased?,
    };
    // Gives the lease back unless the run ends.
    let mut journal = Journal::new(store, lease);
    if record.version != seen.version {
        return Err(StoreError::Leased);
    }
    let now = Timestamp::from(now);
    let end = UnansweredEnd { workflow, record: &record, round, now };
    match journal.close(end.changes()).await {
        Err(StoreError::Superseded | StoreError::Finished) => return Ok(()),
        closed => closed?,
    }
    end.report(observer);
    Ok(())
}

/// End of a run by the questions of a round.
struct UnansweredEnd<'a> {
    workflow: &'a Workflow,
    record: &'a RunRecord,
    round: &'a RoundRecord,
    now: Timestamp,
}

impl UnansweredEnd<'_> {
    fn error(&self) -> RunError {
        let first = self.round.questions.first().and_then(|it| self.workflow.0.steps.get(it.step));
        let first = first.expect("a round has questions of the definition");
        let message = format!("step \"{}\": {NOT_ANSWERED}: call the tool again", first.id);
        RunError::new(RunErrorKind::TimedOut, message).at_step(&first.id)
    }

    fn changes(&self) -> Vec<Change> {
        let failed = |question: &crate::RecordedQuestion| Change::StepFinished {
            step: question.step,
            at: self.now,
            result: StepResult {
                status: StepStatus::Failed,
                output: null(),
                content: null(),
                error: Some(NOT_ANSWERED.into()),
            },
        };
        let result = RunResult::Failed(self.error());
        let end = Change::RunFinished { status: RunStatus::TimedOut, at: self.now, result };
        self.round.questions.iter().map(failed).chain([end]).collect()
    }

    fn report(&self, observer: &dyn RunObserver) {
        let Self { workflow, record, round, now } = self;
        let plan = &workflow.0;
        let mut done = record.steps.values().filter(|step| step.result.is_some()).count();
        observer.observe(&RunEvent::RunResumed {
            run: &record.id,
            workflow: &plan.name,
            done,
            steps: plan.steps.len(),
        });
        for question in &round.questions {
            let Some(step) = plan.steps.get(question.step) else { continue };
            let started = record.steps.get(&question.step).and_then(|step| step.started_at);
            done += 1;
            observer.observe(&RunEvent::StepFinished {
                step: &step.id,
                status: StepStatus::Failed,
                error: Some(NOT_ANSWERED),
                answer: Some(Answer::TimedOut.action()),
                duration: started.map_or(std::time::Duration::ZERO, |at| now.since(at)),
                done,
                steps: plan.steps.len(),
            });
        }
        let (error, duration) = (self.error(), now.since(record.started_at));
        observer.observe(&RunEvent::RunFinished { error: Some(&error), duration });
    }
}
