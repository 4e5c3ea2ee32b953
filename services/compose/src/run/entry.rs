//! Start, continuation and end of runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tower::Service;

use super::drive::DriveOutcome;
use super::engine::Engine;
use super::failure::store_error;
use super::journal::Journal;
use super::output;
use super::progress::Progress;
use super::resumption::{Continuation, decide};
use super::{InputRequired, Outcome, ResumeRequest, RunContext, RunOutput, RunRequest};
use crate::{
    Answer, CallError, Change, Question, RunError, RunErrorKind, RunEvent, RunRecord, RunResult,
    RunStatus, StoreError, Timestamp, ToolCall, ToolOutcome, Workflow,
};

/// Runs a workflow. If the future is dropped, the calls in progress are cancelled, and the run is interrupted.
pub async fn run<C>(workflow: &Workflow, request: RunRequest, context: &RunContext<C>) -> Outcome
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    let RunRequest { id, owner, arguments, keeps_result } = request;
    let arguments = match workflow.check_arguments(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return Outcome::Failed(error),
    };
    let plan = &*workflow.0;
    let now = Timestamp::from(context.clock.now());
    let name = plan.name.clone();
    let mut record =
        RunRecord::new(id.clone(), owner.clone(), name, plan.definition, arguments, now);
    record.keeps_result = keeps_result;
    let shared = record.arguments.clone();
    let lease = match context.store.create(record, Vec::new()).await {
        Ok(lease) => lease,
        Err(error) => return Outcome::Failed(store_error(error)),
    };
    let started = Instant::now();
    let engine = Engine {
        plan,
        context,
        run: &id,
        owner: &owner,
        rounds: 0,
        arguments: shared,
        started_at: now,
        started,
        deadline: started + plan.timeout,
        journal: Journal::new(&*context.store, lease),
        active: Arc::default(),
    };
    engine.observe(&RunEvent::RunStarted {
        run: &id,
        workflow: &plan.name,
        steps: plan.steps.len(),
    });
    engine.complete(Progress::new(plan.steps.len()), BTreeMap::new()).await
}

/// Continues a run that was suspended or interrupted. Equal answers to the same round get the same outcome. While another
/// process runs it, waits for the outcome.
pub async fn resume<C>(
    workflow: &Workflow,
    request: ResumeRequest,
    context: &RunContext<C>,
) -> Outcome
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    let ResumeRequest { id, owner, answers } = request;
    loop {
        let seen = match context.store.read(&owner, &id).await {
            Ok(record) => record,
            Err(error) => return Outcome::Failed(unreadable(error)),
        };
        let now = context.clock.now().into();
        let step = match decide(workflow, &seen, answers.as_ref(), now) {
            Ok(step) => step,
            Err(outcome) => return outcome,
        };
        let (lease, record) = match context.store.acquire(&owner, &id).await {
            Ok(leased) => leased,
            Err(StoreError::Leased) => {
                if let Err(error) = context.store.wait(&owner, &id, seen.version).await {
                    return Outcome::Failed(store_error(error));
                }
                continue;
            }
            Err(StoreError::Finished) => continue,
            Err(error) => return Outcome::Failed(store_error(error)),
        };
        let journal = Journal::new(&*context.store, lease);
        if record.version != seen.version {
            // Another process wrote in between: decide again. The journal gives the lease back.
            continue;
        }
        return restart(workflow, context, record, journal, step).await;
    }
}

/// Returns the error of a client that continues a run which the store does not have, or cannot read.
fn unreadable(error: StoreError) -> RunError {
    if error != StoreError::NotFound {
        return store_error(error);
    }
    let message = format!("{error}: call the tool again without requestState");
    RunError::new(RunErrorKind::UnknownRound, message)
}

/// Continues a leased run.
async fn restart<C>(
    workflow: &Workflow,
    context: &RunContext<C>,
    mut record: RunRecord,
    journal: Journal<'_>,
    continuation: Continuation,
) -> Outcome
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    let plan = &*workflow.0;
    let past = Timestamp::from(context.clock.now()).since(record.started_at);
    let now = Instant::now();
    let mut progress = Progress::from_record(&mut record, plan.steps.len());
    let engine = Engine {
        plan,
        context,
        run: &record.id,
        owner: &record.owner,
        rounds: record.rounds.len(),
        arguments: record.arguments.clone(),
        started_at: record.started_at,
        started: now.checked_sub(past).unwrap_or(now),
        deadline: now + plan.timeout.saturating_sub(past),
        journal,
        active: Arc::default(),
    };
    engine.observe(&RunEvent::RunResumed {
        run: &record.id,
        workflow: &plan.name,
        done: progress.done.len(),
        steps: plan.steps.len(),
    });
    let answers = match continuation {
        Continuation::End => return engine.end_changed().await,
        Continuation::Continue => BTreeMap::new(),
        Continuation::Answer { round, digest, answers } => {
            progress.changes.push(Change::RoundConsumed { round, digest });
            answers
        }
    };
    engine.complete(progress, answers).await
}

