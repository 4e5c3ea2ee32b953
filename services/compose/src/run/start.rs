//! Starts of steps: what is decided before anything is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use tower::Service;

use super::call::CallSite;
use super::content;
use super::engine::Engine;
use super::failure::StepFailure;
use super::for_each::ForEach;
use super::progress::Progress;
use super::question::{self, StepCompletion};
use crate::condition;
use crate::limits::{MAX_MESSAGE_BYTES, shorten};
use crate::plan::{Action, PlannedQuestion, PlannedStep};
use crate::{
    Answer, AnswerAction, CallError, Change, ElicitError, Elicitation, Question, RunEvent,
    StepRecord, Timestamp, ToolCall, ToolOutcome,
};

/// Step that starts.
#[derive(Debug)]
pub(super) enum Start<'a> {
    /// The condition is false.
    Skip,
    Call {
        site: CallSite<'a>,
        arguments: Map<String, Value>,
    },
    ForEach(ForEach<'a>),
    /// A question whose answer the run waits for.
    Ask(&'a PlannedQuestion, Question, Instant),
    /// A question that suspends the run.
    Suspended(Question),
}

/// Step that ended.
#[derive(Debug)]
pub(super) struct StepEnd {
    pub(super) step: usize,
    /// Answer to its question.
    pub(super) answer: Option<AnswerAction>,
    pub(super) result: Result<StepCompletion, StepFailure>,
}

impl StepEnd {
    /// Creates the end of a step without an answer.
    pub(super) fn new(step: usize, result: Result<StepCompletion, StepFailure>) -> Self {
        Self { step, answer: None, result }
    }
}

impl<C> Engine<'_, C>
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    /// Decides how a step starts: evaluates its condition, renders its templates, and records the start. A step that another
    /// process started goes on where its record ends.
    pub(super) fn prepare(
        &self,
        step: usize,
        progress: &mut Progress,
    ) -> Result<Start<'_>, StepFailure> {
        let planned = &self.plan.steps[step];
        let record = progress.unfinished.remove(&step);
        if record.is_none() && !self.is_wanted(planned, progress)? {
            return Ok(Start::Skip);
        }
        let record = record.unwrap_or_default();
        let (now, started_at) = (self.now(), record.started_at);
        let past = started_at.map_or_else(Default::default, |started| now.since(started));
        // The timeout of the workflow ends the run as a whole.
        let deadline = Instant::now() + planned.timeout.saturating_sub(past);
        let mut start_change = Change::StepStarted { step, at: now, question: None };
        let start = match &planned.action {
            Action::Call(call) => {
                if record.is_in_flight && !self.is_repeatable(call) {
                    return Err(self.outcome_unknown(planned, &format!("tool {}", call.tool)));
                }
                let arguments = self
                    .render_arguments(call, &progress.results, None)
                    .map_err(|message| StepFailure::step(&planned.id, message))?;
                let (attempts, timeout) = (record.attempts, planned.timeout);
                let site = CallSite { call, step, iteration: None, attempts, deadline, timeout };
                Start::Call { site, arguments }
            }
            Action::ForEach(plan) => {
                let items = self
                    .items(plan, &progress.results)
                    .map_err(|message| StepFailure::step(&planned.id, message))?;
                let results = progress.results.of(Self::loop_reads(plan));
                let recorded = record.iterations;
                Start::ForEach(ForEach { plan, step, items, results, recorded, deadline })
            }
            Action::Elicit(plan) => {
                let started_at = started_at.unwrap_or(now);
                let question = self.question(planned, plan, &record, started_at, progress)?;
                progress.asking.insert(step);
                let message = Some(Arc::from(question.message.as_str()));
                start_change = Change::StepStarted { step, at: now, question: message };
                let start = self.start_question(plan, question, deadline);
                if record.question.is_some() {
                    // The store knows that the question is open.
                    return Ok(start);
                }
                start
            }
        };
        progress.changes.push(start_change);
        Ok(start)
    }

    /// Evaluates the condition of a step.
    fn is_wanted(&self, step: &PlannedStep, progress: &Progress) -> Result<bool, StepFailure> {
        let Some(expression) = &step.condition else { return Ok(true) };
        let text = self
            .scope()
            .render(expression, &progress.results, None)
            .map_err(|e| StepFailure::step(&step.id, format!("failed to render condition: {e}")))?;
        condition::parse(&text).ok_or_else(|| {
            let message = format!(
                "condition must be true, True, TRUE, false, False or FALSE; found \"{}\"",
                shorten(&text)
            );
            StepFailure::step(&step.id, message)
        })
    }

    fn question(
        &self,
        step: &PlannedStep,
        plan: &PlannedQuestion,
        record: &StepRecord,
        started_at: Timestamp,
        progress: &Progress,
    ) -> Result<Question, StepFailure> {
        if matches!(self.context.elicitation, Elicitation::Unsupported) {
            return Err(StepFailure::step(&step.id, ElicitError::Unsupported));
        }
        let message = match &record.question {
            Some(message) => message.to_string(),
            None => self.scope().render(&plan.message, &progress.results, None).map_err(|e| {
                StepFailure::step(&step.id, format!("failed to render message: {e}"))
            })?,
        };
        if message.len() > MAX_MESSAGE_BYTES {
            let message = format!("the message is larger than {MAX_MESSAGE_BYTES} bytes");
            return Err(StepFailure::step(&step.id, message));
        }
        Ok(Question {
            run: self.run.clone(),
            step: step.id.clone(),
            message,
            schema: plan.schema.clone(),
            expires_at: self.expiry(step, started_at).into(),
        })
    }

    fn start_question<'p>(
        &self,
        plan: &'p PlannedQuestion,
        question: Question,
        deadline: Instant,
    ) -> Start<'p> {
        match self.context.elicitation {
            Elicitation::Suspend => Start::Suspended(question),
            Elicitation::Wait(_) | Elicitation::Unsupported => Start::Ask(plan, question, deadline),
        }
    }

    pub(super) fn observe_start(&self, step: usize, start: &Start<'_>) {
        let tool = match start {
            Start::Call { site, .. } => Some(&*site.call.tool),
            Start::ForEach(of) => Some(&*of.plan.call.tool),
            Start::Skip | Start::Ask(..) | Start::Suspended(_) => None,
        };
        self.observe(&RunEvent::StepStarted { step: &self.plan.steps[step].id, tool });
    }

    /// Runs a step whose start is stored.
    pub(super) async fn execute(&self, step: usize, start: Start<'_>) -> StepEnd {
        let planned = &self.plan.steps[step];
        let ended = match start {
            Start::Skip | Start::Suspended(_) => Err(not_executed(planned)),
            Start::Call { site, arguments } => {
                self.call_tool(site, arguments).await.and_then(|outcome| {
                    content::step_result(outcome, self.plan.reads_content(step))
                        .map_err(|message| StepFailure::step(&planned.id, message))
                })
            }
            Start::ForEach(of) => {
                let deadline = of.deadline;
                let done = timeout_at(deadline, self.run_loop(of)).await;
                done.unwrap_or_else(|_| {
                    let message = format!("not done within {:?}", planned.timeout);
                    Err(StepFailure::step(&planned.id, message))
                })
            }
            Start::Ask(plan, question, deadline) => {
                return self.ask(step, plan, &question, deadline).await;
            }
        };
        let result = ended.map(|result| StepCompletion { result, skips_remaining: false });
        StepEnd::new(step, result)
    }

    async fn ask(
        &self,
        step: usize,
        plan: &PlannedQuestion,
        question: &Question,
        deadline: Instant,
    ) -> StepEnd {
        let planned = &self.plan.steps[step];
        let Elicitation::Wait(elicit) = &self.context.elicitation else {
            return StepEnd::new(step, Err(not_executed(planned)));
        };
        match question::ask(&**elicit, question, deadline).await {
            Ok(answer) => answered(step, planned, plan, answer),
            Err(failure) => StepEnd::new(step, Err(failure)),
        }
    }

    /// Applies the answers to the questions of a round.
    pub(super) fn apply_answers(
        &self,
        progress: &mut Progress,
        answers: BTreeMap<usize, Answer>,
        ended: &mut Vec<StepEnd>,
    ) {
        for (number, answer) in answers {
            let step = &self.plan.steps[number];
            let Action::Elicit(plan) = &step.action else { continue };
            let (_, past) = progress.started_before(number, || self.now());
            if progress.unfinished.remove(&number).is_some() {
                let now = Instant::now();
                self.active.start(number, now.checked_sub(past).unwrap_or(now));
                ended.push(answered(number, step, plan, answer));
            }
        }
    }
}

/// Returns the end of a step whose question was answered.
fn answered(step: usize, planned: &PlannedStep, plan: &PlannedQuestion, answer: Answer) -> StepEnd {
    let action = answer.action();
    StepEnd { step, answer: Some(action), result: question::apply(planned, plan, answer) }
}

/// Skipped and suspended steps are not executed.
fn not_executed(step: &PlannedStep) -> StepFailure {
    StepFailure::step(&step.id, "the step cannot run here: report this as a defect")
}
