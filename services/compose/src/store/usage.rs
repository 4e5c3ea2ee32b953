//! Runs and bytes that a store holds, of one owner or of all.

use std::collections::BTreeMap;

use crate::RunId;

/// Runs and their size.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Runs by the number of their start.
    runs: BTreeMap<u64, RunId>,
    /// Ended runs by the number of their end.
    ended: BTreeMap<u64, RunId>,
    bytes: usize,
    /// Bytes of ended runs.
    ended_bytes: usize,
}

impl Usage {
    /// Adds a run that starts.
    pub(super) fn add(&mut self, number: u64, run: RunId, bytes: usize) {
        self.runs.insert(number, run);
        self.bytes += bytes;
    }

    /// Counts the size of a run that grew or shrank.
    pub(super) fn resize(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
    }

    /// Counts a run as ended.
    pub(super) fn end(&mut self, end_number: u64, run: RunId, bytes: usize) {
        self.ended.insert(end_number, run);
        self.ended_bytes += bytes;
    }

    /// Counts the size of an ended run that shrank.
    pub(super) fn resize_ended(&mut self, before: usize, after: usize) {
        self.resize(before, after);
        self.ended_bytes = self.ended_bytes - before + after;
    }

    /// Removes a run by the numbers of its start and end.
    pub(super) fn remove(&mut self, number: u64, end_number: Option<u64>, bytes: usize) {
        self.runs.remove(&number);
        self.bytes -= bytes;
        if let Some(number) = end_number {
            self.ended.remove(&number);
            self.ended_bytes -= bytes;
        }
    }

    /// Returns the runs, the newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &RunId> {
        self.runs.values().rev()
    }

    /// Returns the ended runs, the first one that ended first.
    pub(super) fn ended(&self) -> impl Iterator<Item = &RunId> {
        self.ended.values()
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of runs that have not ended.
    pub(super) fn active_runs(&self) -> usize {
        self.runs.len() - self.ended.len()
    }

    /// Returns the bytes of runs that have not ended.
    pub(super) fn active_bytes(&self) -> usize {
        self.bytes - self.ended_bytes
    }
}
