//! Address policy of a client.
//!
//! A URL from an untrusted source must not make the gateway connect to its own network. The policy
//! applies to resolved addresses, and the client connects to exactly these addresses, so a later
//! change of the name's resolution has no effect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that a client may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPolicy {
    /// All addresses. For backends that the operator configured: in a cluster their addresses are
    /// private.
    Any,
    /// Globally reachable addresses only, according to the IANA special-purpose registries (RFC
    /// 6890). Rejects loopback, private, link-local, unique local, shared (RFC 6598), multicast,
    /// unspecified, documentation and benchmarking addresses, and their IPv4-mapped, 6to4 (RFC
    /// 3056) and NAT64 (RFC 6052) forms.
    PublicOnly,
}

/// Networks with prefix lengths: RFC 6890 and the IANA registry; RFC 7526 for 192.88.99.0/24.
const RESERVED_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Reserved parts of 2000::/3, the only global unicast range. 2001::/23 includes ORCHID and Teredo,
/// whose embedded addresses are obfuscated.
const RESERVED_V6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

impl AddressPolicy {
    /// Returns whether a client with this policy may connect to `address`.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::PublicOnly => match address {
                IpAddr::V4(v4) => is_public_v4(v4),
                IpAddr::V6(v6) => is_public_v6(v6),
            },
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !RESERVED_V4.iter().any(|&(net, prefix)| {
        let mask = u32::MAX << (32 - prefix);
        address.to_bits() & mask == net.to_bits()
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
    };
    match address.segments() {
        // IPv4-mapped, ::ffff:0:0/96, and NAT64, 64:ff9b::/96.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        // 6to4, 2002::/16.
        [0x2002, high, low, ..] => embedded(high, low),
        [first, ..] => {
            first & 0xe000 == 0x2000
                && !RESERVED_V6.iter().any(|&(net, prefix)| {
                    let mask = u128::MAX << (128 - prefix);
                    address.to_bits() & mask == net.to_bits()
                })
        }
    }
}

#[cfg(test)]
mod tests;
