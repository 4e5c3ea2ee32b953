//! Mistakes of MCPServers and MCPRemoteProxies.

use vmcp_api::condition::ConditionStatus;
use vmcp_api::{MCPRemoteProxy, MCPServer};

use super::{Finding, Manifests};
use crate::controllers::workload::{Workload, judge};
use crate::key::ObjectKey;
use crate::lookup::Lookup;

impl Manifests {
    /// Returns the mistakes of all workloads.
    pub(super) fn workload_findings(&self) -> Vec<Finding> {
        let mut findings = self.of_workloads::<MCPServer>();
        findings.extend(self.of_workloads::<MCPRemoteProxy>());
        findings
    }

    fn of_workloads<W: Workload>(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (key, workload) in W::store(&self.stores).list(None) {
            let object = ObjectKey::new(W::KIND, key);
            let mut lookup = Lookup::new(&self.stores, object.clone());
            let updates = judge(&mut lookup, &workload.auth());
            lookup.finish();
            let mistakes = updates.iter().filter(|one| one.status == ConditionStatus::False);
            findings.extend(mistakes.map(|update| {
                let (path, message) =
                    update.message.split_once(": ").unwrap_or(("", &update.message));
                self.finding(&object, path.to_owned(), message.to_owned())
            }));
        }
        findings
    }
}
