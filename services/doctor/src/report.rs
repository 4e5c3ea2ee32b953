//! Result of a discovery.

use crate::Client;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client accepts it.
    Pass,
    /// The client continues, but other clients may stop, or it uses another source.
    Note,
    /// The client stops.
    Mismatch,
}

/// Discovery step of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Request, or the checked member.
    pub what: String,
    /// Outcome of the step.
    pub outcome: Outcome,
    /// Finding. It may quote the server: escape control characters before you print it.
    pub found: String,
    /// Change of the server that fixes the finding, if one is needed.
    pub change: Option<String>,
}

/// Steps of a client, in order; a mismatch is the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Client.
    pub client: Client,
    /// URL of the server.
    pub server: String,
    /// Steps of the client.
    pub steps: Vec<Step>,
}

/// Marker that the client has stopped; the report has the reason.
#[derive(Debug)]
pub(crate) struct DiscoveryStopped;

impl Report {
    /// Returns the step at which the client stopped, if any.
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
