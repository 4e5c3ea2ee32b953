//! Decision how a run continues.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{InputRequired, Outcome, RoundAnswers, RunOutput};
use crate::plan::{Action, digest};
use crate::{
    Answer, Question, RoundRecord, RunError, RunErrorKind, RunRecord, RunResult, Timestamp,
    Workflow,
};

/// Continuation of a leased run.
pub(super) enum Continuation {
    /// Goes on, with answers to a round.
    Answer { round: usize, digest: [u8; 32], answers: BTreeMap<usize, Answer> },
    /// Goes on where it was interrupted.
    Continue,
    /// Ends: the definition is another one.
    End,
}

/// Decides how a run continues, or returns its recorded outcome.
pub(super) fn decide(
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
                let message = format!(
                    "round {round} was answered differently before: repeat the answers of the \
                     first time, or call again without requestState"
                );
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
                let answers = check_answers(workflow, record, recorded, answers, now)?;
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
        Some((round, open)) if open.is_ready(now) => {
            let mut answers = open.answers.clone();
            answers.extend(timed_out(open, now));
            Ok(Continuation::Answer { round, digest: digest_kept(workflow, open), answers })
        }
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
        RunResult::NotKept => {
            failed(RunErrorKind::UnknownRound, "the result of the run was not kept".to_owned())
        }
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
    round.unanswered().filter_map(question).collect()
}

impl Workflow {
    /// Returns the questions of a suspended run that are not answered yet. None if the run is of another definition.
    #[must_use]
    pub fn open_questions(&self, record: &RunRecord) -> Vec<Question> {
        let open = record.open_round().and_then(|round| record.rounds.get(round));
        let open = open.filter(|_| record.definition == self.definition());
        open.map_or_else(Vec::new, |round| questions(self, record, round))
    }
}

/// Checks each answer against its question. A question whose time is over has timed out.
fn check_answers(
    workflow: &Workflow,
    record: &RunRecord,
    round: &RoundRecord,
    answers: &[(Arc<str>, Answer)],
    now: Timestamp,
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
    checked.extend(timed_out(round, now));
    Ok(checked)
}

/// Returns the end of the questions that expired without an answer.
fn timed_out(round: &RoundRecord, now: Timestamp) -> impl Iterator<Item = (usize, Answer)> {
    let expired = round.unanswered().filter(move |question| now >= question.expires_at);
    expired.map(|question| (question.step, Answer::TimedOut))
}

/// Returns the digest of answers: the same for each order of steps and members.
fn digest_answers(answers: &[(Arc<str>, Answer)]) -> [u8; 32] {
    let all = answers.iter().map(|(step, answer)| (step.to_string(), answer.to_value()));
    digest(&Value::Object(all.collect::<Map<_, _>>()))
}

/// Returns the digest of the answers that a round holds.
fn digest_kept(workflow: &Workflow, round: &RoundRecord) -> [u8; 32] {
    let steps = &workflow.0.steps;
    let id = |step: usize| steps.get(step).map(|planned| planned.id.clone());
    let kept = round.answers.iter().filter_map(|(step, answer)| Some((id(*step)?, answer.clone())));
    digest_answers(&kept.collect::<Vec<_>>())
}
