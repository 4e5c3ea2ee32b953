use proptest::prelude::*;

use super::*;

fn public(address: &str) -> bool {
    AddressPolicy::PublicOnly.allows(address.parse().unwrap())
}

#[test]
fn rejects_both_ends_of_reserved_ranges() {
    for range in [
        ["0.0.0.0", "0.255.255.255"],
        ["10.0.0.0", "10.255.255.255"],
        ["100.64.0.0", "100.127.255.255"],
        ["127.0.0.0", "127.255.255.255"],
        ["169.254.0.0", "169.254.255.255"],
        ["169.254.169.254", "169.254.170.2"],
        ["172.16.0.0", "172.31.255.255"],
        ["192.0.0.0", "192.0.0.255"],
        ["192.0.2.0", "192.0.2.255"],
        ["192.88.99.0", "192.88.99.255"],
        ["192.168.0.0", "192.168.255.255"],
        ["198.18.0.0", "198.19.255.255"],
        ["198.51.100.0", "198.51.100.255"],
        ["203.0.113.0", "203.0.113.255"],
        ["224.0.0.0", "239.255.255.255"],
        ["240.0.0.0", "255.255.255.255"],
        ["::", "::1"],
        ["::10.0.0.1", "::8.8.8.8"],
        ["::ffff:0:8.8.8.8", "::ffff:0:10.0.0.1"],
        ["64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"],
        ["100::", "100::ffff:ffff:ffff:ffff"],
        ["2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ["::ffff:127.0.0.1", "::ffff:192.168.1.1"],
        ["64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254"],
        ["2002:7f00:1::", "2002:c0a8:101::1"],
        ["2002:a00:1::1", "2002:a9fe:a9fe::"],
    ] {
        for end in range {
            assert!(!public(end), "{end} is not public");
            assert!(AddressPolicy::Any.allows(end.parse().unwrap()));
        }
    }
}

#[test]
fn allows_neighbors_of_reserved_ranges() {
    for address in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "2001:200::",
        "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
        "2001:db9::",
        "2606:4700:4700::1111",
        "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ] {
        assert!(public(address), "{address} is public");
    }
}

#[test]
fn private_networks_are_not_the_own_machine() {
    let policy = AddressPolicy::PrivateOrPublic;
    for address in [
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.100.100.199",
        "100.127.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.168.0.0",
        "192.168.255.255",
        "8.8.8.8",
        "fc00::",
        "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "2606:4700:4700::1111",
        "::ffff:10.0.0.1",
        "64:ff9b::192.168.1.1",
        "fd00:ec1::254",
        "fd20:cf::254",
    ] {
        assert!(policy.allows(address.parse().unwrap()), "{address}");
    }
    for address in [
        "0.0.0.0",
        "0.255.255.255",
        "127.0.0.0",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.255.255",
        "100.100.100.200",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "ff02::1",
        "fec0::1",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::127.0.0.1",
        "2001:db8::1",
    ] {
        assert!(!policy.allows(address.parse().unwrap()), "{address}");
    }
}

proptest! {
    #[test]
    fn stages_allow_more_each(bits: u128, v4: u32) {
        for address in [IpAddr::from(Ipv6Addr::from_bits(bits)), Ipv4Addr::from_bits(v4).into()] {
            let private = AddressPolicy::PrivateOrPublic.allows(address);
            prop_assert!(private || !AddressPolicy::PublicOnly.allows(address));
            prop_assert!(AddressPolicy::Any.allows(address));
        }
    }

    #[test]
    fn classifies_embedded_addresses_like_plain_ones(bits: u32, tail: u64) {
        let v4 = Ipv4Addr::from_bits(bits);
        let allowed = |address: IpAddr| {
            let policies = [AddressPolicy::PublicOnly, AddressPolicy::PrivateOrPublic];
            policies.map(|policy| policy.allows(address))
        };
        let plain = allowed(v4.into());
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        for embedded in [
            v4.to_ipv6_mapped(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::from_bits(
                0x2002 << 112 | u128::from(bits) << 80 | u128::from(tail),
            ),
        ] {
            prop_assert_eq!(allowed(embedded.into()), plain);
        }
    }

    #[test]
    fn agrees_with_the_standard_library(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        if v4.is_private()
            || v4.is_loopback()
            || v4.is_link_local()
            || v4.is_broadcast()
            || v4.is_documentation()
            || v4.is_multicast()
            || v4.is_unspecified()
        {
            prop_assert!(!AddressPolicy::PublicOnly.allows(v4.into()));
        }
    }

    #[test]
    fn rejects_addresses_outside_global_unicast(bits: u128) {
        let v6 = Ipv6Addr::from_bits(bits);
        let [a, b, ..] = v6.segments();
        let translated = v6.to_ipv4_mapped().is_some() || (a, b) == (0x64, 0xff9b);
        if a & 0xe000 != 0x2000 && !translated {
            prop_assert!(!AddressPolicy::PublicOnly.allows(v6.into()));
        }
    }
}
