//! Calls for the items of a list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tower::Service;

use super::call::CallSite;
use super::content;
use super::engine::Engine;
use super::failure::StepFailure;
use super::journal::poll_beside;
use super::progress::Results;
use super::scope::LoopItem;
use crate::limits::{MAX_LOOP_OUTPUT_BYTES, json_bytes, shorten};
use crate::plan::{PlannedLoop, PlannedStep, StepSet};
use crate::record::null;
use crate::{
    CallError, Change, IterationRecord, IterationResult, RunErrorKind, RunEvent, StepResult,
    StepStatus, ToolCall, ToolOutcome,
};

/// `forEach` step that starts.
#[derive(Debug)]
pub(super) struct ForEach<'a> {
    pub(super) plan: &'a PlannedLoop,
    pub(super) step: usize,
    pub(super) items: Vec<Value>,
    /// Results that the arguments read.
    pub(super) results: Results,
    /// Iterations that another process made.
    pub(super) recorded: BTreeMap<usize, IterationRecord>,
    pub(super) deadline: Instant,
}

type IterationFuture<'a> = BoxFuture<'a, Result<(usize, Duration, IterationResult), StepFailure>>;

/// Results of the iterations so far.
struct Iterations {
    results: Vec<Option<IterationResult>>,
    /// Size of the items and results as JSON. The output is a little larger.
    bytes: usize,
    next: usize,
}

impl<C> Engine<'_, C>
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    /// Reads the items of a collection, a JSON array in text.
    pub(super) fn items(
        &self,
        plan: &PlannedLoop,
        results: &Results,
    ) -> Result<Vec<Value>, String> {
        let text = self
            .scope()
            .render(&plan.collection, results, None)
            .map_err(|error| format!("failed to render collection: {error}"))?;
        let Ok(Value::Array(items)) = serde_json::from_str(&text) else {
            let start: String = text.chars().take(100).collect();
            return Err(format!(
                "collection is not a JSON array: use json, as in {{{{json .steps.ID.output.items}}}}; \
                 found \"{}\"",
                shorten(&start)
            ));
        };
        if items.len() > plan.max_iterations {
            return Err(format!(
                "collection has {} items; maxIterations is {}",
                items.len(),
                plan.max_iterations
            ));
        }
        Ok(items)
    }

    /// Returns the results that the arguments of the inner step read.
    pub(super) fn loop_reads(plan: &PlannedLoop) -> StepSet {
        plan.call
            .arguments
            .iter()
            .filter_map(|(_, argument)| argument.template())
            .fold(StepSet::default(), |set, expression| set.union(expression.steps))
    }

    /// Calls the tool for each item. A failure ends the step unless it continues after failures.
    pub(super) async fn run_loop(&self, mut of: ForEach<'_>) -> Result<StepResult, StepFailure> {
        let step = &self.plan.steps[of.step];
        let recorded = std::mem::take(&mut of.recorded);
        let mut iterations = self.restore(step, &of, &recorded)?;
        let (mut running, mut changes) =
            (FuturesUnordered::<IterationFuture<'_>>::new(), Vec::new());
        let mut ended = Vec::new();
        loop {
            let starts = iterations.starts(of.plan.max_parallel - running.len());
            if starts.is_empty() && running.is_empty() {
                // The result of the step holds the last changes.
                break;
            }
            let start = |&iteration: &usize| Change::IterationStarted { step: of.step, iteration };
            changes.extend(starts.iter().map(start));
            if !changes.is_empty() {
                let commit = self.journal.commit(std::mem::take(&mut changes));
                poll_beside(commit, &mut running, &mut ended).await?;
            }
            for iteration in starts {
                let attempts = recorded.get(&iteration).map_or(0, |record| record.attempts);
                running.push(Box::pin(self.iterate(&of, iteration, attempts)));
            }
            if ended.is_empty() {
                ended.extend(running.next().await);
            }
            while let Some(Some(end)) = running.next().now_or_never() {
                ended.push(end);
            }
            for end in ended.drain(..) {
                let (iteration, duration, result) = end?;
                self.observe(&RunEvent::IterationFinished {
                    step: &step.id,
                    iteration,
                    succeeded: matches!(result, IterationResult::Completed(_)),
                    duration,
                });
                let (step, copy) = (of.step, result.clone());
                changes.push(Change::IterationFinished { step, iteration, result: copy });
                iterations
                    .add(iteration, result)
                    .map_err(|message| StepFailure::step(&self.plan.steps[step].id, message))?;
            }
        }
        drop(running);
        let result = loop_result(of.items, iterations.results);
        check_size(json_bytes(&result.output))
            .map_err(|message| StepFailure::step(&step.id, message))?;
        Ok(result)
    }

    /// Returns the recorded iterations. One in progress may be repeated only if its tool may be called twice.
    fn restore(
        &self,
        step: &PlannedStep,
        of: &ForEach<'_>,
        recorded: &BTreeMap<usize, IterationRecord>,
    ) -> Result<Iterations, StepFailure> {
        let results = vec![None; of.items.len()];
        let bytes = of.items.iter().map(json_bytes).sum();
        check_size(bytes).map_err(|message| StepFailure::step(&step.id, message))?;
        let mut iterations = Iterations { results, bytes, next: 0 };
        for (&iteration, record) in recorded {
            if record.is_in_flight && !self.is_repeatable(&of.plan.call) {
                let what = format!("iteration {iteration} of tool {}", of.plan.call.tool);
                return Err(self.outcome_unknown(step, &what));
            }
            if let Some(result) = record.result.clone().filter(|_| iteration < of.items.len()) {
                iterations
                    .add(iteration, result)
                    .map_err(|message| StepFailure::step(&step.id, message))?;
            }
        }
        Ok(iterations)
    }

    async fn iterate(
        &self,
        of: &ForEach<'_>,
        iteration: usize,
        attempts: u32,
    ) -> Result<(usize, Duration, IterationResult), StepFailure> {
        let started = Instant::now();
        let step = &self.plan.steps[of.step];
        let item =
            LoopItem { name: &of.plan.item_var, value: &of.items[iteration], index: iteration };
        let site = CallSite {
            call: &of.plan.call,
            step: of.step,
            iteration: Some(iteration),
            attempts,
            deadline: of.deadline,
            timeout: step.timeout,
        };
        let called = match self.render_arguments(&of.plan.call, &of.results, Some(item)) {
            Ok(arguments) => self.call_tool(site, arguments).await,
            Err(message) => Err(StepFailure::step(&step.id, message)),
        };
        let ended = called.and_then(|outcome| {
            content::step_result(outcome, false)
                .map_err(|message| StepFailure::step(&step.id, message))
        });
        match ended {
            Ok(result) => {
                Ok((iteration, started.elapsed(), IterationResult::Completed(result.output)))
            }
            Err(StepFailure::Step(error)) if step.continues => {
                let message = Arc::from(error.to_string());
                Ok((iteration, started.elapsed(), IterationResult::Failed(message)))
            }
            Err(StepFailure::Step(error)) => {
                let message = format!("iteration {iteration}: {error}");
                let kind = error.kind();
                let error = crate::RunError::new(kind, message)
                    .at_step(&step.id)
                    .with_source(error.into_source());
                Err(StepFailure::Step(error))
            }
            Err(run) => Err(run),
        }
    }

    /// Returns the failure of a call whose result was lost when its client left or its process ended.
    pub(super) fn outcome_unknown(&self, step: &PlannedStep, what: &str) -> StepFailure {
        let message = format!(
            "the run was interrupted during {what}, because its client left or its process ended; \
             its outcome is unknown, and it is not repeated because the tool is neither read-only \
             nor idempotent: check what it did, then call {} again",
            self.plan.name
        );
        StepFailure::run(RunErrorKind::OutcomeUnknown, &step.id, message)
    }
}

