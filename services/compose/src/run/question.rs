//! Questions to the user.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use vmcp_config::composite::ElicitationAction;

use super::failure::StepFailure;
use super::unanswered::NOT_ANSWERED;
use crate::limits::{MAX_ANSWER_BYTES, MAX_ELICITATION_DEPTH, depth, json_bytes};
use crate::plan::{PlannedQuestion, PlannedStep};
use crate::record::null;
use crate::{
    Answer, AnswerAction, AnswerError, Elicit, Question, RunErrorKind, StepResult, StepStatus,
};

/// Result of a question.
#[derive(Debug)]
pub(super) struct StepCompletion {
    pub(super) result: StepResult,
    /// The user's answer skips the steps that have not started.
    pub(super) skips_remaining: bool,
}

/// Invalid answers after which a question fails.
const MAX_INVALID_ANSWERS: usize = 10;

impl Question {
    /// Checks the content of an answer against the schema, its size and its nesting.
    ///
    /// # Errors
    /// The first member that is invalid.
    pub fn check(&self, content: &Value) -> Result<(), AnswerError> {
        let error = |field: &str, message: String| AnswerError {
            step: self.step.clone(),
            field: field.to_owned(),
            message,
        };
        if depth(content) > MAX_ELICITATION_DEPTH {
            let message = format!("nested deeper than {MAX_ELICITATION_DEPTH} levels");
            return Err(error("content", message));
        }
        if json_bytes(content) > MAX_ANSWER_BYTES {
            return Err(error("content", "larger than 1 MiB".to_owned()));
        }
        match self.schema.violations(content).into_iter().next() {
            None => Ok(()),
            Some(violation) if violation.pointer.is_empty() => {
                Err(error("content", violation.message))
            }
            Some(violation) => {
                let field = format!("content.{}", violation.pointer.replace('/', "."));
                Err(error(&field, violation.message))
            }
        }
    }
}

/// Asks until the answer fits or the step times out.
pub(super) async fn ask(
    elicit: &dyn Elicit,
    question: &Question,
    deadline: Instant,
) -> Result<Answer, StepFailure> {
    let mut rejected: Option<AnswerError> = None;
    for _ in 0..MAX_INVALID_ANSWERS {
        let answer = timeout_at(deadline, elicit.elicit(question, rejected.as_ref())).await;
        let answer = match answer {
            Err(_) => return Ok(Answer::TimedOut),
            Ok(Err(error)) => return Err(StepFailure::step(&question.step, error)),
            Ok(Ok(answer)) => answer,
        };
        let Answer::Accept(content) = &answer else { return Ok(answer) };
        match question.check(content) {
            Ok(()) => return Ok(answer),
            Err(error) => rejected = Some(error),
        }
    }
    let message = rejected.map_or(String::new(), |error| error.to_string());
    Err(StepFailure::step(&question.step, format!("too many invalid answers: {message}")))
}

/// Applies an answer: its content is the output, or `onDecline` and `onCancel` decide. Without an answer, `defaultResults`
/// replace the content; `action` is always that of the user.
pub(super) fn apply(
    step: &PlannedStep,
    plan: &PlannedQuestion,
    answer: Answer,
) -> Result<StepCompletion, StepFailure> {
    let word = answer.action();
    let (text, action) = match answer {
        Answer::Accept(content) => {
            let output = output(word, Map::from_iter([("content".to_owned(), content)]));
            return Ok(StepCompletion { result: completed(output), skips_remaining: false });
        }
        Answer::Decline => ("the user declined the question", plan.on_decline),
        Answer::Cancel => ("the user cancelled the question", plan.on_cancel),
        Answer::TimedOut => (NOT_ANSWERED, plan.on_cancel),
    };
    match action {
        ElicitationAction::Abort => Err(StepFailure::run(RunErrorKind::Declined, &step.id, text)),
        ElicitationAction::Continue => {
            let defaults = step.fallback().as_object().cloned().unwrap_or_default();
            Ok(StepCompletion { result: completed(output(word, defaults)), skips_remaining: false })
        }
        ElicitationAction::SkipRemaining => {
            let output = output(word, Map::from_iter([("skipped".to_owned(), true.into())]));
            Ok(StepCompletion { result: completed(output), skips_remaining: true })
        }
    }
}

fn output(action: AnswerAction, more: Map<String, Value>) -> Value {
    let mut output = Map::new();
    output.insert("action".to_owned(), action.as_str().into());
    for (name, value) in more {
        output.entry(name).or_insert(value);
    }
    Value::Object(output)
}

fn completed(output: Value) -> StepResult {
    StepResult {
        status: StepStatus::Completed,
        output: Arc::new(output),
        content: null(),
        error: None,
    }
}
