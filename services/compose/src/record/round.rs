//! Rounds of questions in a record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Round of questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Open questions: number of the step, message, expiry.
    pub questions: Vec<RecordedQuestion>,
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
}
