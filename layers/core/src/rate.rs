//! Rate limits per network address.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::Cache;

/// The maximum number of addresses. Beyond it, the address with the oldest request is removed.
const MAX_ADDRESSES: usize = 16 * 1024;

/// Time in milliseconds for which an entry outlives its quota.
const ENTRY_GRACE_MILLIS: u64 = 60_000;

/// Rate of requests: a burst, and then a number per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests that are accepted immediately.
    pub burst: u32,
    /// Requests that are accepted each second after that.
    pub per_second: u32,
}

/// Rate limiter that counts network addresses apart: an IPv4 address, or 64 bits of an IPv6 one.
#[derive(Debug)]
pub struct RateLimiter {
    rate: Rate,
    /// An entry outlives its quota: without it, the address would have its whole burst again.
    used: Cache<IpAddr, Arc<Quota>>,
}

/// The quota that one address has used. All times are milliseconds since 1970.
#[derive(Debug, Default)]
struct Quota {
    /// Time until which it is exhausted (generic cell rate algorithm).
    exhausted_until: AtomicU64,
    /// Time at which the cache evicts the entry. Only a later time replaces it.
    expires: AtomicU64,
}

impl RateLimiter {
    /// Admits `rate` for each address.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { rate, used: Cache::new(MAX_ADDRESSES) }
    }

    /// Returns the number of addresses: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Returns `true` without addresses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a request.
    ///
    /// # Errors
    /// The address is over its rate. The error is the time after which a retry may succeed.
    pub fn admit(&self, address: IpAddr, now: SystemTime) -> Result<(), Duration> {
        let (at, step) = (millis(now), self.step());
        let room = step * u64::from(self.rate.burst.max(1));
        let address = network(address);
        let quota = self.used.get(&address, now).unwrap_or_default();
        // No quota lasts longer than `room` from now. An entry is put in again at most once in `ENTRY_GRACE_MILLIS`.
        if quota.expires.load(Ordering::Relaxed) < at.saturating_add(room) {
            let expires = at.saturating_add(room).saturating_add(ENTRY_GRACE_MILLIS);
            quota.expires.fetch_max(expires, Ordering::Relaxed);
            let expires = SystemTime::UNIX_EPOCH + Duration::from_millis(expires);
            self.used.insert(address, Arc::clone(&quota), expires, now);
        }
        let next = |until: u64| {
            let until = until.max(at) + step;
            (until <= at + room).then_some(until)
        };
        match quota.exhausted_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(until) => Err(Duration::from_millis((until + step).saturating_sub(at + room))),
        }
    }

    /// Returns the quota of an admitted request that does not count.
    pub fn give_back(&self, address: IpAddr, now: SystemTime) {
        if let Some(quota) = self.used.get(&network(address), now) {
            let back = |until: u64| Some(until.saturating_sub(self.step()));
            let _ = quota.exhausted_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, back);
        }
    }

    /// Returns the time that one request takes of a quota, in milliseconds.
    fn step(&self) -> u64 {
        1000 / u64::from(self.rate.per_second.clamp(1, 1000))
    }
}

fn millis(now: SystemTime) -> u64 {
    let millis = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(millis).unwrap_or(u64::MAX)
}

/// Returns the network of one customer: an IPv4 address, or a /64 of IPv6.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (!0 << 64)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + Duration::from_millis(millis)
    }

    #[test]
    fn admits_burst_and_then_rate() {
        let limiter = RateLimiter::new(Rate { burst: 3, per_second: 2 });
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        assert!((0..3).all(|_| limiter.admit(one, at(0)).is_ok()));
        assert_eq!(limiter.admit(one, at(0)), Err(Duration::from_millis(500)));
        assert_eq!(limiter.admit(one, at(499)), Err(Duration::from_millis(1)));
        assert!(limiter.admit(one, at(500)).is_ok());
        assert!(limiter.admit(one, at(501)).is_err());
        assert!(limiter.admit("192.0.2.2".parse().unwrap(), at(501)).is_ok());
    }

    #[test]
    fn busy_address_gets_no_second_burst() {
        let limiter = RateLimiter::new(Rate { burst: 20, per_second: 1 });
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        assert!((0..20).all(|_| limiter.admit(one, at(0)).is_ok()));
        for second in 1..1_000_u64 {
            let admitted = (0..20).filter(|_| limiter.admit(one, at(second * 1000)).is_ok());
            assert_eq!(admitted.count(), 1, "after {second} s");
        }
    }

    #[test]
    fn gives_back_admitted_requests() {
        let limiter = RateLimiter::new(Rate { burst: 2, per_second: 1 });
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..100 {
            assert!(limiter.admit(one, at(0)).is_ok());
            limiter.give_back(one, at(0));
        }
        assert!((0..2).all(|_| limiter.admit(one, at(0)).is_ok()));
        assert!(limiter.admit(one, at(0)).is_err());
        limiter.give_back(one, at(0));
        assert!(limiter.admit(one, at(0)).is_ok());
    }

    #[test]
    fn counts_ipv6_by_network_and_mapped_as_ipv4() {
        for (one, two, same) in [
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let [one, two] = [one, two].map(|text| network(text.parse().unwrap()));
            assert_eq!(one == two, same, "{one} {two}");
        }
    }

    #[test]
    fn limits_the_number_of_addresses() {
        let limiter = RateLimiter::new(Rate { burst: 1, per_second: 1 });
        for address in 0..100_000_u32 {
            let _ = limiter.admit(IpAddr::V4(address.into()), at(0));
        }
        assert!(limiter.used.len() <= MAX_ADDRESSES);
    }
}
