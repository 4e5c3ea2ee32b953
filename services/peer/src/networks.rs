//! Networks in which peers may be.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::error::ForwardError;

/// Time for which a resolution is used.
const RESOLUTION_LIFETIME: Duration = Duration::from_secs(5);

/// Minimum interval between resolutions for addresses that the last one did not have, such as those of new replicas.
const RESOLUTION_INTERVAL: Duration = Duration::from_millis(250);

/// Time within which the resolver has to respond.
const RESOLUTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerNetwork {
    address: IpAddr,
    prefix: u8,
}

/// Error of a network in CIDR notation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a network: write it as 10.0.0.0/8 or fd00::/8, without bits after the prefix"
)]
pub struct NetworkError(Box<str>);

/// Addresses that peers may have.
#[derive(Clone, Debug)]
pub enum PeerNetworks {
    /// Configured networks. Loopback, link-local and multicast addresses are permitted only by networks of that kind, not by
    /// larger ones.
    Networks(Vec<PeerNetwork>),
    /// Addresses of a headless Service.
    Service(ServiceAddresses),
}

/// Resolved addresses of a headless Service.
#[derive(Clone, Debug)]
pub struct ServiceAddresses {
    name: Arc<str>,
    resolved: Arc<Mutex<Option<Resolution>>>,
}

#[derive(Debug)]
struct Resolution {
    addresses: Vec<IpAddr>,
    at: Instant,
}

impl PeerNetworks {
    /// Permits the addresses to which a name resolves, cached for five seconds.
    #[must_use]
    pub fn service(name: &str) -> Self {
        Self::Service(ServiceAddresses { name: name.into(), resolved: Arc::default() })
    }

    /// Checks an address.
    pub(crate) async fn check(&self, address: SocketAddr) -> Result<(), ForwardError> {
        let ip = address.ip().to_canonical();
        let is_permitted = match self {
            Self::Networks(networks) => networks.iter().any(|network| network.permits(ip)),
            Self::Service(service) => service.contains(ip, address.port()).await?,
        };
        is_permitted.then_some(()).ok_or(ForwardError::NotPermitted(address))
    }
}

impl ServiceAddresses {
    async fn contains(&self, ip: IpAddr, port: u16) -> Result<bool, ForwardError> {
        // Held while the name is resolved: others wait for the same result.
        let mut resolved = self.resolved.lock().await;
        if let Some(Resolution { addresses, at }) = &*resolved {
            let is_known = addresses.contains(&ip);
            let lifetime = if is_known { RESOLUTION_LIFETIME } else { RESOLUTION_INTERVAL };
            if at.elapsed() < lifetime {
                return Ok(is_known);
            }
        }
        let error = |source: io::Error| ForwardError::Unresolved {
            name: (&*self.name).into(),
            source: Arc::new(source),
        };
        let found = timeout(RESOLUTION_TIMEOUT, lookup_host((&*self.name, port)))
            .await
            .map_err(|elapsed| error(elapsed.into()))?
            .map_err(error)?;
        let addresses: Vec<_> = found.map(|address| address.ip().to_canonical()).collect();
        let is_known = addresses.contains(&ip);
        *resolved = Some(Resolution { addresses, at: Instant::now() });
        Ok(is_known)
    }
}

impl PeerNetwork {
    fn permits(self, ip: IpAddr) -> bool {
        self.contains(ip) && kind(ip) == kind(self.address)
    }

    fn contains(self, ip: IpAddr) -> bool {
        match (self.address, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let differing = network.to_bits() ^ ip.to_bits();
                differing.checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let differing = network.to_bits() ^ ip.to_bits();
                differing.checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Kind of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressKind {
    Host,
    Loopback,
    LinkLocal,
    Other,
}

fn kind(ip: IpAddr) -> AddressKind {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if ip.is_loopback() {
        AddressKind::Loopback
    } else if is_link_local {
        AddressKind::LinkLocal
    } else if ip.is_multicast() || ip == IpAddr::from([255, 255, 255, 255]) {
        AddressKind::Other
    } else {
        AddressKind::Host
    }
}

impl FromStr for PeerNetwork {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let error = || NetworkError(text.into());
        let (address, prefix) = text.split_once('/').ok_or_else(error)?;
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let prefix: u8 = prefix.parse().map_err(|_| error())?;
        let is_exact = match address {
            IpAddr::V4(ip) => {
                prefix <= 32 && ip.to_bits().checked_shl(prefix.into()).unwrap_or(0) == 0
            }
            IpAddr::V6(ip) => {
                prefix <= 128 && ip.to_bits().checked_shl(prefix.into()).unwrap_or(0) == 0
            }
        };
        is_exact.then_some(Self { address, prefix }).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn permits(networks: &[&str], address: &str) -> bool {
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        PeerNetworks::Networks(networks).check(address.parse().unwrap()).await.is_ok()
    }

    #[tokio::test]
    async fn permits_addresses_of_networks_only() {
        assert!(permits(&["10.0.0.0/8", "fd00::/8"], "10.200.1.2:1").await);
        assert!(permits(&["10.0.0.0/8", "fd00::/8"], "[fd12::1]:1").await);
        assert!(permits(&["10.0.0.0/8"], "[::ffff:10.0.0.1]:1").await);
        assert!(permits(&["10.1.2.3/32"], "10.1.2.3:1").await);
        assert!(!permits(&["10.1.2.3/32"], "10.1.2.4:1").await);
        assert!(!permits(&["10.0.0.0/8"], "11.0.0.1:1").await);
        assert!(!permits(&[], "10.0.0.1:1").await);
    }

    #[tokio::test]
    async fn special_addresses_need_network_of_their_own() {
        for address in ["127.0.0.1:1", "169.254.169.254:1", "224.0.0.1:1", "255.255.255.255:1"] {
            assert!(!permits(&["0.0.0.0/0"], address).await, "{address}");
        }
        for address in ["[::1]:1", "[fe80::1]:1", "[ff02::1]:1"] {
            assert!(!permits(&["::/0"], address).await, "{address}");
        }
        assert!(permits(&["127.0.0.0/8"], "127.0.0.2:1").await);
        assert!(permits(&["::1/128"], "[::1]:1").await);
        assert!(permits(&["0.0.0.0/0"], "10.0.0.1:1").await);
        assert!(permits(&["::/0"], "[fd00::1]:1").await);
    }

    #[test]
    fn rejects_malformed_networks() {
        for text in ["", "10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "::/129", "fd00::1/8", "x/8"] {
            assert!(text.parse::<PeerNetwork>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn permits_resolved_addresses_of_service() {
        let networks = PeerNetworks::service("localhost");
        assert!(networks.check("127.0.0.1:1".parse().unwrap()).await.is_ok());
        let other = networks.check("10.0.0.1:1".parse().unwrap()).await;
        assert!(matches!(other, Err(ForwardError::NotPermitted(_))));
        let unknown = PeerNetworks::service("service.invalid");
        let error = unknown.check("10.0.0.1:1".parse().unwrap()).await;
        assert!(matches!(error, Err(ForwardError::Unresolved { .. })));
    }
}
