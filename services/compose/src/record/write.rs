//! Effect of a write, which stores check before they apply it.

use super::RunRecord;
use crate::{Change, StoreError, StoreLimits};

/// Effect of the changes of one write on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteEffect {
    /// `true` if the run ends.
    pub ends: bool,
    /// `true` if the lease is given back: the run ends, or waits for the user.
    pub gives_lease_back: bool,
    /// Estimated memory that the changes free, in bytes.
    pub freed: usize,
    /// Estimated size of the record after the write, in bytes. [`RunRecord::size`] is exact after the end of a run.
    pub size: usize,
}

impl RunRecord {
    /// Returns the effect of a write on this record, whose estimated size is `size`.
    ///
    /// # Errors
    /// [`StoreError::Finished`] after the end, [`StoreError::RoundConsumed`] if a change needs a round that is not open, and
    /// [`StoreError::RunTooLarge`], but not for the end of a run.
    pub fn check_write(
        &self,
        size: usize,
        changes: &[Change],
        limits: &StoreLimits,
    ) -> Result<WriteEffect, StoreError> {
        if self.is_finished() {
            return Err(StoreError::Finished);
        }
        let mut open = self.open_round();
        for change in changes {
            match change {
                Change::AnswersKept { round, .. } | Change::RoundConsumed { round, .. }
                    if open != Some(*round) =>
                {
                    return Err(StoreError::RoundConsumed);
                }
                Change::RoundConsumed { .. } => open = None,
                _ => {}
            }
        }
        let ends = changes.iter().any(|change| matches!(change, Change::RunFinished { .. }));
        let suspends = changes.iter().any(|change| matches!(change, Change::RoundOpened { .. }));
        let added: usize = changes.iter().map(Change::size).sum();
        let freed: usize = changes.iter().map(|change| self.size_freed_by(change)).sum();
        let size = (size + added).saturating_sub(freed);
        let limit = limits.max_bytes_per_run();
        if !ends && size > limit {
            return Err(StoreError::RunTooLarge { limit });
        }
        Ok(WriteEffect { ends, gives_lease_back: ends || suspends, freed, size })
    }
}
