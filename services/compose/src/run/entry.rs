//! Start, continuation and end of runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use tower::Service;

use super::drive::Driven;
use super::engine::Engine;
use super::failure::store_error;
use super::journal::Journal;
use super::output;
use super::progress::Progress;
use super::{
    InputRequired, Outcome, ResumeRequest, RoundAnswers, RunContext, RunOutput, RunRequest,
};
use crate::plan::{Action, digest};
use crate::{
    Answer, CallError, Change, Question, RoundRecord, RunError, RunErrorKind, RunEvent, RunRecord,
    RunResult, RunStatus, StoreError, Timestamp, ToolCall, ToolOutcome, Workflow,
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
    };
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
            Err(error) => return Outcome::Failed(store_error(error)),
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

/// Continuation of a leased run.
enum Continuation {
    /// Goes on, with answers to a round.
    Answer { round: usize, digest: [u8; 32], answers: BTreeMap<usize, Answer> },
    /// Goes on where it was interrupted.
    Continue,
    /// Ends: the definition is another one.
    End,
}

/// Decides how a run continues, or returns its recorded outcome.
fn decide(
    workflow: &Workflow,
    record: &RunRecord,
    answers: Option<&RoundAnswers>,
    now: Timestamp,
) -> Result<Continuation, Outcome> {
    let is_changed = record.definition != workflow.definition();
    if let Some(RoundAnswers { round, answers }) = answers {
        let Some(recorded) = record.rounds.get(*round) else {
            let message = format!("the run has no round {round} of questions");
            return Err(failed(RunErrorKind::UnknownRound, message));
        };
        let digest = digest_answers(answers);
        match recorded.consumed_by {
            Some(consumed) if consumed != digest => {
                let message = format!("round {round} was answered differently before");
                return Err(failed(RunErrorKind::RoundConflict, message));
            }
            Some(_) => match record.rounds.get(round + 1) {
                Some(_) if is_changed => {}
                Some(next) => return Err(input_required(workflow, record, round + 1, next)),
                None => {}
            },
            None if record.is_finished() => {}
            None if is_changed => return Ok(Continuation::End),
            None if answers.is_empty() && recorded.questions.iter().all(|q| now < q.expires_at) => {
                return Err(input_required(workflow, record, *round, recorded));
            }
            None => {
                let answers = check_answers(workflow, record, recorded, answers)?;
                return Ok(Continuation::Answer { round: *round, digest, answers });
            }
        }
    }
    if let Some(result) = &record.result {
        return Err(recorded_outcome(result));
    }
    if is_changed {
        return Ok(Continuation::End);
    }
    match record.open_round().and_then(|round| Some((round, record.rounds.get(round)?))) {
        Some((round, open)) => Err(input_required(workflow, record, round, open)),
        None => Ok(Continuation::Continue),
    }
}

fn failed(kind: RunErrorKind, message: String) -> Outcome {
    Outcome::Failed(RunError::new(kind, message))
}

fn recorded_outcome(result: &RunResult) -> Outcome {
    match result {
        RunResult::Completed(output) => Outcome::Completed(RunOutput::new(output.clone())),
        RunResult::Failed(error) => Outcome::Failed(error.clone()),
    }
}

/// Returns the questions of a round.
fn input_required(
    workflow: &Workflow,
    record: &RunRecord,
    round: usize,
    recorded: &RoundRecord,
) -> Outcome {
    let questions = questions(workflow, record, recorded);
    Outcome::InputRequired(InputRequired { run: record.id.clone(), round, questions })
}

fn questions(workflow: &Workflow, record: &RunRecord, round: &RoundRecord) -> Vec<Question> {
    let plan = &*workflow.0;
    let question = |recorded: &crate::RecordedQuestion| {
        let step = plan.steps.get(recorded.step)?;
        let Action::Elicit(planned) = &step.action else { return None };
        Some(Question {
            run: record.id.clone(),
            step: step.id.clone(),
            message: recorded.message.to_string(),
            schema: planned.schema.clone(),
            expires_at: recorded.expires_at.into(),
        })
    };
    round.questions.iter().filter_map(question).collect()
}

