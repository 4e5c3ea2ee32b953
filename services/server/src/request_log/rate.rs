//! A limit of lines a second: a flood of refused requests does not fill the disk.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use vmcp_core::lock;

/// The most lines a second.
const MAX_LINES: u64 = 100;

/// Counts the lines of the second that runs. At most one line a failed request takes the lock.
#[derive(Debug, Default)]
pub(super) struct LineRate(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Start of the second; `None` before the first line.
    since: Option<Instant>,
    lines: u64,
    left_out: u64,
}

impl LineRate {
    /// Returns the number of lines that were left out since the last one; `None` leaves this one out too.
    pub(super) fn admit(&self) -> Option<u64> {
        let mut counts = lock(&self.0);
        let now = Instant::now();
        let is_new = counts.since.is_none_or(|since| now - since >= Duration::from_secs(1));
        if is_new {
            counts.since = Some(now);
            counts.lines = 0;
        }
        if counts.lines == MAX_LINES {
            counts.left_out += 1;
            return None;
        }
        counts.lines += 1;
        Some(std::mem::take(&mut counts.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn counts_lines_beyond_the_rate() {
        let rate = LineRate::default();
        let admitted = (0..250).filter(|_| rate.admit() == Some(0)).count();
        assert_eq!(admitted, 100);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(rate.admit(), Some(150));
        assert_eq!(rate.admit(), Some(0));
    }
}
