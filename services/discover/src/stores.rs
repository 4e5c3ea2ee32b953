//! Resources of the server's namespace, as the last list and the watch after it tell.

use std::{collections::BTreeMap, fmt::Debug, future::ready, sync::Arc};

use futures_util::{
    StreamExt as _,
    stream::{BoxStream, SelectAll, select_all},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, Store},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use vmcp_api::{
    MCPExternalAuthConfig, MCPRemoteProxy, MCPServer, MCPServerEntry, MCPToolConfig,
    VirtualMCPServer,
    conversion::{Available, Inputs, Member, MemberKind},
};

use crate::{
    DiscoveryProblem, Target, Unlisted,
    members::{MAX_MEMBERS, is_in_group, limit},
};

/// Number of watched kinds.
const KINDS: usize = 6;

/// Maximum number of objects of one kind. Those beyond are ignored.
const MAX_OBJECTS: usize = 16_384;

/// Stores of all kinds.
pub(crate) struct Stores {
    virtual_servers: Store<VirtualMCPServer>,
    servers: Store<MCPServer>,
    proxies: Store<MCPRemoteProxy>,
    entries: Store<MCPServerEntry>,
    external_auth_configs: Store<MCPExternalAuthConfig>,
    tool_configs: Store<MCPToolConfig>,
    /// Progress of each kind.
    progress: [Progress; KINDS],
}

/// Progress of the first list of a kind.
#[derive(Clone, Debug)]
struct Progress {
    resource: &'static str,
    is_listed: bool,
    /// Last error before that.
    error: Option<String>,
}

/// Change of the stores.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// All objects of the kind with this number are known.
    Listed(usize),
    /// One object changed.
    Object,
    /// A list or watch of the kind with this number failed.
    Failed(usize, String),
}

/// Inputs of a conversion, and the members that are too many.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) inputs: Inputs,
    pub(crate) surplus: Vec<(String, MemberKind)>,
}

/// Changes of all stores. They change only while this is polled.
pub(crate) type Changes = SelectAll<BoxStream<'static, Change>>;

impl Stores {
    /// Creates the stores of the target's namespace.
    pub(crate) fn new(client: &Client, target: &Target) -> (Self, Changes) {
        let Target { namespace, name, secrets: _ } = target;
        let all = watcher::Config::default();
        let own = all.clone().fields(&format!("metadata.name={name}"));
        let (virtual_servers, c0) = follow(0, client, namespace, own);
        let (servers, c1) = follow(1, client, namespace, all.clone());
        let (proxies, c2) = follow(2, client, namespace, all.clone());
        let (entries, c3) = follow(3, client, namespace, all.clone());
        let (external_auth_configs, c4) = follow(4, client, namespace, all.clone());
        let (tool_configs, c5) = follow(5, client, namespace, all);
        let resources: [_; KINDS] = [
            "virtualmcpservers",
            "mcpservers",
            "mcpremoteproxies",
            "mcpserverentries",
            "mcpexternalauthconfigs",
            "mcptoolconfigs",
        ];
        let stores = Self {
            virtual_servers,
            servers,
            proxies,
            entries,
            external_auth_configs,
            tool_configs,
            progress: resources.map(|resource| Progress {
                resource,
                is_listed: false,
                error: None,
            }),
        };
        (stores, select_all([c0, c1, c2, c3, c4, c5]))
    }

    /// Records a change.
    pub(crate) fn record(&mut self, change: Change) {
        match change {
            Change::Listed(kind) => self.progress[kind].is_listed = true,
            Change::Object => {}
            Change::Failed(kind, error) => self.progress[kind].error = Some(error),
        }
    }

    /// Returns `true` if all kinds were listed once.
    pub(crate) fn are_complete(&self) -> bool {
        self.progress.iter().all(|progress| progress.is_listed)
    }

    /// Returns the kinds that were not listed yet.
    pub(crate) fn problem(&self) -> DiscoveryProblem {
        let unlisted = self.progress.iter().filter(|progress| !progress.is_listed);
        let unlisted = unlisted.map(|Progress { resource, is_listed: _, error }| Unlisted {
            resource,
            error: error.clone(),
        });
        DiscoveryProblem::NotListed(unlisted.collect())
    }

