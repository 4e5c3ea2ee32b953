//! The watched kinds: where each is kept, and what refers to it.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use vmcp_api::{
    EmbeddingServer, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig, MCPRemoteProxy,
    MCPRemoteProxyStatus, MCPServer, MCPServerEntry, MCPServerStatus, MCPTelemetryConfig,
    MCPToolConfig, VirtualMCPCompositeToolDefinition, VirtualMCPServer,
};

use super::{Owned, Starter, Stores, Watched, WatchedWhole};
use crate::dependencies::Topic;
use crate::external_kinds::{HTTPRoute, ServiceMonitor};
use crate::identities::Identities;
use crate::key::{Key, Kind, ObjectKey};
use crate::references::Referrer;
use crate::store::Store;

/// Label selector of the objects that the operator makes.
const MADE_BY_OPERATOR: &str = "app.kubernetes.io/managed-by=vmcp-operator";

/// Starts the watches of a namespace, or of all of them.
pub(super) fn start(starter: &mut Starter, namespace: Option<&str>) {
    starter.whole::<VirtualMCPServer>(namespace, None);
    starter.whole::<MCPGroup>(namespace, None);
    starter.whole::<MCPServer>(namespace, None);
    starter.whole::<MCPRemoteProxy>(namespace, None);
    starter.whole::<MCPServerEntry>(namespace, None);
    starter.whole::<MCPExternalAuthConfig>(namespace, None);
    starter.whole::<MCPOIDCConfig>(namespace, None);
    starter.whole::<MCPTelemetryConfig>(namespace, None);
    starter.whole::<MCPToolConfig>(namespace, None);
    starter.whole::<VirtualMCPCompositeToolDefinition>(namespace, None);
    starter.whole::<EmbeddingServer>(namespace, None);
    starter.metadata::<ConfigMap>(namespace, selector(Kind::ConfigMap));
    starter.metadata::<Secret>(namespace, selector(Kind::Secret));
    starter.metadata::<ServiceAccount>(namespace, selector(Kind::ServiceAccount));
    starter.metadata::<Role>(namespace, selector(Kind::Role));
    starter.metadata::<RoleBinding>(namespace, selector(Kind::RoleBinding));
    starter.whole::<Deployment>(namespace, selector(Kind::Deployment));
    starter.whole::<StatefulSet>(namespace, selector(Kind::StatefulSet));
    starter.metadata::<Service>(namespace, selector(Kind::Service));
    starter.metadata::<PodDisruptionBudget>(namespace, selector(Kind::PodDisruptionBudget));
    starter.metadata::<NetworkPolicy>(namespace, selector(Kind::NetworkPolicy));
    starter.metadata::<Ingress>(namespace, selector(Kind::Ingress));
    starter.optional::<HTTPRoute>(namespace, selector(Kind::HTTPRoute));
    starter.optional::<ServiceMonitor>(namespace, selector(Kind::ServiceMonitor));
}

/// Returns the label selector of the watch of a kind that the operator writes.
fn selector(kind: Kind) -> Option<&'static str> {
    (!kind.is_watched_without_label()).then_some(MADE_BY_OPERATOR)
}

macro_rules! resources {
    ($($kind:ident in $store:ident { $($part:item)* })+) => {
        $(
            impl Watched for $kind {
                const KIND: Kind = Kind::$kind;
                type Kept = Self;

                fn store(stores: &Stores) -> &Store<Self> {
                    &stores.$store
                }

                $($part)*
            }

            impl WatchedWhole for $kind {
                fn keep(mut self) -> Self {
                    // The largest parts of the metadata, which no reconcile reads.
                    self.metadata.managed_fields = None;
                    self.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
                    self
                }
            }
        )+
    };
}

