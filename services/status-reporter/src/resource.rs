//! Requests for the VirtualMCPServer.

use std::fmt;

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use vmcp_api::VirtualMCPServer;

use crate::status::PodStatus;

/// Field manager of the pods.
const FIELD_MANAGER: &str = "vmcp";

/// Requests for one VirtualMCPServer.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    api: Api<DynamicObject>,
    kind: ApiResource,
    namespace: String,
    name: String,
}

/// The resource as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    pub(crate) uid: Option<String>,
    pub(crate) generation: Option<i64>,
    pub(crate) status: PodStatus,
}

// === impl Resource ===

impl Resource {
    pub(crate) fn new(client: Client, namespace: &str, name: &str) -> Self {
        let kind = ApiResource::erase::<VirtualMCPServer>(&());
        let api = Api::namespaced_with(client, namespace, &kind);
        Self { api, kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Reads the resource. `None` if it does not exist.
    pub(crate) async fn read(&self) -> kube::Result<Option<Present>> {
        Ok(self.api.get_opt(&self.name).await?.map(present))
    }

    /// Applies the status of the pods, and returns it as it is then.
    pub(crate) async fn apply(
        &self,
        uid: Option<&str>,
        status: &PodStatus,
    ) -> kube::Result<PodStatus> {
        // With the uid, the status of a deleted object does not reach one of the same name.
        let object = json!({
            "apiVersion": self.kind.api_version, "kind": self.kind.kind,
            "metadata": {"name": self.name, "namespace": self.namespace, "uid": uid},
            "status": status,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let written =
            self.api.patch_status(&self.name, &parameters, &Patch::Apply(&object)).await?;
        Ok(present(written).status)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name)
    }
}

fn present(object: DynamicObject) -> Present {
    let DynamicObject { types: _, metadata, mut data } = object;
    // A status that cannot be read is replaced.
    let status = serde_json::from_value(data["status"].take()).unwrap_or_default();
    Present {
        uid: metadata.uid,
        generation: metadata.generation,
        status: PodStatus::into_own(status),
    }
}
