//! Steps whose outputs a run has to keep.

use super::graph::StepSet;
use super::{Action, Argument, Expression, PlannedCall, PlannedOutput, PlannedProperty};
use super::{PlannedStep, PropertySource};

/// Reads of outputs: how long a run keeps the output of a step.
#[derive(Debug)]
pub(crate) struct Retention {
    /// Steps whose outputs each step reads.
    reads: Vec<StepSet>,
    /// Steps that read the output of each step.
    readers: Vec<StepSet>,
    /// Steps whose outputs the output of the run reads.
    until_end: StepSet,
}

impl Retention {
    pub(super) fn new(steps: &[PlannedStep], output: Option<&PlannedOutput>) -> Self {
        let reads: Vec<_> = steps.iter().map(reads_of_step).collect();
        let readers = (0..steps.len())
            .map(|step| (0..steps.len()).filter(|&by| reads[by].contains(step)).collect())
            .collect();
        let until_end = output.map_or_else(StepSet::default, |it| reads_of_all(&it.properties));
        Self { reads, readers, until_end }
    }

    /// Returns the steps whose outputs `step` reads.
    pub(crate) fn reads(&self, step: usize) -> StepSet {
        self.reads[step]
    }

    /// Returns `true` if a step that is not in `done`, or the output of the run, reads the output of `step`.
    pub(crate) fn keeps(&self, step: usize, done: StepSet) -> bool {
        self.until_end.contains(step) || !self.readers[step].is_subset(done)
    }
}

fn reads_of_step(step: &PlannedStep) -> StepSet {
    let condition = step.condition.iter().map(|it| it.outputs);
    let of_action = match &step.action {
        Action::Call(call) => reads_of_call(call),
        Action::Elicit(question) => question.message.outputs,
        Action::ForEach(of) => of.collection.outputs.union(reads_of_call(&of.call)),
    };
    condition.fold(of_action, StepSet::union)
}

fn reads_of_call(call: &PlannedCall) -> StepSet {
    let templates = call.arguments.iter().filter_map(|(_, argument)| Argument::template(argument));
    union(templates)
}

fn reads_of_all(properties: &[PlannedProperty]) -> StepSet {
    properties.iter().fold(StepSet::default(), |set, property| {
        set.union(match &property.source {
            PropertySource::Template(expression) => expression.outputs,
            PropertySource::Properties(properties) => reads_of_all(properties),
        })
    })
}

fn union<'a>(expressions: impl Iterator<Item = &'a Expression>) -> StepSet {
    expressions.fold(StepSet::default(), |set, expression| set.union(expression.outputs))
}
