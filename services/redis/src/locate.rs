//! Which server a key belongs to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::select_ok;

use crate::cluster::{Slots, slot};
use crate::dial::Dialer;
use crate::{Address, Fault, Node, sentinel};

/// Finds the server of a key, and remembers it.
#[derive(Debug)]
pub(crate) struct Locator {
    address: Address,
    dialer: Dialer,
    known: Mutex<Known>,
}

/// What was found out and not refuted yet.
#[derive(Debug, Default)]
struct Known {
    master: Option<Node>,
    slots: Option<Slots>,
    /// Nodes that a cluster was once said to have: any of them can say how it looks now.
    nodes: Vec<Node>,
}

/// How many nodes of a cluster are remembered.
const NODES: usize = 64;

/// How many of them are asked at once.
const AT_ONCE: usize = 3;

impl Locator {
    pub(crate) fn new(address: Address, dialer: Dialer) -> Self {
        Self { address, dialer, known: Mutex::default() }
    }

    /// Whether a server has to say of itself that it is a master.
    pub(crate) const fn needs_master(&self) -> bool {
        matches!(self.address, Address::Sentinel(_))
    }

    pub(crate) async fn node(&self, key: &str) -> Result<Node, Fault> {
        match &self.address {
            Address::Standalone(node) => Ok(node.clone()),
            Address::Sentinel(sentinel) => {
                if let Some(master) = self.known().master.clone() {
                    return Ok(master);
                }
                let master = sentinel::master(sentinel, &self.dialer).await?;
                self.known().master = Some(master.clone());
                Ok(master)
            }
            Address::Cluster(seeds) => {
                let slot = slot(key);
                let served = |known: &Known| known.slots.as_ref()?.node(slot).cloned();
                if let Some(node) = served(&self.known()) {
                    return Ok(node);
                }
                self.ask_cluster(seeds).await?;
                served(&self.known()).ok_or(Fault::NoNode { slot })
            }
        }
    }

    /// Forgets what was found out: it turned out to be wrong.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.master = None;
        known.slots = None;
    }

    /// Notes where a slot moved to.
    pub(crate) fn moved(&self, slot: u16, to: &Node) {
        if let Some(slots) = &mut self.known().slots {
            slots.moved(slot, to.clone());
        }
    }

    async fn ask_cluster(&self, seeds: &[Node]) -> Result<(), Fault> {
        let mut nodes = self.known().nodes.clone();
        nodes
            .extend(seeds.iter().filter(|seed| !nodes.contains(seed)).cloned().collect::<Vec<_>>());
        let ask = async |node: Node| Slots::ask(&self.dialer.dial(&node).await?).await;
        let mut last = Fault::NoNode { slot: 0 };
        // A few at a time: one that doesn't answer delays nobody, and not all of many are bothered.
        for some in nodes.chunks(AT_ONCE) {
            let asking = some.iter().map(|node| ask(node.clone()).boxed());
            match select_ok(asking).await {
                Ok((slots, _)) => {
                    self.learn(slots);
                    return Ok(());
                }
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    fn learn(&self, slots: Slots) {
        let mut known = self.known();
        for node in slots.nodes() {
            if !known.nodes.contains(node) && known.nodes.len() < NODES {
                known.nodes.push(node.clone());
            }
        }
        known.slots = Some(slots);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
