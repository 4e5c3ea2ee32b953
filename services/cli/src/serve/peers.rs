//! Options of `vmcp serve` for requests between replicas.

use std::env;
use std::net::{IpAddr, SocketAddr};

use clap::Args;
use vmcp_peer::{PeerNetwork, PeerNetworks};
use vmcp_server::serve::PeerOptions;

use crate::output::Failure;

/// Default port. 4484 is that of /status.
const DEFAULT_PORT: u16 = 4485;

/// Environment variable with the address of the pod.
const POD_IP: &str = "POD_IP";

#[derive(Debug, Args)]
pub(super) struct PeerArgs {
    /// An address to listen on for other replicas, which forward what belongs to this one: responses of users, resumed streams,
    /// cancellations. The default port is 4485. Needs --seal-key, and --peer-network or --peer-service. Open the port to
    /// replicas only.
    #[arg(id = "peer_listen", long = "peer-listen", value_name = "ADDRESS[:PORT]", value_parser = peer_address)]
    listen: Option<SocketAddr>,
    /// The address to which other replicas connect. All replicas have the same port. The default is the variable POD_IP, or
    /// the address of --peer-listen.
    #[arg(
        id = "peer_address",
        long = "peer-address",
        value_name = "ADDRESS",
        requires = "peer_listen"
    )]
    address: Option<IpAddr>,
    /// A network with other replicas, such as 10.0.0.0/8. Repeatable.
    #[arg(
        id = "peer_network",
        long = "peer-network",
        value_name = "CIDR",
        requires = "peer_listen"
    )]
    network: Vec<PeerNetwork>,
    /// The name of a headless Service with the addresses of all replicas, instead of networks.
    #[arg(
        id = "peer_service",
        long = "peer-service",
        value_name = "NAME",
        requires = "peer_listen",
        conflicts_with = "peer_network"
    )]
    service: Option<String>,
}

impl PeerArgs {
    /// Returns the settings; `None` without a listener.
    pub(super) fn options(&self, has_keys: bool) -> Result<Option<PeerOptions>, Failure> {
        let pod_ip = env::var(POD_IP).ok().filter(|address| !address.is_empty());
        self.resolve(has_keys, pod_ip.as_deref()).map_err(Failure::Usage)
    }

    fn resolve(&self, has_keys: bool, pod_ip: Option<&str>) -> Result<Option<PeerOptions>, String> {
        let Self { listen, address, network, service } = self;
        let Some(listen) = *listen else { return Ok(None) };
        if !has_keys {
            let reason = "--peer-listen needs --seal-key: replicas know each other by the keys that they share";
            return Err(reason.to_owned());
        }
        let networks = match service {
            Some(name) => PeerNetworks::service(name),
            None if network.is_empty() => {
                return Err("--peer-listen needs --peer-network or --peer-service: the addresses \
                            that other replicas may have"
                    .to_owned());
            }
            None => PeerNetworks::Networks(network.clone()),
        };
        let address = match (address, pod_ip) {
            (Some(address), _) => *address,
            (None, Some(pod_ip)) => pod_ip.parse().map_err(|_| {
                format!("{POD_IP} is {pod_ip}, which is not an IP address: set --peer-address")
            })?,
            (None, None) => listen.ip(),
        };
        if address.is_unspecified() {
            return Err(format!(
                "--peer-address is {address}: other replicas need the address of this one, such as \
                 that in the variable {POD_IP}"
            ));
        }
        let address = SocketAddr::new(address, listen.port());
        Ok(Some(PeerOptions { listen, address, networks }))
    }
}

/// Parses an IP address with or without a port.
fn peer_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().map_err(|_| {
        "must be an IP address, such as 0.0.0.0 or [::], with or without a port".to_owned()
    })?;
    Ok(SocketAddr::new(address, DEFAULT_PORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> PeerArgs {
        PeerArgs {
            listen: Some(peer_address("0.0.0.0").unwrap()),
            address: None,
            network: vec!["10.0.0.0/8".parse().unwrap()],
            service: None,
        }
    }

    #[test]
    fn takes_address_of_pod() {
        let options = arguments().resolve(true, Some("10.1.2.3")).unwrap().unwrap();
        assert_eq!(options.address, "10.1.2.3:4485".parse().unwrap());
        assert_eq!(options.listen, "0.0.0.0:4485".parse().unwrap());
        let address = "10.9.9.9".parse().ok();
        let options = PeerArgs { address, ..arguments() }.resolve(true, Some("10.1.2.3")).unwrap();
        assert_eq!(options.unwrap().address, "10.9.9.9:4485".parse().unwrap());
        let listen = peer_address_of("10.0.0.7:99");
        let options = PeerArgs { listen, ..arguments() }.resolve(true, None).unwrap();
        assert_eq!(options.unwrap().address, "10.0.0.7:99".parse().unwrap());
        let none = PeerArgs { listen: None, ..arguments() };
        assert!(none.resolve(false, None).unwrap().is_none());
    }

    fn peer_address_of(text: &str) -> Option<SocketAddr> {
        peer_address(text).ok()
    }

    #[test]
    fn rejects_incomplete_options() {
        let error = arguments().resolve(false, Some("10.1.2.3")).unwrap_err();
        assert!(error.contains("--seal-key"), "{error}");
        let error = arguments().resolve(true, None).unwrap_err();
        assert!(error.contains("--peer-address is 0.0.0.0"), "{error}");
        let error = arguments().resolve(true, Some("host")).unwrap_err();
        assert!(error.contains("POD_IP is host"), "{error}");
        let without = PeerArgs { network: Vec::new(), ..arguments() };
        let error = without.resolve(true, Some("10.1.2.3")).unwrap_err();
        assert!(error.contains("--peer-network or --peer-service"), "{error}");
        for text in ["", "host", "host:1", "1.2.3.4:x", ":4485"] {
            assert!(peer_address(text).is_err(), "{text}");
        }
        assert_eq!(peer_address("[::]"), Ok("[::]:4485".parse().unwrap()));
    }
}
