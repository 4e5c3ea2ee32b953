//! Replies of scripts.

use std::vec;

use vmcp_compose::{ReachedLimit, RunStatus, StoreError};
use vmcp_redis::{FromRedisValue, Value, from_redis_value};

/// Elements of a reply, in order.
#[derive(Debug)]
pub(crate) struct Reply(vec::IntoIter<Value>);

/// Record of a run as Redis has it.
#[derive(Debug)]
pub(crate) struct StoredRecord {
    pub(crate) status: RunStatus,
    pub(crate) epoch: u64,
    /// Version of the snapshot.
    pub(crate) snapshot_version: u64,
    /// Version after the changes.
    pub(crate) version: u64,
    /// Estimated size, as it is counted.
    pub(crate) size: usize,
    pub(crate) snapshot: Vec<u8>,
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) changes: Vec<Vec<u8>>,
}

/// First element of a reply: the outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    Done,
    /// Redis lost writes that it had acknowledged, or another process wrote.
    Behind,
    Rejected(StoreError),
}

impl Reply {
    pub(crate) fn new(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(parts) => Ok(Self(parts.into_iter())),
            _ => Err(StoreError::Corrupt),
        }
    }

    /// Returns the next element, or `None` for nil.
    pub(crate) fn get<T: FromRedisValue>(&mut self) -> Result<Option<T>, StoreError> {
        match self.0.next() {
            None | Some(Value::Nil) => Ok(None),
            Some(part) => from_redis_value(part).map_err(|_| StoreError::Corrupt),
        }
    }

    /// Returns the next element, which must not be nil.
    pub(crate) fn require<T: FromRedisValue>(&mut self) -> Result<T, StoreError> {
        self.get()?.ok_or(StoreError::Corrupt)
    }

    /// Returns the next element: the outcome of the step.
    pub(crate) fn outcome(&mut self) -> Result<StepOutcome, StoreError> {
        let word: String = self.require()?;
        Ok(StepOutcome::Rejected(match &*word {
            "ok" => return Ok(StepOutcome::Done),
            "behind" => return Ok(StepOutcome::Behind),
            "gone" => StoreError::NotFound,
            "leased" => StoreError::Leased,
            "superseded" => StoreError::Superseded,
            "finished" => StoreError::Finished,
            "denied" => StoreError::Unavailable,
            "consumed" => StoreError::RoundConsumed,
            "full" => StoreError::Full { limit: self.limit()? },
            _ => StoreError::Corrupt,
        }))
    }

    /// Returns the rest of a reply whose step has no other outcome than success or an error.
    pub(crate) fn done(mut self) -> Result<Self, StoreError> {
        match self.outcome()? {
            StepOutcome::Done => Ok(self),
            StepOutcome::Behind => Err(StoreError::Corrupt),
            StepOutcome::Rejected(error) => Err(error),
        }
    }

    pub(crate) fn status(&mut self) -> Result<RunStatus, StoreError> {
        let word: String = self.require()?;
        parse_status(&word).ok_or(StoreError::Corrupt)
    }

    pub(crate) fn record(&mut self) -> Result<StoredRecord, StoreError> {
        Ok(StoredRecord {
            status: self.status()?,
            epoch: self.require()?,
            snapshot_version: self.require()?,
            version: self.require()?,
            size: self.require()?,
            snapshot: self.require()?,
            result: self.get()?,
            changes: self.require()?,
        })
    }

    /// Returns the remaining elements, each of them a reply.
    pub(crate) fn replies(self) -> impl Iterator<Item = Result<Self, StoreError>> {
        self.0.map(Self::new)
    }

    fn limit(&mut self) -> Result<ReachedLimit, StoreError> {
        let word: String = self.require()?;
        match &*word {
            "owner_runs" => Ok(ReachedLimit::OwnerRuns),
            "owner_bytes" => Ok(ReachedLimit::OwnerBytes),
            "runs" => Ok(ReachedLimit::Runs),
            "bytes" => Ok(ReachedLimit::Bytes),
            _ => Err(StoreError::Corrupt),
        }
    }
}

/// Returns the word for a status that Redis stores in clear.
pub(crate) fn status_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::InputRequired => "input_required",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Completed => "completed",
        RunStatus::Failed => "failed",
        RunStatus::TimedOut => "timed_out",
        RunStatus::Cancelled => "cancelled",
    }
}

fn parse_status(word: &str) -> Option<RunStatus> {
    let all = [
        RunStatus::Running,
        RunStatus::InputRequired,
        RunStatus::Interrupted,
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::TimedOut,
        RunStatus::Cancelled,
    ];
    all.into_iter().find(|status| status_word(*status) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_malformed_replies() {
        assert!(Reply::new(Value::Nil).is_err());
        let reply = |word: &str| {
            Reply::new(Value::Array(vec![Value::BulkString(word.as_bytes().to_vec())])).unwrap()
        };
        assert!(reply("ok").done().is_ok());
        assert_eq!(reply("format").done().unwrap_err(), StoreError::Corrupt);
        assert_eq!(reply("full").done().unwrap_err(), StoreError::Corrupt);
        assert_eq!(reply("superseded").done().unwrap_err(), StoreError::Superseded);
        assert_eq!(reply("other").status().unwrap_err(), StoreError::Corrupt);
        assert_eq!(reply("timed_out").status(), Ok(RunStatus::TimedOut));
    }
}
