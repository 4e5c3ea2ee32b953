//! Connections to Redis: `authServer.storage.redis` and `sessionStorage`.

use vmcp_config::redis::{
    RedisAddress, RedisConnection, RedisTls, Sentinel as SentinelSection, SentinelNodes,
    SentinelService,
};
use vmcp_config::{ConfigError, HostPort, SecretFile, Warning};
use vmcp_redis::{Address, Credentials, Node, Sentinel, Settings, Timeouts, Tls, TlsError};

use super::secret_files::SecretFiles;

/// Converter of the connection in the section at `at`, which collects errors and warnings.
pub(super) struct RedisConverter<'a> {
    pub(super) at: &'a str,
    pub(super) files: &'a mut SecretFiles,
    pub(super) errors: &'a mut Vec<ConfigError>,
    pub(super) warnings: &'a mut Vec<Warning>,
}

/// Settings of a connection without its credentials.
pub(super) struct Connection {
    address: Address,
    tls: Option<Tls>,
    timeouts: Timeouts,
}

impl Connection {
    /// Adds the credentials, and the number of the database of a single server.
    pub(super) fn settings(self, credentials: Credentials, database: u32) -> Settings {
        let Self { address, tls, timeouts } = self;
        let address = match address {
            Address::Standalone(node) if database > 0 => Address::Database(node, database),
            address => address,
        };
        Settings { address, credentials, tls, timeouts }
    }
}

impl RedisConverter<'_> {
    /// Converts the connection; `None` after an error.
    pub(super) fn convert(mut self, connection: RedisConnection<SecretFile>) -> Option<Connection> {
        let RedisConnection { address, dial_timeout, read_timeout, write_timeout, tls } =
            connection;
        let tls = self.tls("tls", tls);
        let address = self.address(address);
        let timeouts = Timeouts {
            dial: dial_timeout.into(),
            read: read_timeout.into(),
            write: write_timeout.into(),
        };
        Some(Connection { address: address?, tls: tls?, timeouts })
    }

    fn address(&mut self, address: RedisAddress<SecretFile>) -> Option<Address> {
        Some(match address {
            RedisAddress::Standalone(at) => Address::Standalone(node(&at)),
            RedisAddress::Cluster(at) => Address::Cluster(vec![node(&at)]),
            RedisAddress::Sentinel { config, tls } => {
                let SentinelSection { master_name, db, nodes } = config;
                let nodes = match nodes {
                    SentinelNodes::Addresses(all) => all.iter().map(node).collect(),
                    SentinelNodes::Service(service) => {
                        let node = service_node(self.at, service);
                        let node = node.map_err(|error| self.errors.push(error));
                        vec![node.ok()?]
                    }
                };
                let tls = self.tls("sentinelTls", tls)?;
                Address::Sentinel(Sentinel { master: master_name, database: db, nodes, tls })
            }
        })
    }

    #[expect(clippy::option_option, reason = "no TLS is what was asked for; a wrong one is not")]
    fn tls(&mut self, key: &str, tls: Option<RedisTls<SecretFile>>) -> Option<Option<Tls>> {
        let Some(RedisTls { ca_cert_secret_ref, insecure_skip_verify }) = tls else {
            return Some(None);
        };
        let at = format!("{}.{key}", self.at);
        let key = format!("{at}.caCertSecretRef");
        let ca = ca_cert_secret_ref.map(|file| self.files.bytes(&key, &file));
        let ca = ca.map_or(Some(None), |ca| ca.map(Some))?;
        let tls = if insecure_skip_verify {
            let message = "certificates are not verified: an attacker on the network can read and change the traffic";
            let (path, message) = (format!("{at}.insecureSkipVerify"), message.to_owned());
            self.warnings.push(Warning { path, message, suggestion: None });
            Tls::insecure_skip_verify()
        } else {
            match &ca {
                None => Tls::system(),
                Some(pem) => Tls::with_ca(secrecy::ExposeSecret::expose_secret(pem)),
            }
        };
        tls.map(Some)
            .map_err(|error: TlsError| {
                let found = "no usable certificate authority";
                self.errors.push(ConfigError::new(key, found, error.to_string()));
            })
            .ok()
    }
}

fn node(address: &HostPort) -> Node {
    let node = address.as_str().rsplit_once(':').and_then(|(host, port)| {
        Some(Node::new(host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
    });
    node.expect("a HostPort has a port from 1 to 65535")
}

/// Returns the DNS name of the Service within the cluster.
fn service_node(at: &str, service: SentinelService) -> Result<Node, ConfigError> {
    let SentinelService { name, namespace, port } = service;
    // Only a configuration that was built in code has another port.
    let port = u16::try_from(port).map_err(|_| {
        let path = format!("{at}.sentinelConfig.sentinelService.port");
        ConfigError::new(path, port.to_string(), "a port from 1 to 65535")
    })?;
    let host = match namespace {
        Some(namespace) => format!("{name}.{namespace}.svc"),
        None => name,
    };
    Ok(Node::new(host, port))
}
