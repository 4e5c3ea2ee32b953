//! Objects that the operator watches, and what their changes lead to.

mod filler;
mod kinds;
mod owned;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch as signal;
use tokio::task::JoinSet;
use vmcp_api::{
    EmbeddingServer, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig, MCPRemoteProxy, MCPServer,
    MCPServerEntry, MCPTelemetryConfig, MCPToolConfig, VirtualMCPCompositeToolDefinition,
    VirtualMCPServer,
};

use self::filler::Filler;
pub(crate) use self::owned::{MANAGED_BY, Owned, Rollout};
use crate::dependencies::{Dependencies, Topic};
use crate::key::{Key, Kind, ObjectKey};
use crate::queue::Queue;
use crate::store::{Change, Store, Versioned};
use crate::watch::{Metadata, Optional, Whole, watch};
use vmcp_lease::Environment;

/// Objects that the operator watches.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(crate) servers: Store<VirtualMCPServer>,
    pub(crate) groups: Store<MCPGroup>,
    pub(crate) mcp_servers: Store<MCPServer>,
    pub(crate) remote_proxies: Store<MCPRemoteProxy>,
    pub(crate) entries: Store<MCPServerEntry>,
    pub(crate) external_auth_configs: Store<MCPExternalAuthConfig>,
    pub(crate) oidc_configs: Store<MCPOIDCConfig>,
    pub(crate) telemetry_configs: Store<MCPTelemetryConfig>,
    pub(crate) tool_configs: Store<MCPToolConfig>,
    pub(crate) composite_tool_definitions: Store<VirtualMCPCompositeToolDefinition>,
    pub(crate) embedding_servers: Store<EmbeddingServer>,
    pub(crate) config_maps: Store<Owned>,
    pub(crate) secrets: Store<Owned>,
    pub(crate) service_accounts: Store<Owned>,
    pub(crate) roles: Store<Owned>,
    pub(crate) role_bindings: Store<Owned>,
    pub(crate) deployments: Store<Owned>,
    pub(crate) stateful_sets: Store<Owned>,
    pub(crate) services: Store<Owned>,
    pub(crate) disruption_budgets: Store<Owned>,
    pub(crate) network_policies: Store<Owned>,
    pub(crate) ingresses: Store<Owned>,
    pub(crate) http_routes: Store<Owned>,
    pub(crate) service_monitors: Store<Owned>,
    pub(crate) dependencies: Dependencies,
    pub(crate) queue: Queue,
    /// Number of watches that have not listed their objects yet; `None` before any was started.
    unlisted: signal::Sender<Option<usize>>,
    /// Number of lists so far. The API server may have older data after one, with resource versions that repeat.
    lists: AtomicU64,
}

/// Object of a watched kind.
pub(crate) trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    const KIND: Kind;

    /// Part of an object that is kept.
    type Kept: Send + Sync + 'static;

    fn store(stores: &Stores) -> &Store<Self::Kept>;

    /// Returns the topics of an object besides its name.
    fn topics(key: &Key, kept: &Self::Kept) -> BTreeSet<Topic>;

    /// Returns the topics of the objects that this one refers to. They are concerned by a reference that comes or goes, and by no
    /// other change.
    fn references(_key: &Key, _kept: &Self::Kept) -> BTreeSet<Topic> {
        BTreeSet::new()
    }

    /// Returns whether objects that depend on this one read the same in both states of it.
    fn reads_same(_old: &Self::Kept, _new: &Self::Kept) -> bool {
        false
    }
}

/// Watched object whose whole content is read.
pub(crate) trait WatchedWhole: Watched {
    fn keep(self) -> Self::Kept;
}

// === impl Stores ===

