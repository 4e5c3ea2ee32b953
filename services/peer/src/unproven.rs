//! Connections that have not proved the key ring.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use vmcp_core::lock;

/// Maximum number of connections that have not proved the key ring.
const MAX_UNPROVEN: usize = 128;

/// Connections that have not proved the key ring. They share few places of their own, so strangers take none of the replicas' places.
/// When all are taken, a new connection gets the place of the oldest one of the address with most of them.
#[derive(Debug, Default)]
pub(crate) struct UnprovenConnections(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    /// The oldest first.
    taken: Vec<TakenPlace>,
    /// Number of the next place.
    next: u64,
}

#[derive(Debug)]
struct TakenPlace {
    number: u64,
    address: IpAddr,
    /// Tells the connection to close when it is dropped.
    _evict: oneshot::Sender<()>,
}

/// Place of a connection that has not proved the key ring.
#[derive(Debug)]
pub(crate) struct UnprovenPlace {
    connections: Arc<UnprovenConnections>,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl UnprovenConnections {
    /// Takes a place for a connection of an address.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> UnprovenPlace {
        let mut places = lock(&self.0);
        if places.taken.len() >= MAX_UNPROVEN {
            places.evict();
        }
        let number = places.next;
        places.next += 1;
        let (evict, evicted) = oneshot::channel();
        places.taken.push(TakenPlace { number, address, _evict: evict });
        UnprovenPlace { connections: Arc::clone(self), number, evicted }
    }
}

impl Places {
    /// Evicts the oldest connection of the address that has most.
    fn evict(&mut self) {
        let mut counts = HashMap::<_, usize>::new();
        for place in &self.taken {
            *counts.entry(place.address).or_default() += 1;
        }
        // Of equal ones, the first is the oldest.
        let victim = (0..self.taken.len())
            .min_by_key(|&index| Reverse(counts.get(&self.taken[index].address)));
        if let Some(victim) = victim {
            self.taken.remove(victim);
        }
    }
}

impl UnprovenPlace {
    /// Waits until another connection gets the place.
    pub(crate) async fn evicted(&mut self) {
        // The sender is dropped, never used.
        _ = (&mut self.evicted).await;
    }
}

impl Drop for UnprovenPlace {
    fn drop(&mut self) {
        lock(&self.connections.0).taken.retain(|place| place.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    fn is_evicted(place: &mut UnprovenPlace) -> bool {
        place.evicted.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn flood_evicts_its_own_oldest_connections() {
        let connections = Arc::<UnprovenConnections>::default();
        let mut peer = connections.enter(address(1));
        let mut flood: Vec<_> = (0..300).map(|_| connections.enter(address(2))).collect();
        assert!(!is_evicted(&mut peer));
        let evicted: Vec<_> = flood.iter_mut().map(is_evicted).collect();
        let (oldest, newest) = evicted.split_at(300 + 1 - MAX_UNPROVEN);
        assert!(oldest.iter().all(|it| *it) && newest.iter().all(|it| !it), "{evicted:?}");
        // A peer with the address of the flood is the newest one.
        let mut late = connections.enter(address(2));
        assert!(!is_evicted(&mut late) && !is_evicted(&mut peer));
    }

    #[test]
    fn place_of_proven_connection_is_free() {
        let connections = Arc::<UnprovenConnections>::default();
        let mut first = connections.enter(address(1));
        for _ in 0..1000 {
            drop(connections.enter(address(2)));
        }
        assert!(!is_evicted(&mut first));
        drop(first);
        assert!(lock(&connections.0).taken.is_empty());
    }
}
