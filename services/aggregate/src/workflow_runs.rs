//! Store, clock and randomness of the runs of composite tools.

use std::sync::Arc;

use vmcp_compose::{Jitter, RunOwner, WorkflowStore};
use vmcp_core::{Clock, Identity};

use crate::seal::principal;

/// Parts that the runs of composite tools share.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowRuns {
    pub(crate) store: Arc<dyn WorkflowStore>,
    pub(crate) clock: Clock,
    pub(crate) jitter: Jitter,
}

/// Returns the key of the owner of an identity's runs.
pub(crate) fn run_owner(identity: &Identity) -> RunOwner {
    let (issuer, subject) = principal(identity);
    RunOwner::new(format!("{issuer}\n{subject}"))
}