impl Default for Stores {
    fn default() -> Self {
        Self {
            servers: Store::default(),
            groups: Store::default(),
            mcp_servers: Store::default(),
            remote_proxies: Store::default(),
            entries: Store::default(),
            external_auth_configs: Store::default(),
            oidc_configs: Store::default(),
            telemetry_configs: Store::default(),
            tool_configs: Store::default(),
            composite_tool_definitions: Store::default(),
            embedding_servers: Store::default(),
            config_maps: Store::default(),
            secrets: Store::default(),
            service_accounts: Store::default(),
            roles: Store::default(),
            role_bindings: Store::default(),
            deployments: Store::default(),
            stateful_sets: Store::default(),
            services: Store::default(),
            disruption_budgets: Store::default(),
            network_policies: Store::default(),
            ingresses: Store::default(),
            http_routes: Store::default(),
            service_monitors: Store::default(),
            dependencies: Dependencies::default(),
            queue: Queue::default(),
            unlisted: signal::Sender::new(None),
            lists: AtomicU64::new(0),
        }
    }
}

impl Stores {
    /// Starts the watches of all kinds in some namespaces, or in all of them. They end with the returned set.
    pub(crate) fn watch(
        self: &Arc<Self>,
        client: &Client,
        namespaces: &[String],
        environment: &Environment,
    ) -> JoinSet<()> {
        self.expect_list();
        let mut starter = Starter {
            stores: Arc::clone(self),
            client: client.clone(),
            environment: environment.clone(),
            tasks: JoinSet::new(),
        };
        let scopes: Vec<Option<&str>> = match namespaces {
            [] => vec![None],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        for scope in scopes {
            kinds::start(&mut starter, scope);
        }
        // The count of this function itself: without it, the first watches could seem to be all.
        self.count_list();
        starter.tasks
    }

    /// Waits until all watches have listed their objects.
    pub(crate) async fn wait_until_listed(&self) {
        let mut unlisted = self.unlisted.subscribe();
        // The sender lives as long as `self`.
        drop(unlisted.wait_for(|unlisted| *unlisted == Some(0)).await);
    }

    /// Returns whether all watches have listed their objects.
    pub(crate) fn are_listed(&self) -> bool {
        *self.unlisted.borrow() == Some(0)
    }

    /// Queues the objects that depend on the old or new state of a changed object, and the object itself if a controller
    /// reconciles its kind.
    pub(crate) fn follow<W: Watched>(&self, change: &Change<W::Kept>) {
        let object = ObjectKey::new(W::KIND, change.key.clone());
        let mut targets = self.concerned::<W>(change);
        if W::KIND.has_controller() {
            if change.new.is_some() {
                targets.insert(object);
            } else {
                self.dependencies.set(&object, BTreeSet::new());
                targets.remove(&object);
            }
        }
        for target in targets {
            self.queue.add(target);
        }
    }

    /// Returns the objects that depend on the old or new state of a changed object.
    fn concerned<W: Watched>(&self, change: &Change<W::Kept>) -> BTreeSet<ObjectKey> {
        let Change { key, old, new } = change;
        let references = |state: &Option<Arc<W::Kept>>| match state {
            Some(state) => W::references(key, state),
            None => BTreeSet::new(),
        };
        let mut topics: BTreeSet<_> =
            references(old).symmetric_difference(&references(new)).cloned().collect();
        let reads_same =
            old.as_ref().zip(new.as_ref()).is_some_and(|(old, new)| W::reads_same(old, new));
        if !reads_same {
            let states = [old, new].into_iter().flatten();
            topics.extend(states.flat_map(|state| W::topics(key, state)));
            topics.insert(Topic::Object(ObjectKey::new(W::KIND, key.clone())));
        }
        topics.iter().flat_map(|topic| self.dependencies.dependents(topic)).collect()
    }

    /// Stores an object whose status or finalizers the operator wrote, so that the next reconcile does not repeat it. Queues what depends on
    /// the object but itself: the watch will not tell of this version again.
    pub(crate) fn record_status<W: Watched>(&self, key: Key, written: Versioned<W::Kept>) {
        let object = ObjectKey::new(W::KIND, key.clone());
        let Some(change) = W::store(self).put(key, written) else { return };
        for target in self.concerned::<W>(&change).into_iter().filter(|target| *target != object) {
            self.queue.add(target);
        }
    }

    /// Stores the response of a write, so that the next reconcile does not repeat it. Queues the dependents of the object
    /// but its writer.
    pub(crate) fn record<T>(
        &self,
        store: &Store<T>,
        object: &ObjectKey,
        written: Versioned<T>,
        writer: &ObjectKey,
    ) {
        if store.put(object.key.clone(), written).is_some() {
            let dependents = self.dependencies.dependents(&Topic::Object(object.clone()));
            for target in dependents.into_iter().filter(|target| target != writer) {
                self.queue.add(target);
            }
        }
    }

    /// Returns the store of a kind that the operator writes.
    pub(crate) fn owned(&self, kind: Kind) -> Option<&Store<Owned>> {
        match kind {
            Kind::ConfigMap => Some(&self.config_maps),
            Kind::Secret => Some(&self.secrets),
            Kind::ServiceAccount => Some(&self.service_accounts),
            Kind::Role => Some(&self.roles),
            Kind::RoleBinding => Some(&self.role_bindings),
            Kind::Deployment => Some(&self.deployments),
            Kind::StatefulSet => Some(&self.stateful_sets),
            Kind::Service => Some(&self.services),
            Kind::PodDisruptionBudget => Some(&self.disruption_budgets),
            Kind::NetworkPolicy => Some(&self.network_policies),
            Kind::Ingress => Some(&self.ingresses),
            Kind::HTTPRoute => Some(&self.http_routes),
            Kind::ServiceMonitor => Some(&self.service_monitors),
            Kind::VirtualMCPServer
            | Kind::MCPGroup
            | Kind::MCPServer
            | Kind::MCPRemoteProxy
            | Kind::MCPServerEntry
            | Kind::MCPExternalAuthConfig
            | Kind::MCPOIDCConfig
            | Kind::MCPTelemetryConfig
            | Kind::MCPToolConfig
            | Kind::VirtualMCPCompositeToolDefinition
            | Kind::EmbeddingServer => None,
        }
    }

    /// Returns a number that changes with each list.
    pub(crate) fn epoch(&self) -> u64 {
        self.lists.load(Ordering::Acquire)
    }

    /// Returns the number of objects of each kind.
    pub(crate) fn counts(&self) -> [(Kind, usize); 24] {
        [
            (Kind::VirtualMCPServer, self.servers.len()),
            (Kind::MCPGroup, self.groups.len()),
            (Kind::MCPServer, self.mcp_servers.len()),
            (Kind::MCPRemoteProxy, self.remote_proxies.len()),
            (Kind::MCPServerEntry, self.entries.len()),
            (Kind::MCPExternalAuthConfig, self.external_auth_configs.len()),
            (Kind::MCPOIDCConfig, self.oidc_configs.len()),
            (Kind::MCPTelemetryConfig, self.telemetry_configs.len()),
            (Kind::MCPToolConfig, self.tool_configs.len()),
            (Kind::VirtualMCPCompositeToolDefinition, self.composite_tool_definitions.len()),
            (Kind::EmbeddingServer, self.embedding_servers.len()),
            (Kind::ConfigMap, self.config_maps.len()),
            (Kind::Secret, self.secrets.len()),
            (Kind::ServiceAccount, self.service_accounts.len()),
            (Kind::Role, self.roles.len()),
            (Kind::RoleBinding, self.role_bindings.len()),
            (Kind::Deployment, self.deployments.len()),
            (Kind::StatefulSet, self.stateful_sets.len()),
            (Kind::Service, self.services.len()),
            (Kind::PodDisruptionBudget, self.disruption_budgets.len()),
            (Kind::NetworkPolicy, self.network_policies.len()),
            (Kind::Ingress, self.ingresses.len()),
            (Kind::HTTPRoute, self.http_routes.len()),
            (Kind::ServiceMonitor, self.service_monitors.len()),
        ]
    }

    fn expect_list(&self) {
        self.unlisted.send_modify(|unlisted| *unlisted = Some(unlisted.unwrap_or(0) + 1));
    }

    fn count_list(&self) {
        self.unlisted.send_modify(|unlisted| {
            *unlisted = unlisted.map(|count| count.saturating_sub(1));
        });
    }
}

/// Starts watches.
struct Starter {
    stores: Arc<Stores>,
    client: Client,
    environment: Environment,
    tasks: JoinSet<()>,
}

// === impl Starter ===

impl Starter {
    fn whole<W: WatchedWhole>(&mut self, namespace: Option<&str>, selector: Option<&'static str>) {
        let feed = Whole(self.api::<W>(namespace));
        let filler = self.filler::<W>(namespace);
        let environment = self.environment.clone();
        self.stores.expect_list();
        self.tasks.spawn(async move { watch(feed, selector, filler, environment).await });
    }

