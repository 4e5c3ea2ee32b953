//! Rounds of questions in a record.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::ENTRY_SIZE;
use crate::{Answer, Timestamp};

/// Round of questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Open questions: number of the step, message, expiry.
    pub questions: Vec<RecordedQuestion>,
    /// Answers by number of the step, kept until the round is consumed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<usize, Answer>,
    /// Digest of the answers that consumed the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_by: Option<[u8; 32]>,
}

/// Question of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedQuestion {
    /// Number of the step.
    pub step: usize,
    /// Message to the user.
    pub message: Arc<str>,
    /// Point in time at which the step times out: its timeout after the round was opened, or the end of the run.
    pub expires_at: Timestamp,
    /// Digest of the answer that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<[u8; 32]>,
}

/// Answer to a question of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// Number of the step.
    pub step: usize,
    /// The answer.
    pub answer: Answer,
    /// Digest of the answer.
    pub digest: [u8; 32],
}

// === impl RoundRecord ===

impl RoundRecord {
    pub(crate) fn new(questions: Vec<RecordedQuestion>) -> Self {
        Self { questions, ..Self::default() }
    }

    pub(super) fn keep(&mut self, answers: Vec<KeptAnswer>) {
        for KeptAnswer { step, answer, digest } in answers {
            if let Some(question) = self.questions.iter_mut().find(|it| it.step == step) {
                question.answered_by = Some(digest);
                self.answers.insert(step, answer);
            }
        }
    }

    pub(super) fn consume(&mut self, digest: [u8; 32]) {
        self.consumed_by = Some(digest);
        // They are results of the steps from now on.
        self.answers = BTreeMap::new();
    }

    /// Returns the questions without an answer.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &RecordedQuestion> {
        self.questions.iter().filter(|question| question.answered_by.is_none())
    }

    /// Returns `true` if the run can continue: each question has an answer, or one without expired.
    pub(crate) fn is_ready(&self, now: Timestamp) -> bool {
        let mut open = self.unanswered().peekable();
        open.peek().is_none() || open.any(|question| question.expires_at <= now)
    }

    pub(super) fn size(&self) -> usize {
        let questions = self.questions.iter().map(|it| it.message.len() + ENTRY_SIZE);
        questions.sum::<usize>() + self.size_of_answers()
    }

    pub(super) fn size_of_answers(&self) -> usize {
        self.answers.values().map(Answer::size).sum()
    }
}
