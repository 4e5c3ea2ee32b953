//! State that a cluster gives to resources, and that manifests do not have.

use serde_json::{Value, json};
use vmcp_api::conversion::ClusterDefaults;
use vmcp_api::names::embedding_url;

use crate::key::{Key, Kind};

/// Replaces the status of a resource by that of a resource without mistakes. The addresses of MCPServers and MCPRemoteProxies stay:
/// nothing else tells them.
pub(super) fn assume(kind: Kind, key: &Key, object: &mut Value, defaults: &ClusterDefaults) {
    let status = match kind {
        Kind::MCPServer | Kind::MCPRemoteProxy => return,
        Kind::MCPGroup => json!({"phase": "Ready"}),
        Kind::MCPServerEntry => json!({"phase": "Valid"}),
        Kind::EmbeddingServer => embedding_status(key, object, defaults),
        _ => Value::Null,
    };
    let Some(fields) = object.as_object_mut() else { return };
    if status.is_null() {
        fields.remove("status");
    } else {
        fields.insert("status".to_owned(), status);
    }
}

fn embedding_status(key: &Key, object: &Value, defaults: &ClusterDefaults) -> Value {
    let port = object["spec"]["port"].as_i64().and_then(|port| i32::try_from(port).ok());
    let url = port.map(|port| embedding_url(&key.name, &key.namespace, port, defaults));
    json!({"phase": "Ready", "readyReplicas": 1, "url": url})
}
