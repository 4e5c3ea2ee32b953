//! Mistakes of MCPServers and MCPRemoteProxies, and settings of theirs without an effect.

use vmcp_api::condition::ConditionStatus;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::{MCPRemoteProxy, MCPServer};

use super::{Finding, Manifests};
use crate::controllers::workload::{Workload, judge};
use crate::key::{Kind, ObjectKey};
use crate::lookup::Lookup;

impl Manifests {
    /// Returns the mistakes of all workloads.
    pub(super) fn workload_findings(&self) -> Vec<Finding> {
        let updates = self.workload_updates(ConditionStatus::False).into_iter();
        let findings = updates.map(|(object, update)| {
            let (path, message) = update.message.split_once(": ").unwrap_or(("", &update.message));
            self.finding(&object, path.to_owned(), message.to_owned())
        });
        findings.collect()
    }

    /// Returns what has no effect, or another one than expected, with the object that it is about: advice that the controllers of
    /// workloads and of credentials report. Sorted by object.
    #[must_use]
    pub fn advice(&self) -> Vec<(String, String)> {
        let of_workloads = self.workload_updates(ConditionStatus::True).into_iter();
        let of_workloads = of_workloads.filter(|(_, update)| update.type_ == IGNORED);
        let configs = self.stores.external_auth_configs.list(None).into_iter();
        let of_configs = configs.filter_map(|(key, config)| {
            let update = config.identities()?;
            Some((ObjectKey::new(Kind::MCPExternalAuthConfig, key), update))
        });
        let of_configs = of_configs.filter(|(_, update)| update.status == ConditionStatus::True);
        let advice = of_workloads.chain(of_configs);
        let mut advice: Vec<_> =
            advice.map(|(object, update)| (object.to_string(), update.message)).collect();
        advice.sort();
        advice
    }

    fn workload_updates(&self, status: ConditionStatus) -> Vec<(ObjectKey, ConditionUpdate)> {
        let mut updates = self.updates_of::<MCPServer>();
        updates.extend(self.updates_of::<MCPRemoteProxy>());
        updates.retain(|(_, update)| update.status == status);
        updates
    }

    fn updates_of<W: Workload>(&self) -> Vec<(ObjectKey, ConditionUpdate)> {
        let workloads = W::store(&self.stores).list(None).into_iter();
        let updates = workloads.flat_map(|(key, workload)| {
            let object = ObjectKey::new(W::KIND, key);
            let mut lookup = Lookup::new(&self.stores, object.clone());
            let updates = judge(&mut lookup, &workload.auth());
            lookup.finish();
            updates.into_iter().map(move |update| (object.clone(), update))
        });
        updates.collect()
    }
}

const IGNORED: &str =
    <vmcp_api::AuthzPrimaryUpstreamProviderIgnored as vmcp_api::condition::ConditionReason>::TYPE;