    /// Returns the inputs of the conversion, with these files of secrets; `None` if the server does not exist.
    pub(crate) fn inputs(
        &self,
        name: &str,
        files: impl IntoIterator<Item = String>,
    ) -> Option<Found> {
        let own = self.virtual_servers.state().into_iter();
        let server = own.into_iter().find(|server| server.name_any() == name)?;
        let group = server.spec.group_ref.name.clone();
        let servers = self.servers.state().into_iter().map(Member::Server);
        let proxies = self.proxies.state().into_iter().map(Member::Proxy);
        let entries = self.entries.state().into_iter().map(Member::Entry);
        let all = servers.chain(proxies).chain(entries);
        let mut members: Vec<_> = all.filter(|member| is_in_group(member, &group)).collect();
        let surplus = limit(&mut members, MAX_MEMBERS);
        let inputs = Inputs {
            members,
            external_auth_configs: by_name(&self.external_auth_configs),
            tool_configs: by_name(&self.tool_configs),
            available: Available::from_files(files),
            ..Inputs::new(server)
        };
        Some(Found { inputs, surplus })
    }
}

fn by_name<K>(store: &Store<K>) -> BTreeMap<String, Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.state().into_iter().map(|object| (object.name_any(), object)).collect()
}

/// Returns the store of the kind with this number, and its changes.
fn follow<K>(
    kind: usize,
    client: &Client,
    namespace: &str,
    config: watcher::Config,
) -> (Store<K>, BoxStream<'static, Change>)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let (reader, writer) = reflector::store();
    let mut limit = Limit { store: reader.clone(), listed: 0, max: MAX_OBJECTS, is_reached: false };
    let events = watcher(api, config)
        // Retries wait up to 30 s, with jitter. Until a list succeeds, the store keeps what it had.
        .default_backoff()
        // The largest part of many objects, which no conversion reads.
        .modify(|object| object.meta_mut().managed_fields = None)
        .filter(move |event| ready(event.as_ref().map_or(true, |event| limit.admits(event))))
        .reflect(writer);
    let changes = events.filter_map(move |event| {
        ready(match event {
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone) => Some(Change::Listed(kind)),
            Ok(Event::Apply(_) | Event::Delete(_)) => Some(Change::Object),
            Err(error) => {
                let resource = K::plural(&());
                tracing::warn!(%resource, %error, "watch failed; the last known backends remain");
                Some(Change::Failed(kind, error.to_string()))
            }
        })
    });
    (reader, changes.boxed())
}

/// Limit of the number of objects in a store.
struct Limit<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    /// Objects of the list in progress, which the store does not have before its end.
    listed: usize,
    max: usize,
    is_reached: bool,
}

impl<K> Limit<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// Returns `false` for an object beyond the limit.
    fn admits(&mut self, event: &Event<K>) -> bool {
        let is_admitted = match event {
            Event::Init => {
                self.listed = 0;
                true
            }
            Event::InitApply(_) => {
                self.listed += 1;
                self.listed <= self.max
            }
            Event::InitDone | Event::Delete(_) => true,
            Event::Apply(object) => {
                let key = reflector::ObjectRef::from_obj(object);
                self.store.len() < self.max || self.store.get(&key).is_some()
            }
        };
        if !is_admitted && !std::mem::replace(&mut self.is_reached, true) {
            let (resource, max) = (K::plural(&()), self.max);
            tracing::warn!(%resource, max, "the namespace has too many objects; further ones are ignored");
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use vmcp_api::MCPToolConfig;

    use super::*;

    fn config(name: &str) -> MCPToolConfig {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPToolConfig",
            "metadata": {"name": name, "namespace": "default"}, "spec": {},
        }))
        .unwrap()
    }

    #[test]
    fn objects_beyond_limit_are_ignored() {
        let (store, mut writer) = reflector::store();
        let mut limit = Limit { store: store.clone(), listed: 0, max: 2, is_reached: false };
        let mut pass = |event: Event<MCPToolConfig>| {
            let is_admitted = limit.admits(&event);
            if is_admitted {
                writer.apply_watcher_event(&event);
            }
            is_admitted
        };
        for _ in 0..2 {
            assert!(pass(Event::Init));
            assert!(pass(Event::InitApply(config("a"))));
            assert!(pass(Event::InitApply(config("b"))));
            assert!(!pass(Event::InitApply(config("c"))));
            assert!(pass(Event::InitDone));
        }
        assert!(!pass(Event::Apply(config("d"))));
        assert!(pass(Event::Apply(config("a"))));
        assert!(pass(Event::Delete(config("a"))));
        assert!(pass(Event::Apply(config("d"))));
        assert_eq!(store.len(), 2);
    }
}
