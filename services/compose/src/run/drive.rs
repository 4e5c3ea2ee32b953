//! Course of a run: each step starts once its dependencies are done.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;

use super::engine::Engine;
use super::failure::{StepFailure, store_error};
use super::journal::poll_beside;
use super::progress::Progress;
use super::question::StepCompletion;
use super::start::{Start, StepEnd};
use crate::limits::MAX_PARALLEL_STEPS;
use crate::plan::PlannedStep;
use crate::plan::StepSet;
use crate::record::null;
use crate::{
    Answer, CallError, Change, Question, RunError, RunEvent, StepResult, StepStatus, ToolCall,
    ToolOutcome,
};

/// End of [`Engine::drive`].
pub(super) enum DriveOutcome {
    /// Each step is done. The last changes are not stored yet.
    Done,
    /// Each step that is not done waits for the user, or for one that does. The last changes are not stored yet.
    Waiting(BTreeMap<usize, Question>),
}

type RunningSteps<'a> = FuturesUnordered<BoxFuture<'a, StepEnd>>;

impl<C> Engine<'_, C>
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    /// Runs steps until all are done or wait for the user. The changes of the progress are stored with the first starts.
    pub(super) async fn drive(
        &self,
        progress: &mut Progress,
        answers: BTreeMap<usize, Answer>,
    ) -> Result<DriveOutcome, RunError> {
        let (mut running, mut questions) = (RunningSteps::new(), BTreeMap::new());
        let mut ended: Vec<StepEnd> = Vec::new();
        self.apply_answers(progress, answers, &mut ended);
        let mut reported = 0;
        let renewal = sleep(self.journal.renewal_interval());
        tokio::pin!(renewal);
        loop {
            for end in ended.drain(..) {
                self.finish(progress, end)?;
            }
            let starts = self.starts(progress)?;
            if starts.is_empty() && running.is_empty() {
                let is_done = questions.is_empty();
                return Ok(if is_done {
                    DriveOutcome::Done
                } else {
                    DriveOutcome::Waiting(questions)
                });
            }
            if !progress.changes.is_empty() {
                let commit = self.journal.commit(std::mem::take(&mut progress.changes));
                poll_beside(commit, &mut running, &mut ended).await.map_err(store_error)?;
            }
            for (step, start) in starts {
                match start {
                    Start::Suspended(question) => _ = questions.insert(step, question),
                    start => running.push(Box::pin(self.execute(step, start))),
                }
            }
            if running.is_empty() {
                continue;
            }
            self.report_waiting(progress, &mut reported);
            if ended.is_empty() {
                self.wait(&mut running, &mut ended, renewal.as_mut()).await?;
            }
        }
    }

    /// Waits until a step ends, takes those that ended too, and renews the lease meanwhile.
    async fn wait(
        &self,
        running: &mut RunningSteps<'_>,
        ended: &mut Vec<StepEnd>,
        mut renewal: Pin<&mut Sleep>,
    ) -> Result<(), RunError> {
        loop {
            tokio::select! {
                biased;
                Some(first) = running.next() => {
                    ended.push(first);
                    while let Some(Some(more)) = running.next().now_or_never() {
                        ended.push(more);
                    }
                    return Ok(());
                }
                () = renewal.as_mut() => {
                    renewal.as_mut().reset(Instant::now() + self.journal.renewal_interval());
                    let renewed = poll_beside(self.journal.renew(), running, ended).await;
                    renewed.map_err(store_error)?;
                    if !ended.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Returns the steps that can start, and records them. Steps that are skipped or fail before anything is sent are done at
    /// once, so others may follow.
    fn starts(&self, progress: &mut Progress) -> Result<Vec<(usize, Start<'_>)>, RunError> {
        let mut starts = Vec::new();
        loop {
            let (mut changed, mut from) = (false, 0);
            while let Some(step) = progress.candidates.first_from(from) {
                from = step + 1;
                progress.candidates.remove(step);
                if !progress.is_pending(step) {
                    continue;
                }
                if progress.skips_remaining && !progress.unfinished.contains_key(&step) {
                    self.finish(progress, StepEnd::new(step, Ok(self.skipped(step))))?;
                    changed = true;
                    continue;
                }
                if !self.plan.graph.direct(step).is_subset(progress.done) {
                    // The end of a step that it waits for makes it a candidate again.
                    continue;
                }
                if progress.active.len() >= MAX_PARALLEL_STEPS {
                    progress.candidates.insert(step);
                    continue;
                }
                let (is_asked, past) = progress.started_before(step, || self.now());
                match self.prepare(step, progress) {
                    Ok(Start::Skip) => {
                        self.finish(progress, StepEnd::new(step, Ok(self.skipped(step))))?;
                        changed = true;
                    }
                    Ok(start) => {
                        progress.active.insert(step);
                        let now = Instant::now();
                        self.active.start(step, now.checked_sub(past).unwrap_or(now));
                        if !is_asked {
                            self.observe_start(step, &start);
                        }
                        starts.push((step, start));
                    }
                    Err(failure) => {
                        self.finish(progress, StepEnd::new(step, Err(failure)))?;
                        changed = true;
                    }
                }
            }
            if !changed {
                return Ok(starts);
            }
        }
    }

    fn skipped(&self, step: usize) -> StepCompletion {
        let result = StepResult {
            status: StepStatus::Skipped,
            output: self.plan.steps[step].fallback(),
            content: null(),
            error: None,
        };
        StepCompletion { result, skips_remaining: false }
    }

    /// Records the end of a step. A failure ends the run unless the step continues after failures.
    fn finish(&self, progress: &mut Progress, end: StepEnd) -> Result<(), RunError> {
        let StepEnd { step, answer, result } = end;
        let planned = &self.plan.steps[step];
        let (completion, failure) = match result {
            Ok(completion) => (completion, None),
            Err(StepFailure::Step(error)) => {
                let completion = failed(planned, &error);
                (completion, (!planned.continues).then_some(error))
            }
            // The run ends for a reason of its own, such as a lost lease, and cancels the step.
            Err(StepFailure::Run(error)) if error.step().is_none() => return Err(error),
            Err(StepFailure::Run(error)) => (failed(planned, &error), Some(error)),
        };
        let StepCompletion { result, skips_remaining } = completion;
        let status = result.status;
        let error = result.error.clone();
        self.finish_step(progress, step, result);
        if skips_remaining {
            progress.skips_remaining = true;
            progress.candidates = StepSet::first(self.plan.steps.len());
            progress.changes.push(Change::RemainingSkipped);
        }
        self.observe(&RunEvent::StepFinished {
            step: &planned.id,
            status,
            error: error.as_deref(),
            answer,
            duration: self.active.end(step),
            done: progress.done.len(),
            steps: self.plan.steps.len(),
        });
        failure.map_or(Ok(()), Err)
    }

    /// Records the result of a step, and drops the outputs that nothing reads any more.
    fn finish_step(&self, progress: &mut Progress, step: usize, result: StepResult) {
        let before = progress.last_completed;
        progress.candidates = progress.candidates.union(self.plan.graph.dependents(step));
        progress.finish(step, result);
        let mut unread = self.plan.retention.reads(step);
        unread.insert(step);
        if let Some(last) = before {
            unread.insert(last);
        }
        let is_over = progress.done.len() == self.plan.steps.len();
        let mut dropped = Vec::new();
        for number in unread.iter().filter(|_| !is_over) {
            if self.is_output_read(number, progress) {
                continue;
            }
            let Some(result) = progress.results.get_mut(number) else { continue };
            if !result.output.is_null() {
                result.drop_output();
                dropped.extend((number != step).then_some(Change::OutputDropped { step: number }));
            }
        }
        if let Some(result) = progress.results.get(step).cloned() {
            progress.changes.push(Change::StepFinished { step, at: self.now(), result });
        }
        progress.changes.extend(dropped);
    }

    /// Returns `true` if a step that is not done, or the end of the run, reads the output of `step`.
    fn is_output_read(&self, step: usize, progress: &Progress) -> bool {
        let is_result = self.plan.output.is_none() && progress.last_completed == Some(step);
        is_result || !progress.done.contains(step) || self.plan.retention.keeps(step, progress.done)
    }

    /// Reports the steps that a failed run cancels, among them questions that an earlier process asked.
    pub(super) fn report_cancelled(&self, progress: &Progress) {
        let now = Instant::now();
        for (step, past) in progress.open_questions(self.now()) {
            self.active.start(step, now.checked_sub(past).unwrap_or(now));
        }
        let observer = &*self.context.observer;
        self.active.report_cancelled(observer, self.plan, progress.done.len());
    }

    /// Reports once that each running step waits for the user.
    fn report_waiting(&self, progress: &Progress, reported: &mut usize) {
        let count = progress.asking.len();
        let waits = progress.active.is_subset(progress.asking);
        if waits && count != *reported {
            self.observe(&RunEvent::WaitingForInput { questions: count });
        }
        *reported = if waits { count } else { 0 };
    }
}

/// Returns the result of a step that failed.
fn failed(step: &PlannedStep, error: &RunError) -> StepCompletion {
    let result = StepResult {
        status: StepStatus::Failed,
        output: step.fallback(),
        content: null(),
        error: Some(Arc::from(error.to_string())),
    };
    StepCompletion { result, skips_remaining: false }
}