    fn metadata<W: Watched<Kept = Owned>>(
        &mut self,
        namespace: Option<&str>,
        selector: Option<&'static str>,
    ) {
        let feed = Metadata(self.api::<W>(namespace));
        let filler = self.filler::<W>(namespace);
        let environment = self.environment.clone();
        self.stores.expect_list();
        self.tasks.spawn(async move { watch(feed, selector, filler, environment).await });
    }

    /// Watches a kind that not every cluster has.
    fn optional<W: Watched<Kept = Owned>>(
        &mut self,
        namespace: Option<&str>,
        selector: Option<&'static str>,
    ) {
        let feed = Optional(Metadata(self.api::<W>(namespace)));
        let filler = self.filler::<W>(namespace);
        let environment = self.environment.clone();
        self.stores.expect_list();
        self.tasks.spawn(async move { watch(feed, selector, filler, environment).await });
    }

    fn api<W: Watched>(&self, namespace: Option<&str>) -> Api<W> {
        match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn filler<W: Watched>(&self, namespace: Option<&str>) -> Filler<W> {
        Filler::new(Arc::clone(&self.stores), namespace)
    }
}

/// Returns the resource version as a number; 0 if it is none.
pub(crate) fn version_of(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    fn object<W: WatchedWhole<Kept = W>>(
        version: u64,
        name: &str,
        mut object: Value,
    ) -> Versioned<W> {
        object["metadata"] = json!({"name": name, "namespace": "ns"});
        let value: W = serde_json::from_value(object).unwrap();
        Versioned { version, value: Arc::new(value.keep()) }
    }

    fn config(filter: &str, status: &Value) -> Value {
        json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPToolConfig",
            "spec": {"toolsFilter": [filter]}, "status": status,
        })
    }

