//! Progress of a run in its process.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::plan::StepSet;
use crate::{Change, RunRecord, StepRecord, StepResult, StepStatus, Timestamp};

/// Results of the steps that are done. A clone is cheap: it shares the values.
#[derive(Clone, Debug)]
pub(super) struct Results(Vec<Option<StepResult>>);

/// Progress of a run.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) results: Results,
    pub(super) done: StepSet,
    /// The completed step that is the last one in the definition.
    pub(super) last_completed: Option<usize>,
    /// Steps that may be able to start: the others wait for a step that is not done.
    pub(super) candidates: StepSet,
    /// Steps that run or wait for the user.
    pub(super) active: StepSet,
    /// Steps that wait for the user.
    pub(super) asking: StepSet,
    /// The user skipped the steps that have not started.
    pub(super) skips_remaining: bool,
    /// Records of steps that another process started.
    pub(super) unfinished: BTreeMap<usize, StepRecord>,
    /// Changes that are not stored yet.
    pub(super) changes: Vec<Change>,
}

// === impl Results ===

impl Results {
    pub(super) fn get(&self, step: usize) -> Option<&StepResult> {
        self.0.get(step)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, step: usize) -> Option<&mut StepResult> {
        self.0.get_mut(step)?.as_mut()
    }

    /// Returns the results of `steps` alone.
    pub(super) fn of(&self, steps: StepSet) -> Self {
        let results = self.0.iter().enumerate();
        Self(
            results.map(|(step, result)| result.clone().filter(|_| steps.contains(step))).collect(),
        )
    }
}

// === impl Progress ===

impl Progress {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            results: Results(vec![None; steps]),
            done: StepSet::default(),
            last_completed: None,
            candidates: StepSet::first(steps),
            active: StepSet::default(),
            asking: StepSet::default(),
            skips_remaining: false,
            unfinished: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// Returns the progress that a record holds.
    pub(super) fn from_record(record: &mut RunRecord, steps: usize) -> Self {
        let mut progress = Self::new(steps);
        progress.skips_remaining = record.skips_remaining;
        for (step, mut record) in std::mem::take(&mut record.steps) {
            match record.result.take() {
                Some(result) => progress.finish(step, result),
                None => _ = progress.unfinished.insert(step, record),
            }
        }
        progress
    }

    /// Records the result of a step.
    pub(super) fn finish(&mut self, step: usize, result: StepResult) {
        if result.status == StepStatus::Completed {
            self.last_completed = self.last_completed.max(Some(step));
        }
        if let Some(slot) = self.results.0.get_mut(step) {
            *slot = Some(result);
        }
        self.done.insert(step);
        self.active.remove(step);
        self.asking.remove(step);
    }

    /// Returns `true` for a step that has neither started in this process nor ended.
    pub(super) fn is_pending(&self, step: usize) -> bool {
        !self.done.contains(step) && !self.active.contains(step)
    }

    /// Returns whether another process asked the question of a step that is still open, and the time since the step started.
    pub(super) fn started_before(
        &self,
        step: usize,
        now: impl FnOnce() -> Timestamp,
    ) -> (bool, Duration) {
        let Some(record) = self.unfinished.get(&step) else { return (false, Duration::ZERO) };
        match record.started_at {
            Some(started) if record.question.is_some() => (true, now().since(started)),
            _ => (false, Duration::ZERO),
        }
    }

    /// Returns the open questions that another process asked, with the time since then.
    pub(super) fn open_questions(&self, now: Timestamp) -> Vec<(usize, Duration)> {
        let steps = self.unfinished.keys().map(|step| (*step, self.started_before(*step, || now)));
        steps.filter_map(|(step, (is_asked, past))| is_asked.then_some((step, past))).collect()
    }
}
