//! Limit of connections per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use vmcp_core::network;

use vmcp_core::lock;

/// Divisor of all connections for the share of one address.
const ADDRESS_DIVISOR: usize = 4;

/// Minimum share.
const MIN_ADDRESS_CONNECTIONS: usize = 16;

/// Connections by address. IPv6 addresses of one /64 network count as one, since a host can use all of them. Loopback
/// addresses are not limited, since local proxies connect from there.
#[derive(Debug)]
pub(crate) struct AddressLimit {
    limit: usize,
    /// Open connections by address, never 0: a permit adds one and its drop removes it, with the entry at the last.
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// Counted connection of an address, until the value is dropped.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    limit: Arc<AddressLimit>,
    address: Option<IpAddr>,
}

impl AddressLimit {
    /// Creates shares of `connections`. Behind proxies, all connections come from the proxies, and addresses have no
    /// limit.
    pub(crate) fn new(connections: usize, trusted_proxies: usize) -> Arc<Self> {
        let address_permit = (connections / ADDRESS_DIVISOR).max(MIN_ADDRESS_CONNECTIONS);
        let limit = if trusted_proxies == 0 { address_permit } else { usize::MAX };
        Arc::new(Self { limit, open: Mutex::default() })
    }

    /// Counts another connection of `address`. Returns `None` at the limit.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<AddressPermit> {
        let address = counted(address);
        if let Some(address) = address {
            let mut open = lock(&self.open);
            let count = open.entry(address).or_default();
            // Invariant: an entry has at least one connection, since the limit is not 0.
            if *count >= self.limit {
                return None;
            }
            *count += 1;
        }
        Some(AddressPermit { limit: Arc::clone(self), address })
    }
}

fn counted(address: IpAddr) -> Option<IpAddr> {
    (!address.to_canonical().is_loopback()).then(|| network(address))
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut open = lock(&self.limit.open);
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn limits_connections_per_address() {
        let limit = AddressLimit::new(80, 0);
        let [one, other, near, far] = ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00:0:0:1::1"]
            .map(|text| text.parse::<IpAddr>().unwrap());
        let mut taken: Vec<_> = (0..20).map(|_| limit.take(one).unwrap()).collect();
        assert!(limit.take(one).is_none() && limit.take(other).is_some());
        assert!(limit.take("::ffff:10.0.0.1".parse().unwrap()).is_none());
        taken.pop();
        assert!(limit.take(one).is_some());
        let near: Vec<_> = (0..20).map(|_| limit.take(near).unwrap()).collect();
        assert!(limit.take("fd00::2".parse().unwrap()).is_none() && limit.take(far).is_some());
        drop((taken, near));
        assert!(limit.open.lock().unwrap().is_empty());
    }

    #[test]
    fn does_not_limit_proxies_and_loopback() {
        let (limit, proxied) = (AddressLimit::new(80, 0), AddressLimit::new(80, 1));
        let local: Vec<_> = (0..100).map(|_| limit.take(Ipv6Addr::LOCALHOST.into())).collect();
        assert!(local.iter().all(Option::is_some));
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let all: Vec<_> = (0..100).map(|_| proxied.take(address)).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
