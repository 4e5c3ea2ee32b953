//! Changes of a cluster, to each of which the operator answers with writes.

use serde_json::{Value, json};

use super::optional_objects::{ask_for_all, define_kinds};
use super::support::{Cluster, resource_of, server};

/// Change of a cluster that has a group with the entry `weather`, its Secret, and the servers `a` and `b`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The first server, in a cluster without any.
    FirstServer,
    /// Backends from discovery, which changes ConfigMap, Role and pods.
    Discovery,
    Replicas,
    /// A ServiceAccount of the user, which replaces the one of the operator.
    ServiceAccount,
    SecretRotation,
    NewMember,
    EmbeddingServer,
    Deletion,
    /// Configuration of each kind, a definition, and a workload with a mistake.
    NewConfigs,
    ConfigEdit,
    /// Of configuration to which nothing refers.
    ConfigDeletion,
    /// Of configuration to which an entry refers.
    BlockedDeletion,
    /// All objects that a server has only if its spec asks for them.
    OptionalObjects,
}

// === impl Change ===

impl Change {
    pub(crate) const ALL: [Self; 13] = [
        Self::FirstServer,
        Self::Discovery,
        Self::Replicas,
        Self::ServiceAccount,
        Self::SecretRotation,
        Self::NewMember,
        Self::EmbeddingServer,
        Self::Deletion,
        Self::NewConfigs,
        Self::ConfigEdit,
        Self::ConfigDeletion,
        Self::BlockedDeletion,
        Self::OptionalObjects,
    ];

    /// Creates the cluster before the change, with an operator that has nothing left to write.
    pub(crate) async fn cluster(self) -> Cluster {
        let mut cluster = Cluster::new();
        define_kinds(&cluster);
        cluster.put_group();
        cluster.start().await;
        put_auth_config(&cluster, "X-Key");
        cluster.put(resource_of("MCPToolConfig", "selection", json!({"toolsFilter": ["read"]})));
        put_secret(&cluster, "b2xk");
        put_entry(&cluster, "weather");
        if !matches!(self, Self::FirstServer) {
            put_server(&cluster, "a", |_| {});
            put_server(&cluster, "b", |_| {});
        }
        cluster.settle().await;
        cluster.take_writes();
        cluster
    }

    pub(crate) async fn make(self, cluster: &Cluster) {
        match self {
            Self::FirstServer => put_server(cluster, "a", |_| {}),
            Self::Discovery => put_server(cluster, "a", |spec| {
                spec["outgoingAuth"]["source"] = "discovered".into();
            }),
            Self::Replicas => put_server(cluster, "a", |spec| spec["replicas"] = 3.into()),
            Self::ServiceAccount => {
                put_server(cluster, "a", |spec| spec["serviceAccount"] = "mine".into());
            }
            Self::SecretRotation => put_secret(cluster, "bmV3"),
            Self::NewMember => put_entry(cluster, "traffic"),
            Self::EmbeddingServer => cluster.put(json!({
                "apiVersion": "vmcp.dev/v1beta1", "kind": "EmbeddingServer", "metadata": {"name": "embed"},
                "spec": {},
            })),
            Self::Deletion => cluster.delete("VirtualMCPServer", "a").await,
            Self::NewConfigs => put_configs(cluster),
            Self::ConfigEdit => put_auth_config(cluster, "X-Other"),
            Self::ConfigDeletion => cluster.delete("MCPToolConfig", "selection").await,
            Self::BlockedDeletion => cluster.delete("MCPExternalAuthConfig", "key").await,
            Self::OptionalObjects => put_server(cluster, "a", ask_for_all),
        }
    }
}

fn put_auth_config(cluster: &Cluster, header: &str) {
    let reference = json!({"name": "credentials", "key": "token"});
    let injection = json!({"headerName": header, "valueSecretRef": reference});
    let spec = json!({"type": "headerInjection", "headerInjection": injection});
    cluster.put(resource_of("MCPExternalAuthConfig", "key", spec));
}

fn put_configs(cluster: &Cluster) {
    let inline = json!({"issuer": "ftp://id.example.com", "clientId": "tools"});
    cluster.put(resource_of("MCPOIDCConfig", "idp", json!({"type": "inline", "inline": inline})));
    let prometheus = json!({"prometheus": {"enabled": true}});
    cluster.put(resource_of("MCPTelemetryConfig", "metrics", prometheus));
    let tool = json!({"name": "report", "steps": [{"id": "a", "tool": "b.c"}]});
    cluster.put(resource_of("VirtualMCPCompositeToolDefinition", "report", tool));
    let server = json!({"image": "i", "authServerRef": {"name": "key"}});
    cluster.put(resource_of("MCPServer", "issuer", server));
}

fn put_secret(cluster: &Cluster, token: &str) {
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "credentials"}, "data": {"token": token},
    }));
}

fn put_entry(cluster: &Cluster, name: &str) {
    cluster.put(json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServerEntry", "metadata": {"name": name},
        "spec": {
            "remoteUrl": format!("https://{name}.example/mcp"), "transport": "streamable-http",
            "groupRef": {"name": "tools"}, "externalAuthConfigRef": {"name": "key"},
        },
    }));
}

fn put_server(cluster: &Cluster, name: &str, change: impl FnOnce(&mut Value)) {
    cluster.put(server(name, |spec| {
        spec["outgoingAuth"] = json!({"source": "inline", "default": {"type": "discovered"}});
        spec["replicas"] = 1.into();
        change(spec);
    }));
}