impl<C> Engine<'_, C>
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    /// Runs to the end or to the next round of questions, and stores which it is.
    async fn complete(
        mut self,
        mut progress: Progress,
        answers: BTreeMap<usize, Answer>,
    ) -> Outcome {
        let guard = self.guard(progress.done.len());
        let driven = self.drive_until_deadline(&mut progress, answers).await;
        let changes = std::mem::take(&mut progress.changes);
        let result = match driven {
            Ok(DriveOutcome::Waiting(questions)) => {
                let suspended = self.suspend(changes, questions).await;
                guard.disarm();
                return match suspended {
                    Ok(input) => Outcome::InputRequired(input),
                    Err(error) => {
                        self.report_cancelled(&progress);
                        self.report_end(Some(&error));
                        Outcome::Failed(error)
                    }
                };
            }
            Ok(DriveOutcome::Done) => output::construct(&self.scope(), &progress.results),
            Err(error) => {
                self.report_cancelled(&progress);
                Err(error)
            }
        };
        let result = self.end(result, changes).await;
        guard.disarm();
        match result {
            Ok(output) => Outcome::Completed(RunOutput::new(output)),
            Err(error) => Outcome::Failed(error),
        }
    }

    async fn drive_until_deadline(
        &self,
        progress: &mut Progress,
        answers: BTreeMap<usize, Answer>,
    ) -> Result<DriveOutcome, RunError> {
        // A run that is resumed too late sends nothing: a timeout polls its future first.
        if Instant::now() < self.deadline {
            let driven = timeout_at(self.deadline, self.drive(progress, answers)).await;
            if let Ok(driven) = driven {
                return driven;
            }
        }
        let (name, timeout) = (&self.plan.name, self.plan.timeout);
        let message = format!("workflow {name} is not done within its timeout of {timeout:?}");
        Err(RunError::new(RunErrorKind::TimedOut, message))
    }

    /// Stores the questions and gives the run back.
    async fn suspend(
        &mut self,
        mut changes: Vec<Change>,
        mut questions: BTreeMap<usize, Question>,
    ) -> Result<InputRequired, RunError> {
        changes.push(Change::RoundOpened { questions: self.open_round(&mut questions) });
        match self.journal.close(changes).await {
            Ok(()) => {
                let (run, round) = (self.run.clone(), self.rounds);
                let duration = self.started.elapsed();
                self.observe(&RunEvent::RunSuspended { questions: questions.len(), duration });
                let questions = questions.into_values().collect();
                Ok(InputRequired { run, round, questions })
            }
            Err(error) => Err(self.explain(store_error(error)).await),
        }
    }

    /// Returns the reason why the lease is over, if the owner cancelled the run.
    async fn explain(&self, error: RunError) -> RunError {
        if error.kind() != RunErrorKind::Superseded {
            return error;
        }
        match self.context.store.read(self.owner, self.run).await {
            Ok(RunRecord { result: Some(RunResult::Failed(reason)), .. }) => reason,
            _ => error,
        }
    }

    /// Ends a run of another definition.
    async fn end_changed(mut self) -> Outcome {
        let message = format!(
            "the definition of workflow {} changed during the run: call it again",
            self.plan.name
        );
        let error = RunError::new(RunErrorKind::DefinitionChanged, message);
        match self.end(Err(error), Vec::new()).await {
            Ok(output) => Outcome::Completed(RunOutput::new(output)),
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Stores the result of the run and reports it.
    async fn end(
        &mut self,
        result: Result<Arc<Value>, RunError>,
        mut changes: Vec<Change>,
    ) -> Result<Arc<Value>, RunError> {
        let result = match result {
            // Another process may continue the run, or this one once the store responds.
            Err(error)
                if matches!(error.kind(), RunErrorKind::Superseded | RunErrorKind::Store) =>
            {
                Err(self.explain(error).await)
            }
            result => {
                let (status, recorded) = match &result {
                    Ok(output) => (RunStatus::Completed, RunResult::Completed(output.clone())),
                    Err(error) => (status_of(error), RunResult::Failed(error.clone())),
                };
                changes.push(Change::RunFinished { status, at: self.now(), result: recorded });
                match self.journal.close(changes).await {
                    Ok(()) => result,
                    // The calls were made: their result counts more than the failed record of it.
                    Err(
                        StoreError::Unavailable
                        | StoreError::Full { .. }
                        | StoreError::RunTooLarge { .. },
                    ) if result.is_ok() => result,
                    Err(error) => Err(self.explain(store_error(error)).await),
                }
            }
        };
        self.report_end(result.as_ref().err());
        result
    }

    fn report_end(&self, error: Option<&RunError>) {
        let duration = self.started.elapsed();
        self.observe(&RunEvent::RunFinished { error, duration });
    }
}

fn status_of(error: &RunError) -> RunStatus {
    match error.kind() {
        RunErrorKind::TimedOut => RunStatus::TimedOut,
        RunErrorKind::Cancelled => RunStatus::Cancelled,
        _ => RunStatus::Failed,
    }
}
