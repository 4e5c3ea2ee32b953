//! Changes that are applied to a record.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{
    IterationResult, RoundRecord, RunRecord, RunResult, RunStatus, StepRecord, StepResult,
    StepStatus, Timestamp,
};
use crate::Change;

impl RunRecord {
    /// Applies the changes of one write.
    pub fn apply(&mut self, changes: Vec<Change>) {
        self.version += 1;
        for change in changes {
            self.apply_one(change);
        }
    }

    fn apply_one(&mut self, change: Change) {
        match change {
            Change::StepStarted { step, at, question } => {
                let step = self.steps.entry(step).or_default();
                step.started_at.get_or_insert(at);
                step.attempts += 1;
                step.is_in_flight = true;
                step.question = question;
            }
            Change::AttemptFailed { step, iteration } => {
                let step = self.steps.entry(step).or_default();
                match iteration {
                    None => step.is_in_flight = false,
                    Some(n) => step.iterations.entry(n).or_default().is_in_flight = false,
                }
            }
            Change::IterationStarted { step, iteration } => {
                let step = self.steps.entry(step).or_default();
                let iteration = step.iterations.entry(iteration).or_default();
                iteration.attempts += 1;
                iteration.is_in_flight = true;
            }
            Change::IterationFinished { step, iteration, result } => {
                let step = self.steps.entry(step).or_default();
                let iteration = step.iterations.entry(iteration).or_default();
                iteration.is_in_flight = false;
                iteration.result = Some(result);
            }
            Change::StepFinished { step, at, result } => {
                self.steps.entry(step).or_default().finish(at, result);
            }
            Change::OutputDropped { step } => {
                if let Some(result) = self.steps.get_mut(&step).and_then(|it| it.result.as_mut()) {
                    result.drop_output();
                }
            }
            Change::RemainingSkipped => self.skips_remaining = true,
            Change::RoundOpened { questions } => {
                self.status = RunStatus::InputRequired;
                self.rounds.push(RoundRecord::new(questions));
            }
            Change::AnswersKept { round, answers } => {
                if let Some(round) = self.rounds.get_mut(round) {
                    round.keep(answers);
                }
            }
            Change::RoundConsumed { round, digest } => {
                self.status = RunStatus::Running;
                if let Some(round) = self.rounds.get_mut(round) {
                    round.consume(digest);
                }
            }
            Change::RunFinished { status, at, result } => self.finish(status, at, result),
        }
    }

    /// Ends the run. What remains is its course, without the values that nothing reads any more.
    fn finish(&mut self, status: RunStatus, at: Timestamp, result: RunResult) {
        self.status = status;
        self.ended_at = Some(at);
        // A client that answered questions may repeat its request.
        let is_kept = self.keeps_result || !self.rounds.is_empty();
        self.result = Some(match result {
            RunResult::Completed(_) if !is_kept => RunResult::NotKept,
            result => result,
        });
        self.arguments = Arc::new(Value::Null);
        for step in self.steps.values_mut() {
            step.finish_with_run(at);
        }
        for round in &mut self.rounds {
            round.answers = BTreeMap::new();
        }
    }
}

impl StepRecord {
    fn finish(&mut self, at: Timestamp, result: StepResult) {
        self.ended_at = Some(at);
        self.is_in_flight = false;
        self.question = None;
        // Their outputs are in the result of the step.
        self.iterations = BTreeMap::new();
        self.result = Some(result);
    }

    /// Drops the outputs, and cancels the step if it has no result.
    fn finish_with_run(&mut self, at: Timestamp) {
        let null = Arc::new(Value::Null);
        let (status, error) = match self.result.take() {
            Some(result) => (result.status, result.error),
            None => (StepStatus::Cancelled, None),
        };
        self.result = Some(StepResult { status, output: null.clone(), content: null, error });
        self.ended_at.get_or_insert(at);
        self.is_in_flight = false;
        self.question = None;
        for iteration in self.iterations.values_mut() {
            iteration.is_in_flight = false;
            if let Some(IterationResult::Completed(output)) = &mut iteration.result {
                *output = Arc::new(Value::Null);
            }
        }
    }
}
