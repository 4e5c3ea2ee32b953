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
    /// Addresses that [`PublicOnly`](Self::PublicOnly) allows, and private networks: RFC 1918, shared (RFC 6598) and
    /// unique local (RFC 4193) addresses. Rejects loopback, link-local, unspecified, multicast and all other reserved
    /// addresses, and the metadata services of clouds. For URLs from users who have no access to
    /// this machine.
    PrivateOrPublic,
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

/// Private networks: RFC 1918 and RFC 6598.
const PRIVATE_V4: [(Ipv4Addr, u32); 4] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];

/// Unique local addresses: RFC 4193.
const UNIQUE_LOCAL: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7);

/// Instance credentials within private networks: the metadata service of Alibaba Cloud. Others are link-local.
const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);

/// Instance credentials within unique local addresses: services of AWS, and the metadata service of Google Cloud.
const METADATA_V6: [(Ipv6Addr, u32); 2] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0), 32),
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
            Self::PrivateOrPublic => matches!(reach(address), Reach::Private | Reach::Public),
            Self::PublicOnly => matches!(reach(address), Reach::Public),
        }
    }
}

/// Part of the network that an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Public,
    Private,
    Reserved,
}

fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let is_within = |&(net, prefix): &(Ipv4Addr, u32)| {
        let mask = u32::MAX << (32 - prefix);
        address.to_bits() & mask == net.to_bits()
    };
    if PRIVATE_V4.iter().any(is_within) && address != METADATA_V4 {
        return Reach::Private;
    }
    if RESERVED_V4.iter().any(is_within) { Reach::Reserved } else { Reach::Public }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let embedded =
        |high: u16, low: u16| reach_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    let is_within = |&(net, prefix): &(Ipv6Addr, u32)| {
        let mask = u128::MAX << (128 - prefix);
        address.to_bits() & mask == net.to_bits()
    };
    match address.segments() {
        // IPv4-mapped, ::ffff:0:0/96, and NAT64, 64:ff9b::/96.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        // 6to4, 2002::/16.
        [0x2002, high, low, ..] => embedded(high, low),
        _ if is_within(&UNIQUE_LOCAL) && !METADATA_V6.iter().any(is_within) => Reach::Private,
        [first, ..] if first & 0xe000 == 0x2000 && !RESERVED_V6.iter().any(is_within) => {
            Reach::Public
        }
        _ => Reach::Reserved,
    }
}

#[cfg(test)]
mod tests;
