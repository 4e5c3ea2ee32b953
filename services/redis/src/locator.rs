//! Lookup of the server of a key.
//!
//! Each command waits for its own lookup only. The cluster client of the `redis` crate would stop all commands during a
//! query of the slot map, and fail them with it, as the test `failed_slot_query_fails_no_other_command` shows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::select_ok;

use crate::cluster::{SlotMap, slot};
use crate::dialer::Dialer;
use crate::{Address, Error, Node, sentinel};

/// Finds the server of a key and caches the result.
#[derive(Debug)]
pub(crate) struct Locator {
    address: Address,
    dialer: Dialer,
    topology: Mutex<Topology>,
}

/// Cached topology; empty fields are looked up on demand.
#[derive(Debug, Default)]
struct Topology {
    master: Option<Node>,
    slots: Option<SlotMap>,
    /// Nodes that belonged to the cluster at some time. Each of them can report the current slot
    /// map.
    cluster_nodes: Vec<Node>,
}

/// Maximum number of cluster nodes to remember.
const MAX_CLUSTER_NODES: usize = 64;

/// Number of cluster nodes that are queried in parallel.
const MAX_PARALLEL_QUERIES: usize = 3;

impl Locator {
    pub(crate) fn new(address: Address, dialer: Dialer) -> Self {
        Self { address, dialer, topology: Mutex::default() }
    }

    /// Returns whether a server has to confirm with `ROLE` that it is a master.
    pub(crate) const fn needs_master(&self) -> bool {
        matches!(self.address, Address::Sentinel(_))
    }

    pub(crate) async fn node(&self, key: &str) -> Result<Node, Error> {
        match &self.address {
            Address::Standalone(node) => Ok(node.clone()),
            Address::Sentinel(sentinel) => {
                if let Some(master) = self.topology().master.clone() {
                    return Ok(master);
                }
                let master = sentinel::find_master(sentinel, &self.dialer).await?;
                self.topology().master = Some(master.clone());
                Ok(master)
            }
            Address::Cluster(seeds) => {
                let slot = slot(key);
                let master_of =
                    |topology: &Topology| topology.slots.as_ref()?.master(slot).cloned();
                if let Some(node) = master_of(&self.topology()) {
                    return Ok(node);
                }
                self.refresh_slots(seeds).await?;
                master_of(&self.topology()).ok_or(Error::SlotUnassigned { slot })
            }
        }
    }

    /// Drops the cached topology after an error has shown that it is stale.
    pub(crate) fn invalidate(&self) {
        let mut topology = self.topology();
        topology.master = None;
        topology.slots = None;
    }

    /// Records that a slot moved to another node.
    pub(crate) fn record_move(&self, slot: u16, to: &Node) {
        if let Some(slots) = &mut self.topology().slots {
            slots.record_move(slot, to.clone());
        }
    }

    async fn refresh_slots(&self, seeds: &[Node]) -> Result<(), Error> {
        let mut nodes = self.topology().cluster_nodes.clone();
        nodes
            .extend(seeds.iter().filter(|seed| !nodes.contains(seed)).cloned().collect::<Vec<_>>());
        let fetch = async |node: Node| SlotMap::fetch(&self.dialer.dial(&node).await?).await;
        let mut last = Error::SlotUnassigned { slot: 0 };
        // In small batches: an unresponsive node delays no other one, and a large cluster receives
        // few queries.
        for batch in nodes.chunks(MAX_PARALLEL_QUERIES) {
            let queries = batch.iter().map(|node| fetch(node.clone()).boxed());
            match select_ok(queries).await {
                Ok((slots, _)) => {
                    self.store_slots(slots);
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn store_slots(&self, slots: SlotMap) {
        let mut topology = self.topology();
        for node in slots.masters() {
            if !topology.cluster_nodes.contains(node)
                && topology.cluster_nodes.len() < MAX_CLUSTER_NODES
            {
                topology.cluster_nodes.push(node.clone());
            }
        }
        topology.slots = Some(slots);
    }

    fn topology(&self) -> MutexGuard<'_, Topology> {
        self.topology.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
