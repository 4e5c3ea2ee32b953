//! Check of the addresses for `serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use clap::Args;
use vmcp_config::{ConfigError, File, Warning};
use vmcp_seal::SealKeyFiles;
use vmcp_server::serve::{AdminAddress, Exposure, ExposureError, check_seal_keys};

use crate::arguments::{address, seal_key};

/// Options of `serve` to check as well.
#[derive(Debug, Args)]
pub(super) struct ListenArgs {
    /// The address of `serve`. With --host or --port, validate listens there briefly.
    #[arg(long, value_parser = address)]
    host: Option<IpAddr>,
    /// The port of `serve`. Omit it while a server listens there.
    #[arg(long)]
    port: Option<u16>,
    /// The address of `serve --admin-listen`, checked as well. For a --host on a network, the default is its default.
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin_listen: Option<SocketAddr>,
    /// Accept anonymous callers on a network address, as `serve` would.
    #[arg(long)]
    allow_anonymous_network: bool,
    /// A file or directory of keys, as for `serve`. Repeatable.
    #[arg(long, value_name = "FILE", value_parser = seal_key)]
    seal_key: Vec<PathBuf>,
}

/// Problems of `serve`: errors that prevent its start, and a warning that does not.
#[derive(Debug, Default)]
pub(super) struct ListenCheck {
    pub(super) errors: Vec<ConfigError>,
    pub(super) warning: Option<Warning>,
}

impl ListenArgs {
    /// Listens briefly on all addresses of `serve`.
    pub(super) fn check(&self, file: Option<&File>) -> ListenCheck {
        let mut check = ListenCheck::default();
        // Kept open until the end, so that two equal addresses conflict.
        let _main = self.main().and_then(|(option, address)| {
            let exposed = file.and_then(|file| self.exposed(address, file));
            check.errors.extend(exposed.map(ExposureError::to_config_error));
            let listened = listen(option, address);
            listened.map_err(|error| check.errors.push(error)).ok()
        });
        // Without --host, serve listens on loopback.
        let ip = self.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        match AdminAddress::of(ip, self.admin_listen) {
            Some(AdminAddress::Requested(address)) => {
                check.errors.extend(listen("--admin-listen", address).err());
            }
            Some(AdminAddress::Default(address)) => {
                check.warning = TcpListener::bind(address).err().map(|error| Warning {
                    path: "--admin-listen".to_owned(),
                    message: format!("{address}: {error}: {}", AdminAddress::MISSING),
                    suggestion: None,
                });
            }
            None => {}
        }
        let keys = SealKeyFiles::new(self.seal_key.clone());
        if let Err(error) = check_seal_keys(&keys) {
            let found = error.to_string();
            check.errors.push(ConfigError::new(
                "--seal-key",
                found,
                "up to 8 files of random keys",
            ));
        }
        check
    }

    /// Returns the address for clients and its option; `None` without one.
    fn main(&self) -> Option<(&'static str, SocketAddr)> {
        let option = match (self.port, self.host) {
            (Some(_), _) => "--port",
            (None, Some(_)) => "--host",
            (None, None) => return None,
        };
        let ip = self.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Some((option, SocketAddr::new(ip, self.port.unwrap_or(0))))
    }

    fn exposed(&self, address: SocketAddr, file: &File) -> Option<ExposureError> {
        let exposure = Exposure { address, allow_anonymous: self.allow_anonymous_network };
        exposure.check_method(&file.incoming_auth.method).err()
    }
}

fn listen(option: &str, address: SocketAddr) -> Result<TcpListener, ConfigError> {
    TcpListener::bind(address).map_err(|error| {
        let found = format!("{address}: {error}");
        ConfigError::new(option, found, "an address to listen on that is free")
    })
}