/// Checks each answer against its question.
fn check_answers(
    workflow: &Workflow,
    record: &RunRecord,
    round: &RoundRecord,
    answers: &[(Arc<str>, Answer)],
) -> Result<BTreeMap<usize, Answer>, Outcome> {
    let questions = questions(workflow, record, round);
    let mut checked = BTreeMap::new();
    for (step, answer) in answers {
        let Some(question) = questions.iter().find(|question| question.step == *step) else {
            let message = format!("step \"{step}\" has no open question");
            return Err(Outcome::Failed(
                RunError::new(RunErrorKind::InvalidAnswer, message).at_step(step),
            ));
        };
        if let Answer::Accept(content) = answer
            && let Err(error) = question.check(content)
        {
            let error = RunError::new(RunErrorKind::InvalidAnswer, error.to_string());
            return Err(Outcome::Failed(error.at_step(step)));
        }
        if let Some(number) = workflow.0.steps.iter().position(|planned| planned.id == *step) {
            checked.insert(number, answer.clone());
        }
    }
    Ok(checked)
}

/// Returns the digest of answers: the same for each order of steps and members.
fn digest_answers(answers: &[(Arc<str>, Answer)]) -> [u8; 32] {
    let answer = |answer: &Answer| match answer {
        Answer::Accept(content) => Value::Array(vec!["accept".into(), content.clone()]),
        Answer::Decline => "decline".into(),
        Answer::Cancel => "cancel".into(),
        Answer::TimedOut => "timeout".into(),
    };
    let all = answers.iter().map(|(step, value)| (step.to_string(), answer(value)));
    digest(&Value::Object(all.collect::<Map<_, _>>()))
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
    };
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
        let (done, steps) = (progress.done.len(), self.plan.steps.len());
        let workflow = &self.plan.name;
        self.observe(&RunEvent::RunStarted { run: self.run, workflow, done, steps });
        let driven = self.drive_until_deadline(&mut progress, answers).await;
        let changes = std::mem::take(&mut progress.changes);
        let result = match driven {
            Ok(Driven::Waiting(questions)) => return self.suspend(changes, questions).await,
            Ok(Driven::Done) => output::construct(&self.scope(), &progress.results),
            Err(error) => {
                self.report_cancelled(&progress);
                Err(error)
            }
        };
        match self.end(result, changes).await {
            Ok(output) => Outcome::Completed(RunOutput::new(output)),
            Err(error) => Outcome::Failed(error),
        }
    }

    async fn drive_until_deadline(
        &self,
        progress: &mut Progress,
        answers: BTreeMap<usize, Answer>,
    ) -> Result<Driven, RunError> {
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
    async fn suspend(mut self, mut changes: Vec<Change>, questions: Vec<Question>) -> Outcome {
        self.observe(&RunEvent::WaitingForInput { questions: questions.len() });
        changes.push(Change::RoundOpened { questions: self.record_questions(&questions) });
        match self.journal.close(changes).await {
            Ok(()) => {
                let (run, round) = (self.run.clone(), self.rounds);
                Outcome::InputRequired(InputRequired { run, round, questions })
            }
            Err(error) => Outcome::Failed(self.explain(store_error(error)).await),
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
                changes.push(Change::RunFinished { status, result: recorded });
                match self.journal.close(changes).await {
                    Ok(()) => result,
                    // The calls were made: their result counts more than the failed record of it.
                    Err(StoreError::Unavailable | StoreError::Full { .. }) if result.is_ok() => {
                        result
                    }
                    Err(error) => Err(self.explain(store_error(error)).await),
                }
            }
        };
        let duration = self.started.elapsed();
        self.observe(&RunEvent::RunFinished { error: result.as_ref().err(), duration });
        result
    }
}

fn status_of(error: &RunError) -> RunStatus {
    match error.kind() {
        RunErrorKind::TimedOut => RunStatus::TimedOut,
        RunErrorKind::Cancelled => RunStatus::Cancelled,
        _ => RunStatus::Failed,
    }
}