impl Iterations {
    /// Returns up to `count` iterations that have no result and have not started here.
    fn starts(&mut self, count: usize) -> Vec<usize> {
        let mut starts = Vec::new();
        while starts.len() < count && self.next < self.results.len() {
            if self.results[self.next].is_none() {
                starts.push(self.next);
            }
            self.next += 1;
        }
        starts
    }

    fn add(&mut self, iteration: usize, result: IterationResult) -> Result<(), String> {
        self.bytes += match &result {
            IterationResult::Completed(output) => json_bytes(output),
            IterationResult::Failed(message) => message.len(),
        };
        self.results[iteration] = Some(result);
        check_size(self.bytes)
    }
}

/// Rejects an output of `bytes`, or one with items and results of so many bytes.
fn check_size(bytes: usize) -> Result<(), String> {
    if bytes > MAX_LOOP_OUTPUT_BYTES {
        return Err(format!(
            "the output is larger than {} MiB: iterate over fewer items",
            MAX_LOOP_OUTPUT_BYTES / 1024 / 1024
        ));
    }
    Ok(())
}

fn loop_result(items: Vec<Value>, results: Vec<Option<IterationResult>>) -> StepResult {
    let count = items.len();
    let mut completed = 0;
    let iterations: Vec<Value> = items
        .into_iter()
        .zip(results)
        .enumerate()
        .map(|(index, (item, result))| {
            let mut iteration = Map::new();
            iteration.insert("index".to_owned(), index.into());
            iteration.insert("item".to_owned(), item);
            let (status, output, error) = match result {
                Some(IterationResult::Completed(output)) => {
                    completed += 1;
                    ("completed", Arc::unwrap_or_clone(output), None)
                }
                Some(IterationResult::Failed(error)) => ("failed", Value::Null, Some(error)),
                None => ("cancelled", Value::Null, None),
            };
            iteration.insert("status".to_owned(), status.into());
            iteration.insert("output".to_owned(), output);
            if let Some(error) = error {
                iteration.insert("error".to_owned(), (*error).into());
            }
            Value::Object(iteration)
        })
        .collect();
    let mut output = Map::new();
    output.insert("iterations".to_owned(), iterations.into());
    output.insert("count".to_owned(), count.into());
    output.insert("completed".to_owned(), completed.into());
    output.insert("failed".to_owned(), (count - completed).into());
    StepResult {
        status: StepStatus::Completed,
        output: Arc::new(Value::Object(output)),
        content: null(),
        error: None,
    }
}
