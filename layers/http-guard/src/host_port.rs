//! Hosts in request headers and origins.

use std::net::{IpAddr, Ipv6Addr};

/// A host with or without a port, without user info (RFC 3986, 3.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPort<'a> {
    pub(crate) text: &'a str,
    /// Host without the port; an IPv6 address keeps its brackets.
    host: &'a str,
}

impl<'a> HostPort<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(rest) => rest.find(']')? + 2,
            None => text.bytes().position(|byte| byte == b':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at_checked(end)?;
        let is_port = match port.strip_prefix(':') {
            // `parse` would accept a sign.
            Some(digits) => {
                digits.len() <= 5 && !digits.starts_with('+') && digits.parse::<u16>().is_ok()
            }
            None => port.is_empty(),
        };
        let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_name = if let Some(address) = inside {
            address.parse::<Ipv6Addr>().is_ok()
        } else {
            let allowed =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty() && host.bytes().all(allowed)
        };
        (is_port && is_name).then_some(Self { text, host })
    }

    pub(crate) fn address(self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }

    /// Returns `true` for the loopback interface of this machine.
    pub(crate) fn is_loopback(self) -> bool {
        // Fast path: the usual names need no parsing.
        self.host == "127.0.0.1"
            || self.host.eq_ignore_ascii_case("localhost")
            || self.address().is_some_and(|address| address.is_loopback())
    }

    /// Returns `true` if this is the known host. A known host without a port matches all ports.
    pub(crate) fn matches(self, known: &str) -> bool {
        known.eq_ignore_ascii_case(self.text) || known.eq_ignore_ascii_case(self.host)
    }
}
