//! Lookup of the server of a key.
//!
//! A failed lookup concerns only the commands that wait for it. The cluster client of the `redis` crate would fail all
//! running commands, as the test `failed_slot_query_fails_no_other_command` shows.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_ok;
use tokio::time::sleep;

use crate::cluster::{SlotMap, slot};
use crate::dialer::Dialer;
use crate::{Address, Error, Node, sentinel};

/// Finds the server of a key and caches the topology.
#[derive(Debug)]
pub(crate) struct Locator {
    address: Address,
    dialer: Dialer,
    state: Mutex<State>,
}

/// Servers and their keys, as last reported.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    /// One server for all keys.
    Single(Node),
    /// Masters of a cluster.
    Cluster(Arc<SlotMap>),
}

#[derive(Debug, Default)]
struct State {
    topology: Option<Topology>,
    /// Single server that failed last. A Sentinel may report it after it has been replaced.
    suspect: Option<Node>,
}

/// Number of cluster nodes that are queried at once, and the time until the next ones are.
const MAX_SIMULTANEOUS_QUERIES: u32 = 3;
const QUERY_INTERVAL: Duration = Duration::from_millis(250);

// === impl Topology ===

impl Topology {
    /// Returns the server of a key.
    pub(crate) fn server(&self, key: &str) -> Result<Node, Error> {
        match self {
            Self::Single(node) => Ok(node.clone()),
            Self::Cluster(slots) => {
                let slot = slot(key);
                slots.master(slot).cloned().ok_or(Error::SlotUnassigned { slot })
            }
        }
    }
}

// === impl Locator ===

impl Locator {
    pub(crate) fn new(address: Address, dialer: Dialer) -> Self {
        Self { address, dialer, state: Mutex::default() }
    }

    /// Returns whether a server has to confirm with `ROLE` that it is a master.
    pub(crate) const fn needs_master(&self) -> bool {
        matches!(self.address, Address::Sentinel(_))
    }

    /// Returns the server of a key if it is known.
    pub(crate) fn cached(&self, key: &str) -> Option<Node> {
        self.state().topology.as_ref()?.server(key).ok()
    }

    /// Queries the topology and caches it.
    pub(crate) async fn query(&self) -> Result<Topology, Error> {
        let topology = match &self.address {
            Address::Standalone(node) | Address::Database(node, _) => {
                Topology::Single(node.clone())
            }
            Address::Sentinel(sentinel) => {
                let suspect = self.state().suspect.clone();
                let master = sentinel::find_master(sentinel, &self.dialer, suspect.as_ref());
                Topology::Single(master.await?)
            }
            Address::Cluster(seeds) => Topology::Cluster(Arc::new(self.query_slots(seeds).await?)),
        };
        self.state().topology = Some(topology.clone());
        Ok(topology)
    }

    /// Drops the cached keys of a server after an error has shown that they may be stale. Those of
    /// other servers remain.
    pub(crate) fn forget(&self, node: &Node) {
        let mut state = self.state();
        match &mut state.topology {
            Some(Topology::Single(server)) if server == node => {
                state.topology = None;
                state.suspect = Some(node.clone());
            }
            Some(Topology::Cluster(slots)) => Arc::make_mut(slots).remove(node),
            _ => {}
        }
    }

    /// Records that a slot moved to another node.
    pub(crate) fn record_move(&self, slot: u16, to: &Node) {
        if let Some(Topology::Cluster(slots)) = &mut self.state().topology {
            Arc::make_mut(slots).record_move(slot, to.clone());
        }
    }

    async fn query_slots(&self, seeds: &[Node]) -> Result<SlotMap, Error> {
        let mut nodes = match &self.state().topology {
            Some(Topology::Cluster(slots)) => slots.nodes().to_vec(),
            _ => Vec::new(),
        };
        for seed in seeds {
            if !nodes.contains(seed) {
                nodes.push(seed.clone());
            }
        }
        // Staggered: unresponsive nodes delay the others little, and a large cluster receives few
        // queries.
        let queries = nodes.into_iter().zip(0..).map(|(node, index)| {
            async move {
                sleep(QUERY_INTERVAL * (index / MAX_SIMULTANEOUS_QUERIES)).await;
                SlotMap::fetch(&self.dialer.dial(&node).await?).await
            }
            .boxed()
        });
        let queries: Vec<_> = queries.collect();
        if queries.is_empty() {
            return Err(Error::SlotUnassigned { slot: 0 });
        }
        select_ok(queries).await.map(|(slots, _)| slots)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        vmcp_core::lock(&self.state)
    }
}
