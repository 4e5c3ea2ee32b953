//! What was found.

use crate::Client;

/// How a step came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the client wants it.
    Pass,
    /// The client goes on, and others may not; or it goes on elsewhere.
    Note,
    /// The client does not go on.
    Mismatch,
}

/// One step of the client's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it did: a request, or what it looked at.
    pub what: String,
    /// How that came out.
    pub outcome: Outcome,
    /// What it found. The words of the server are in there: escape what moves a terminal's cursor.
    pub found: String,
    /// What to change in the server, where something is amiss.
    pub change: Option<String>,
}

/// All that a client did, in its order; a mismatch is the last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who.
    pub client: Client,
    /// Where it began.
    pub server: String,
    /// What it did.
    pub steps: Vec<Step>,
}

/// The client goes no further.
#[derive(Debug)]
pub(crate) struct DiscoveryStopped;

impl Report {
    /// What the client does not put up with, if there is anything.
    #[must_use]
    pub fn mismatch(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.outcome == Outcome::Mismatch)
    }

    pub(crate) fn pass(&mut self, what: impl Into<String>, found: impl Into<String>) {
        self.steps.push(Step {
            what: what.into(),
            outcome: Outcome::Pass,
            found: found.into(),
            change: None,
        });
    }

    pub(crate) fn note(
        &mut self,
        what: impl Into<String>,
        found: impl Into<String>,
        change: Option<&str>,
    ) {
        self.steps.push(Step {
            what: what.into(),
            outcome: Outcome::Note,
            found: found.into(),
            change: change.map(str::to_owned),
        });
    }

    pub(crate) fn fail<T>(
        &mut self,
        what: impl Into<String>,
        found: impl Into<String>,
        change: impl Into<String>,
    ) -> Result<T, DiscoveryStopped> {
        self.steps.push(Step {
            what: what.into(),
            outcome: Outcome::Mismatch,
            found: found.into(),
            change: Some(change.into()),
        });
        Err(DiscoveryStopped)
    }
}
