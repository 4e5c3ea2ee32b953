//! Runs of composite tools, for their owners.

use futures_util::FutureExt;
use vmcp_compose::{RunId, RunRecord, RunSummary, StoreCounts, StoreError, Workflow};
use vmcp_core::Identity;

use super::Gateway;
use crate::workflow_runs::run_owner;

impl Gateway {
    /// Returns the number and size of the stored runs. `None` if the store does not know them without waiting.
    #[must_use]
    pub fn stored_runs(&self) -> Option<StoreCounts> {
        self.0.dispatcher.context.workflows.store.counts().now_or_never()?.ok()
    }

    /// Returns the runs of composite tools that an identity began, the newest first.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn workflow_runs(
        &self,
        owner: &Identity,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        self.0.dispatcher.context.workflows.store.list(&run_owner(owner, None), limit).await
    }

    /// Returns one of these runs, with the composite tool if its definition is still the one with which the run began.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] also for the run of another identity.
    pub async fn workflow_run(
        &self,
        owner: &Identity,
        run: &RunId,
    ) -> Result<(RunRecord, Option<Workflow>), StoreError> {
        let record =
            self.0.dispatcher.context.workflows.store.read(&run_owner(owner, None), run).await?;
        let snapshot = self.0.catalogs.snapshot();
        let mut workflows = snapshot.rules.workflows.iter();
        let workflow = workflows.find(|it| it.definition() == record.definition).cloned();
        Ok((record, workflow))
    }
}
