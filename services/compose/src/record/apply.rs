//! Changes that are applied to a record.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{RoundRecord, RunRecord, RunResult, StepRecord, StepResult};
use crate::{Change, RunStatus};

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
            Change::StepFinished { step, result } => {
                self.steps.entry(step).or_default().finish(result);
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
            Change::RunFinished { status, result } => self.finish(status, result),
        }
    }

    fn finish(&mut self, status: RunStatus, result: RunResult) {
        self.status = status;
        self.result = Some(result);
        // Nothing reads them any more.
        self.steps = BTreeMap::new();
        self.arguments = Arc::new(Value::Null);
        for round in &mut self.rounds {
            round.answers = BTreeMap::new();
        }
    }
}

impl StepRecord {
    fn finish(&mut self, result: StepResult) {
        self.is_in_flight = false;
        self.question = None;
        // Their outputs are in the result of the step.
        self.iterations = BTreeMap::new();
        self.result = Some(result);
    }
}
