//! Records of clients under load, and what they have in common with those of the backends.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Deserialize;

use super::ledger::{Ledger, is_repeatable};

/// Record of one client.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Record {
    /// `true` for a client with a session.
    pub(crate) stateful: bool,
    /// `true` if a request of the session got 404, or the client lost its session otherwise.
    pub(crate) ended: bool,
    pub(crate) results: Vec<Acknowledged>,
    /// Calls whose connection broke.
    pub(crate) broken: Vec<Broken>,
    /// Calls without a result on an intact connection.
    pub(crate) rejected: Vec<Rejected>,
}

/// A result.
#[derive(Debug, Deserialize)]
pub(crate) struct Acknowledged {
    pub(crate) key: String,
    /// Key in the result.
    pub(crate) returned: String,
    /// Session of the backend; empty for a stateless one.
    pub(crate) session: String,
    /// Number of the call in the backend's session.
    pub(crate) number: usize,
    /// `true` if the result is marked as that of a new session of the backend.
    pub(crate) marked: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Broken {
    pub(crate) key: String,
    pub(crate) tool: String,
}

/// An error, as HTTP status or JSON-RPC error.
#[derive(Debug, Deserialize)]
pub(crate) struct Rejected {
    pub(crate) tool: String,
    pub(crate) message: String,
    pub(crate) retryable: bool,
}

/// Counts over all clients.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) clients: usize,
    /// Client sessions that ended.
    pub(crate) ended: usize,
    pub(crate) acknowledged: usize,
    /// Results that no backend counted, or with the key of another call.
    pub(crate) lost: usize,
    /// Calls of a tool that acts, which a backend counted more than once.
    pub(crate) repeated: usize,
    /// Results with a number that the session of the backend had reached before.
    pub(crate) set_back: usize,
    /// Calls that failed at the connection.
    pub(crate) broken: usize,
    /// Sessions of the stateful backend that a stateful client used.
    pub(crate) backend_sessions: usize,
    /// Sessions of the backend whose first result, as the client saw it, was marked.
    pub(crate) marked: usize,
    /// Those without a mark, beyond the one of the replica where the client's session began.
    pub(crate) unmarked: usize,
    /// Marks of a session that the client knew.
    pub(crate) marked_again: usize,
    /// Errors, by their message.
    pub(crate) rejected: BTreeMap<String, usize>,
    /// Errors that call a tool that acts retryable.
    pub(crate) retryable: usize,
}

impl Counts {
    pub(crate) fn of(records: &[Record], ledgers: &[&Ledger]) -> Self {
        let mut counts = Self { clients: records.len(), ..Self::default() };
        for record in records {
            counts.add(record, ledgers);
        }
        counts
    }

    fn add(&mut self, record: &Record, ledgers: &[&Ledger]) {
        let calls = |key: &str| ledgers.iter().map(|ledger| ledger.calls(key)).sum::<usize>();
        self.ended += usize::from(record.ended);
        self.acknowledged += record.results.len();
        self.broken += record.broken.len();
        let mut numbers = HashMap::<&str, usize>::new();
        let mut unmarked = 0;
        for result in &record.results {
            let counted = calls(&result.key);
            let is_known = result.returned == result.key && counted > 0;
            self.lost += usize::from(!is_known);
            self.repeated += usize::from(result.key.starts_with("act") && counted > 1);
            if result.session.is_empty() || !record.stateful {
                continue;
            }
            let earlier = numbers.insert(&result.session, result.number);
            self.set_back += usize::from(earlier.is_some_and(|earlier| earlier >= result.number));
            match (earlier.is_none(), result.marked) {
                (true, true) => self.marked += 1,
                (true, false) => unmarked += 1,
                (false, true) => self.marked_again += 1,
                (false, false) => {}
            }
        }
        self.backend_sessions += numbers.len();
        self.unmarked += unmarked.max(1) - 1;
        let unknown = record.broken.iter().filter(|call| !is_repeatable(&call.tool));
        self.repeated += unknown.filter(|call| calls(&call.key) > 1).count();
        for rejected in &record.rejected {
            *self.rejected.entry(rejected.message.clone()).or_default() += 1;
            self.retryable += usize::from(rejected.retryable && !is_repeatable(&rejected.tool));
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, name) in [
            (self.clients, "clients"),
            (self.ended, "client sessions ended"),
            (self.acknowledged, "results acknowledged"),
            (self.lost, "acknowledged results lost"),
            (self.repeated, "calls of acting tools repeated"),
            (self.set_back, "sessions of the backend set back"),
            (self.broken, "calls failed at the connection"),
            (self.rejected.values().sum(), "calls rejected"),
            (self.retryable, "rejected calls of acting tools called retryable"),
            (self.backend_sessions, "sessions of the backend used by clients with a session"),
            (self.marked, "of these, marked as new"),
            (self.unmarked, "of these, lost without a mark"),
            (self.marked_again, "marks of known sessions"),
        ] {
            writeln!(f, "{count:>8} {name}")?;
        }
        for (message, count) in &self.rejected {
            writeln!(f, "{count:>8} x {message}")?;
        }
        Ok(())
    }
}
