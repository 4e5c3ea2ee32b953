//! Progress of a request over several input rounds.

use vmcp_wire::{Params, find};

/// Filter of the progress notifications of one request. Progress has to increase over all rounds (MCP 2025-11-25, Progress), but
/// a backend restarts from zero in each round.
#[derive(Clone, Copy, Default)]
pub(super) struct ProgressFilter {
    last: Option<f64>,
    last_of_earlier_rounds: Option<f64>,
}

impl ProgressFilter {
    pub(super) fn next_round(&mut self) {
        self.last_of_earlier_rounds = self.last;
    }

    /// Returns `true` if the client is to receive this progress.
    pub(super) fn admit(&mut self, message: &[u8], params: &Params) -> bool {
        let progress = params.span.and_then(|params| find(params.of(message), "progress"));
        let progress = progress.and_then(|it| std::str::from_utf8(it).ok()?.parse::<f64>().ok());
        // Forward a notification without a progress value: the defect is the backend's and should be visible.
        let Some(progress) = progress else { return true };
        if self.last_of_earlier_rounds.is_some_and(|last| progress <= last) {
            return false;
        }
        self.last = Some(self.last.map_or(progress, |last| last.max(progress)));
        true
    }
}
