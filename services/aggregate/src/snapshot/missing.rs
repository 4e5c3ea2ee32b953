//! Backends whose items may be missing from lists.

use std::sync::Arc;

use vmcp_core::{Generation, ItemKind, Rejection};

use super::Snapshot;
use crate::backend::BackendHandle;
use crate::catalog::could_show;
use crate::settings::PartialFailure;

/// Reason for a backend whose first offer is still pending.
const FETCH_PENDING: &str = "has not returned its lists yet";

/// Backend whose items may be missing from a list.
pub(crate) struct MissingBackend {
    pub(crate) backend: String,
    pub(crate) reason: String,
}

impl MissingBackend {
    /// Creates the entry of a backend. `reason` is a clause that continues a sentence about it.
    pub(crate) fn new(backend: &BackendHandle, reason: &str) -> Self {
        let subject = format!("backend {} ", backend.name());
        let reason = reason.strip_prefix(&subject).unwrap_or(reason).to_owned();
        Self { backend: backend.name().to_owned(), reason }
    }
}

/// Describes the error of a backend that is unavailable.
fn trouble(backend: &BackendHandle) -> Option<String> {
    let reason = backend.unavailable_reason()?;
    let subject = format!("backend {} ", backend.name());
    Some(reason.strip_prefix(&subject).unwrap_or(&reason).to_owned())
}

impl Snapshot {
    /// Returns the backends that are missing from the lists of one generation.
    pub(crate) fn gaps(&self, generation: Generation) -> Vec<MissingBackend> {
        let silent = self.backends.iter().filter(|backend| backend.is_silent(generation));
        let gap = |backend: &Arc<BackendHandle>| {
            MissingBackend::new(
                backend,
                &trouble(backend).unwrap_or_else(|| FETCH_PENDING.to_owned()),
            )
        };
        silent.map(gap).collect()
    }

    /// Rejects a list with missing items (seed section 2.9.7, `partialFailureMode: fail`).
    pub(crate) fn complete(&self, generation: Generation) -> Result<(), Rejection> {
        if self.partial_failure == PartialFailure::BestEffort {
            return Ok(());
        }
        self.known_down(generation)?;
        let missing = self.backends.iter().find(|backend| backend.is_silent(generation));
        match missing {
            None => Ok(()),
            Some(backend) => {
                let problem = "has not returned its lists yet; partialFailureMode is fail";
                Err(Rejection::backend_unavailable(backend.name(), problem))
            }
        }
    }

    /// Returns the rejection for a name or URI that may still appear: that of the first backend that could have it and whose
    /// offer, shared or in `own`, is missing.
    pub(crate) fn pending_rejection(
        &self,
        kind: ItemKind,
        name: &str,
        own: &[(Arc<BackendHandle>, Rejection)],
        generation: Generation,
    ) -> Option<Rejection> {
        let could =
            |backend: &&Arc<BackendHandle>| could_show(&self.rules, backend.name(), kind, name);
        self.backends.iter().filter(could).find_map(|backend| {
            if !backend.shared() {
                let mut own = own.iter().filter(|(of, _)| of.id == backend.id);
                return own.next().map(|(_, rejection)| rejection.clone());
            }
            let problem = backend.is_silent(generation).then(|| trouble(backend))?;
            let problem = problem.unwrap_or_else(|| FETCH_PENDING.to_owned());
            Some(Rejection::backend_unavailable(backend.name(), &problem))
        })
    }

    /// Rejects a list that will fail whatever the pending backends return, so waiting is pointless.
    pub(crate) fn known_down(&self, generation: Generation) -> Result<(), Rejection> {
        if self.partial_failure == PartialFailure::BestEffort {
            return Ok(());
        }
        for backend in self.backends.iter().filter(|backend| backend.is_silent(generation)) {
            if let Some(problem) = trouble(backend) {
                let problem = format!("{problem}; partialFailureMode is fail");
                return Err(Rejection::backend_unavailable(backend.name(), &problem));
            }
        }
        Ok(())
    }
}
