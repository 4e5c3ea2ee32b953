//! Limits on concurrent fetches of metadata documents.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use vmcp_core::network;

/// Maximum number of concurrent fetches.
const MAX_FETCHES: usize = 128;

/// Maximum number of concurrent fetches from one host, so that a slow host cannot use up all permits.
const MAX_FETCHES_PER_HOST: usize = 4;

/// Maximum number of concurrent fetches caused by requests from one address.
const MAX_FETCHES_PER_ADDRESS: usize = 8;

/// Permits for fetches, counted by host and by client address. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchLimiter(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    hosts: HashMap<Box<str>, usize>,
    addresses: HashMap<IpAddr, usize>,
}

/// Permit for one fetch, released on drop.
#[derive(Debug)]
pub(super) struct FetchPermit {
    limiter: FetchLimiter,
    host: Box<str>,
    address: IpAddr,
}

impl FetchLimiter {
    /// Returns a permit, or `None` if a limit is reached.
    pub(super) fn acquire(&self, host: &str, address: IpAddr) -> Option<FetchPermit> {
        let address = network(address);
        let mut counts = self.lock();
        let Counts { all, hosts, addresses } = &mut *counts;
        let of_host = hosts.get(host).copied().unwrap_or_default();
        let of_address = addresses.get(&address).copied().unwrap_or_default();
        if *all >= MAX_FETCHES
            || of_host >= MAX_FETCHES_PER_HOST
            || of_address >= MAX_FETCHES_PER_ADDRESS
        {
            return None;
        }
        let host: Box<str> = host.into();
        *all += 1;
        hosts.insert(host.clone(), of_host + 1);
        addresses.insert(address, of_address + 1);
        Some(FetchPermit { limiter: self.clone(), host, address })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no operation under the lock panics")
    }
}

impl Drop for FetchPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.lock();
        counts.all -= 1;
        release(&mut counts.hosts, &self.host);
        release(&mut counts.addresses, &self.address);
    }
}

fn release<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    let Some(count) = counts.get_mut(key) else {
        tracing::error!("fetch permit released without a count, please report this");
        return;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn limits_fetches_per_host_address_and_process() {
        let limiter = FetchLimiter::default();
        let host: Vec<_> = (0..8).filter_map(|at| limiter.acquire("slow", address(at))).collect();
        assert_eq!(host.len(), MAX_FETCHES_PER_HOST);
        let of_one = (0..20).filter_map(|at| limiter.acquire(&at.to_string(), address(100)));
        let of_one: Vec<_> = of_one.collect();
        assert_eq!(of_one.len(), MAX_FETCHES_PER_ADDRESS);
        assert!(limiter.acquire("other", address(101)).is_some());
        let rest = (0..255).filter_map(|at| limiter.acquire(&at.to_string(), address(at)));
        let rest: Vec<_> = rest.collect();
        assert_eq!(host.len() + of_one.len() + rest.len(), MAX_FETCHES);
        drop((host, of_one, rest));
        let counts = limiter.lock();
        assert_eq!((counts.all, counts.hosts.len(), counts.addresses.len()), (0, 0, 0));
    }
}
