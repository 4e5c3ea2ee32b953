//! Minimum rate of peers while requests wait for the bytes that they hold.

use std::time::Duration;

use super::ByteBudget;

/// The least that a peer transfers in an [`INTERVAL`](TransferRate::INTERVAL) while others wait, in bytes.
const MIN_INTERVAL_BYTES: usize = 16 << 10;

/// Rate at which a peer sends or takes the bytes of one message.
///
/// A slow peer is served as long as there is room for all. Once requests wait for bytes of the budget, a peer that holds some
/// has to transfer 16 KiB in each interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferRate {
    /// The bytes transferred in the current interval.
    bytes: usize,
}

impl TransferRate {
    /// The length of an interval. Requests wait for longer, so that what a slow peer held serves them.
    pub const INTERVAL: Duration = Duration::from_secs(1);

    /// Counts `bytes` that were transferred.
    pub fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Ends the current interval and begins the next. Returns whether the peer was too slow in it.
    #[must_use]
    pub fn end_interval(&mut self, budget: &ByteBudget) -> bool {
        std::mem::take(&mut self.bytes) < MIN_INTERVAL_BYTES && budget.counts().waiting > 0
    }
}
