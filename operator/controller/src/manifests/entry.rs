//! Mistakes of MCPServerEntries, whether a server has them or not.

use vmcp_api::MCPServerEntry;
use vmcp_api::conversion::check_remote_url;

use super::{Finding, Manifests};
use crate::key::{Key, Kind, ObjectKey};

impl Manifests {
    /// Returns the mistakes of all entries.
    pub(super) fn entry_findings(&self) -> Vec<Finding> {
        let entries = self.stores.entries.list(None);
        entries.iter().flat_map(|(key, entry)| self.of_entry(key, entry)).collect()
    }

    fn of_entry(&self, key: &Key, entry: &MCPServerEntry) -> Vec<Finding> {
        let object = ObjectKey::new(Kind::MCPServerEntry, key.clone());
        let mut findings = Vec::new();
        let mut find = |path: &str, message: String| {
            findings.push(self.finding(&object, path.to_owned(), message));
        };
        let spec = &entry.spec;
        if let Err(reason) = check_remote_url(&spec.remote_url, spec.allow_private_endpoint) {
            find("spec.remoteUrl", reason);
        }
        let group = key.sibling(&spec.group_ref.name);
        if self.stores.groups.get(&group).is_none() {
            find("spec.groupRef.name", format!("no manifest has MCPGroup {group}"));
        }
        if let Some(reference) = &spec.external_auth_config_ref {
            let config = key.sibling(&reference.name);
            if self.stores.external_auth_configs.get(&config).is_none() {
                let message = format!("no manifest has MCPExternalAuthConfig {config}");
                find("spec.externalAuthConfigRef.name", message);
            }
        }
        findings
    }
}