    fn workload(config: &str) -> Value {
        json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServer",
            "spec": {"image": "i", "toolConfigRef": {"name": config}},
        })
    }

    /// Returns the number of objects that wait, and takes them.
    async fn take(stores: &Stores) -> usize {
        let count = stores.queue.len();
        for _ in 0..count {
            let target = stores.queue.next().await;
            stores.queue.finish(&target, None);
        }
        count
    }

    #[tokio::test]
    async fn dependents_of_config_follow_its_spec_alone() {
        let stores = Stores::default();
        let server = ObjectKey::new(Kind::VirtualMCPServer, key("a"));
        let topic = Topic::Object(ObjectKey::new(Kind::MCPToolConfig, key("c")));
        stores.dependencies.add(&server, &topic);
        let write = |version, filter, status: &Value| {
            let written = object::<MCPToolConfig>(version, "c", config(filter, status));
            stores.record_status::<MCPToolConfig>(key("c"), written);
        };
        write(1, "one", &json!({}));
        assert_eq!(take(&stores).await, 1);
        write(2, "one", &json!({"configHash": "x"}));
        assert_eq!(take(&stores).await, 0);
        write(3, "two", &json!({"configHash": "x"}));
        assert_eq!(take(&stores).await, 1);
    }

    #[tokio::test]
    async fn config_follows_references_that_come_or_go() {
        let stores = Stores::default();
        for name in ["c", "d"] {
            let config = ObjectKey::new(Kind::MCPToolConfig, key(name));
            stores.dependencies.add(&config, &Topic::Referrers(config.clone()));
        }
        let write = |version, config: &str| {
            let mut object = object::<MCPServer>(version, "w", workload(config));
            if version == 4 {
                let server = Arc::get_mut(&mut object.value).unwrap();
                server.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
            }
            stores.record_status::<MCPServer>(key("w"), object);
        };
        write(1, "c");
        assert_eq!(take(&stores).await, 1);
        write(2, "c");
        assert_eq!(take(&stores).await, 0);
        write(3, "d");
        assert_eq!(take(&stores).await, 2);
        write(4, "d");
        assert_eq!(take(&stores).await, 1, "a workload that is being deleted refers to nothing");
    }
}