resources! {
    VirtualMCPServer in servers {
        fn topics(_: &Key, server: &Self) -> BTreeSet<Topic> {
            Identities::of(server).topics()
        }

        fn references(key: &Key, server: &Self) -> BTreeSet<Topic> {
            server.reference_topics(key)
        }
    }
    MCPGroup in groups {
        fn topics(_: &Key, _: &Self) -> BTreeSet<Topic> {
            BTreeSet::new()
        }
    }
    MCPServer in mcp_servers {
        fn topics(key: &Key, server: &Self) -> BTreeSet<Topic> {
            members(key, server.spec.group_ref.as_ref().map(|group| group.name.as_str()))
        }

        fn references(key: &Key, server: &Self) -> BTreeSet<Topic> {
            server.reference_topics(key)
        }

        fn reads_same(old: &Self, new: &Self) -> bool {
            let status = |server: &Self| MCPServerStatus {
                conditions: Vec::new(),
                ..server.status.clone().unwrap_or_default()
            };
            are_same_metadata(&old.metadata, &new.metadata)
                && old.spec == new.spec
                && status(old) == status(new)
        }
    }
    MCPRemoteProxy in remote_proxies {
        fn topics(key: &Key, proxy: &Self) -> BTreeSet<Topic> {
            members(key, proxy.spec.group_ref.as_ref().map(|group| group.name.as_str()))
        }

        fn references(key: &Key, proxy: &Self) -> BTreeSet<Topic> {
            proxy.reference_topics(key)
        }

        fn reads_same(old: &Self, new: &Self) -> bool {
            let status = |proxy: &Self| MCPRemoteProxyStatus {
                conditions: Vec::new(),
                ..proxy.status.clone().unwrap_or_default()
            };
            are_same_metadata(&old.metadata, &new.metadata)
                && old.spec == new.spec
                && status(old) == status(new)
        }
    }
    MCPServerEntry in entries {
        fn topics(key: &Key, entry: &Self) -> BTreeSet<Topic> {
            members(key, Some(&entry.spec.group_ref.name))
        }

        fn references(key: &Key, entry: &Self) -> BTreeSet<Topic> {
            entry.reference_topics(key)
        }
    }
    MCPExternalAuthConfig in external_auth_configs {
        fn topics(_: &Key, _: &Self) -> BTreeSet<Topic> {
            BTreeSet::new()
        }

        // A server judges what it refers to by itself, and reads neither status nor finalizers.
        fn reads_same(old: &Self, new: &Self) -> bool {
            old.spec == new.spec
        }
    }
    MCPOIDCConfig in oidc_configs {
        fn topics(_: &Key, _: &Self) -> BTreeSet<Topic> {
            BTreeSet::new()
        }

        // A server judges what it refers to by itself, and reads neither status nor finalizers.
        fn reads_same(old: &Self, new: &Self) -> bool {
            old.spec == new.spec
        }
    }
    MCPTelemetryConfig in telemetry_configs {
        fn topics(_: &Key, _: &Self) -> BTreeSet<Topic> {
            BTreeSet::new()
        }

        // A server judges what it refers to by itself, and reads neither status nor finalizers.
        fn reads_same(old: &Self, new: &Self) -> bool {
            old.spec == new.spec
        }
    }
    MCPToolConfig in tool_configs {
        fn topics(_: &Key, _: &Self) -> BTreeSet<Topic> {
            BTreeSet::new()
        }

        // A server judges what it refers to by itself, and reads neither status nor finalizers.
        fn reads_same(old: &Self, new: &Self) -> bool {
            old.spec == new.spec
        }
    }
    VirtualMCPCompositeToolDefinition in composite_tool_definitions {
        fn topics(_: &Key, _: &Self) -> BTreeSet<Topic> {
            BTreeSet::new()
        }

        // A server judges what it refers to by itself, and reads neither status nor finalizers.
        fn reads_same(old: &Self, new: &Self) -> bool {
            old.spec == new.spec
        }
    }
    EmbeddingServer in embedding_servers {
        fn topics(_: &Key, _: &Self) -> BTreeSet<Topic> {
            BTreeSet::new()
        }
    }
}

/// Returns whether the metadata that becomes metadata of a backend is equal.
fn are_same_metadata(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.labels == new.labels
        && old.annotations == new.annotations
        && old.uid == new.uid
        && old.deletion_timestamp == new.deletion_timestamp
}

fn members(key: &Key, group: Option<&str>) -> BTreeSet<Topic> {
    group.into_iter().map(|group| Topic::Members(key.sibling(group))).collect()
}

macro_rules! owned {
    ($($kind:ident in $store:ident;)+) => {
        $(
            impl Watched for $kind {
                const KIND: Kind = Kind::$kind;
                type Kept = Owned;

                fn store(stores: &Stores) -> &Store<Owned> {
                    &stores.$store
                }

                fn topics(key: &Key, kept: &Owned) -> BTreeSet<Topic> {
                    owner(key, kept)
                }
            }
        )+
    };
}

owned! {
    ConfigMap in config_maps;
    Secret in secrets;
    ServiceAccount in service_accounts;
    Role in roles;
    RoleBinding in role_bindings;
    Deployment in deployments;
    StatefulSet in stateful_sets;
    Service in services;
    PodDisruptionBudget in disruption_budgets;
    NetworkPolicy in network_policies;
    Ingress in ingresses;
    HTTPRoute in http_routes;
    ServiceMonitor in service_monitors;
}

impl WatchedWhole for Deployment {
    fn keep(self) -> Owned {
        Owned::of_deployment(self)
    }
}

impl WatchedWhole for StatefulSet {
    fn keep(self) -> Owned {
        Owned::of_stateful_set(self)
    }
}

/// A change of an owned object concerns its owner, which depends on itself.
fn owner(key: &Key, kept: &Owned) -> BTreeSet<Topic> {
    let owner = kept.controller.as_ref().and_then(|controller| {
        let kinds = [Kind::VirtualMCPServer, Kind::EmbeddingServer];
        let kind = kinds.into_iter().find(|kind| kind.as_str() == &*controller.kind)?;
        Some(ObjectKey::new(kind, key.sibling(&controller.name)))
    });
    owner.into_iter().map(Topic::Object).collect()
}
