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
    conversion::{Available, Inputs, Member},
};

use crate::Target;

/// Number of watched kinds.
const KINDS: usize = 6;

/// Stores of all kinds.
pub(crate) struct Stores {
    virtual_servers: Store<VirtualMCPServer>,
    servers: Store<MCPServer>,
    proxies: Store<MCPRemoteProxy>,
    entries: Store<MCPServerEntry>,
    external_auth_configs: Store<MCPExternalAuthConfig>,
    tool_configs: Store<MCPToolConfig>,
    /// Kinds that were listed once.
    listed: [bool; KINDS],
}

/// Change of the stores.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// All objects of the kind with this number are known.
    Listed(usize),
    /// One object changed.
    Object,
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
        let listed = [false; KINDS];
        let stores = Self {
            virtual_servers,
            servers,
            proxies,
            entries,
            external_auth_configs,
            tool_configs,
            listed,
        };
        (stores, select_all([c0, c1, c2, c3, c4, c5]))
    }

    /// Records a change.
    pub(crate) fn record(&mut self, change: Change) {
        if let Change::Listed(kind) = change {
            self.listed[kind] = true;
        }
    }

    /// Returns `true` if all kinds were listed once.
    pub(crate) fn are_complete(&self) -> bool {
        self.listed.iter().all(|listed| *listed)
    }

    /// Returns the inputs of the conversion, with these files of secrets; `None` if the server does not exist.
    pub(crate) fn inputs(
        &self,
        name: &str,
        files: impl IntoIterator<Item = String>,
    ) -> Option<Inputs> {
        let own = self.virtual_servers.state().into_iter();
        let server = own.into_iter().find(|server| server.name_any() == name)?;
        let group = server.spec.group_ref.name.clone();
        let is_member = |member: &Member| match member {
            Member::Server(server) => {
                server.spec.group_ref.as_ref().is_some_and(|reference| reference.name == group)
            }
            Member::Proxy(proxy) => {
                proxy.spec.group_ref.as_ref().is_some_and(|reference| reference.name == group)
            }
            Member::Entry(entry) => entry.spec.group_ref.name == group,
        };
        let servers = self.servers.state().into_iter().map(Member::Server);
        let proxies = self.proxies.state().into_iter().map(Member::Proxy);
        let entries = self.entries.state().into_iter().map(Member::Entry);
        let members = servers.chain(proxies).chain(entries).filter(is_member).collect();
        Some(Inputs {
            members,
            external_auth_configs: by_name(&self.external_auth_configs),
            tool_configs: by_name(&self.tool_configs),
            available: Available::from_files(files),
            ..Inputs::new(server)
        })
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
    // Retries wait up to 30 s, with jitter. Until a list succeeds, the store keeps what it had.
    let events = watcher(api, config).default_backoff().reflect(writer);
    let changes = events.filter_map(move |event| {
        ready(match event {
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone) => Some(Change::Listed(kind)),
            Ok(Event::Apply(_) | Event::Delete(_)) => Some(Change::Object),
            Err(error) => {
                let resource = K::plural(&());
                tracing::warn!(%resource, %error, "watch failed; the last known backends remain");
                None
            }
        })
    });
    (reader, changes.boxed())
}
