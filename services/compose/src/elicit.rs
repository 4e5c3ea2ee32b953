//! Questions of steps to the user.

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::digest;
use crate::{JsonSchema, RunId, limits};

/// Question of an elicitation step to the user (MCP `elicitation/create`).
#[derive(Clone, Debug)]
pub struct Question {
    /// The run.
    pub run: RunId,
    /// Identifier of the step.
    pub step: Arc<str>,
    /// Message to the user.
    pub message: String,
    /// Schema of the answer.
    pub schema: JsonSchema,
    /// Point in time at which the step times out. The time of a question starts when the user can see it: when its step
    /// starts, or when the run is suspended with it ([`Elicitation::Suspend`]).
    pub expires_at: SystemTime,
}

/// Answer of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The user submitted content.
    Accept(Value),
    /// The user declined.
    Decline,
    /// The user dismissed the question without a choice.
    Cancel,
    /// The user did not answer in time.
    TimedOut,
}

/// Kind of an [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerAction {
    /// The user submitted content.
    Accept,
    /// The user declined.
    Decline,
    /// The user dismissed the question without a choice.
    Cancel,
    /// The user did not answer in time.
    TimedOut,
}

/// Error of content that does not answer its question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("answer to step \"{step}\" is invalid at {field}: {message}")]
pub struct AnswerError {
    /// Identifier of the step.
    pub step: Arc<str>,
    /// The invalid member, such as `content.name`.
    pub field: String,
    /// The problem.
    pub message: String,
}

/// Error of a question that could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElicitError {
    /// The client does not support elicitation.
    #[error("the client does not support elicitation: use a client that declares it")]
    Unsupported,
    /// The client went away.
    #[error("the client disconnected before it answered")]
    Disconnected,
    /// The user logged out, or lost access in another way, before the answer.
    #[error("the token was revoked before the user answered: log in and call again")]
    Revoked,
    /// The client responded with an error.
    #[error("the client failed to ask the user: {0}")]
    Failed(String),
}

impl Answer {
    /// Returns the answer as a value that digests contain.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Accept(content) => Value::Array(vec!["accept".into(), content.clone()]),
            Self::Decline => "decline".into(),
            Self::Cancel => "cancel".into(),
            Self::TimedOut => "timeout".into(),
        }
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        digest(&self.to_value())
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Accept(content) => limits::memory(content),
            Self::Decline | Self::Cancel | Self::TimedOut => 0,
        }
    }
}

/// Channel to the user, for runs that wait for answers in place.
pub trait Elicit: Send + Sync {
    /// Asks `question` and waits for the answer, at most until the step times out. `rejected` is the error of the previous
    /// answer to the same question. The implementation may ask the user again or return [`Answer::Cancel`].
    fn elicit<'a>(
        &'a self,
        question: &'a Question,
        rejected: Option<&'a AnswerError>,
    ) -> BoxFuture<'a, Result<Answer, ElicitError>>;
}

/// Handling of questions by a run.
#[derive(Clone)]
pub enum Elicitation {
    /// The run waits for the answers while other steps run on.
    Wait(Arc<dyn Elicit>),
    /// Once each running step waits for an answer, the run ends with
    /// [`Outcome::InputRequired`](crate::Outcome::InputRequired), to be resumed with the answers.
    Suspend,
    /// There is no user: elicitation steps fail.
    Unsupported,
}

impl Answer {
    /// Returns the kind.
    #[must_use]
    pub fn action(&self) -> AnswerAction {
        match self {
            Self::Accept(_) => AnswerAction::Accept,
            Self::Decline => AnswerAction::Decline,
            Self::Cancel => AnswerAction::Cancel,
            Self::TimedOut => AnswerAction::TimedOut,
        }
    }
}

impl AnswerAction {
    /// Returns the word of `.steps.ID.output.action`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
            Self::TimedOut => "timeout",
        }
    }
}

impl std::fmt::Debug for Elicitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wait(_) => "Wait",
            Self::Suspend => "Suspend",
            Self::Unsupported => "Unsupported",
        })
    }
}
