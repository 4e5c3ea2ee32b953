//! EmbeddingServers: what the operator would generate for each.

use serde_json::Value;

use super::{Finding, Manifests};
use crate::key::{Kind, ObjectKey};
use crate::plan::{EmbeddingPlan, plan_embedding_server};

impl Manifests {
    /// Returns the objects of all EmbeddingServers without mistakes, sorted by namespace and name.
    #[must_use]
    pub fn render_embedding_servers(&self) -> Vec<Value> {
        let servers = self.stores.embedding_servers.list(None);
        let plans =
            servers.iter().filter_map(|(_, one)| plan_embedding_server(one, &self.settings).ok());
        plans.flat_map(EmbeddingPlan::into_objects).collect()
    }

    /// Returns the mistakes that show when the objects are planned.
    pub(super) fn embedding_findings(&self) -> Vec<Finding> {
        let servers = self.stores.embedding_servers.list(None);
        let errors = servers.into_iter().filter_map(|(key, server)| {
            let error = plan_embedding_server(&server, &self.settings).err()?;
            let object = ObjectKey::new(Kind::EmbeddingServer, key);
            Some(self.finding(&object, error.path, error.message))
        });
        errors.collect()
    }
}
