//! URLs of remote MCP servers that an MCPServerEntry may name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Names that no entry may have, nor names below them.
const FORBIDDEN_HOSTS: [&str; 5] = [
    "localhost",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "metadata.google.internal",
];

/// Metadata service of Alibaba Cloud, within the shared addresses. Those of most clouds are link-local.
const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);

/// Beginnings of unique local addresses of which AWS and Google Cloud have some for instance credentials.
const METADATA_V6: [[u16; 2]; 2] = [[0xfd00, 0xec2], [0xfd20, 0xce]];

/// Checks the URL of an MCPServerEntry by its text, without a DNS lookup. The server checks addresses again when it connects.
///
/// # Errors
///
/// Returns the reason for which the URL is not permitted.
pub fn check_remote_url(url: &str, allow_private_endpoint: bool) -> Result<(), String> {
    let parsed = Url::parse(url).map_err(|error| format!("not a URL: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err("not an http:// or https:// URL".to_owned());
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("a URL with user or password; use externalAuthConfigRef".to_owned());
    }
    let reach = match parsed.host() {
        None => return Err("a URL without host".to_owned()),
        Some(Host::Ipv4(address)) => reach_v4(address),
        Some(Host::Ipv6(address)) => reach_v6(address),
        Some(Host::Domain(name)) => reach_name(name),
    };
    let host = parsed.host_str().unwrap_or_default();
    match reach {
        Reach::Public => Ok(()),
        Reach::Private if allow_private_endpoint => Ok(()),
        Reach::Private => {
            Err(format!("{host} is private; set allowPrivateEndpoint: true to permit it"))
        }
        Reach::Forbidden => Err(format!(
            "{host} is this machine, a link-local or multicast address, the API server or a metadata service, which no entry may name"
        )),
    }
}

/// Part of the network that a host is in.
enum Reach {
    Public,
    Private,
    Forbidden,
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [first, second, ..] = address.octets();
    // This network, and multicast with all that follows.
    let is_no_host = first == 0 || first >= 224;
    let is_shared = first == 100 && (64..128).contains(&second);
    if is_no_host || address.is_loopback() || address.is_link_local() || address == METADATA_V4 {
        Reach::Forbidden
    } else if address.is_private() || is_shared {
        Reach::Private
    } else {
        Reach::Public
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    match IpAddr::V6(address).to_canonical() {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            let is_local = address.is_loopback() || address.is_unicast_link_local();
            let is_no_host = address.is_unspecified() || address.is_multicast();
            if is_local || is_no_host || METADATA_V6.contains(&[first, second]) {
                Reach::Forbidden
            } else if address.is_unique_local() {
                Reach::Private
            } else {
                Reach::Public
            }
        }
    }
}

fn reach_name(name: &str) -> Reach {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_within = |parent: &str| {
        name == parent || name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    if FORBIDDEN_HOSTS.into_iter().any(is_within) {
        Reach::Forbidden
    } else if is_within("cluster.local") || is_within("svc") {
        Reach::Private
    } else {
        Reach::Public
    }
}
