//! Connections to Redis, in `authServer.storage.redis` and `sessionStorage`.

use crate::{
    config_value::{Constraint, Rule, raw_conversion, section},
    context::Context,
    duration::Duration,
    secret::SecretLocation,
    string_types::HostPort,
    tree::Node,
};

/// Default timeout for connecting.
pub(crate) const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Default timeout for a read from the socket.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Default timeout for a write to the socket.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// Connection to Redis, without its credentials.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisConnection<S: SecretLocation> {
    /// Address of Redis.
    pub address: RedisAddress<S>,
    /// Timeout for connecting to Redis.
    pub dial_timeout: Duration,
    /// Timeout for a read from the socket.
    pub read_timeout: Duration,
    /// Timeout for a write to the socket.
    pub write_timeout: Duration,
    /// TLS to Redis. `None` is plain text.
    pub tls: Option<RedisTls<S>>,
}

/// Address of Redis.
#[derive(Clone, Debug, PartialEq)]
pub enum RedisAddress<S: SecretLocation> {
    /// One server.
    Standalone(HostPort),
    /// A node of a cluster.
    Cluster(HostPort),
    /// The master that Sentinel reports.
    Sentinel {
        /// The Sentinels and the master they watch.
        config: Sentinel,
        /// TLS to the Sentinels. `None` is plain text.
        tls: Option<RedisTls<S>>,
    },
}

/// The Sentinels and the master they watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentinel {
    /// Name of the master.
    pub master_name: String,
    /// Number of the database.
    pub db: u32,
    /// The Sentinels.
    pub nodes: SentinelNodes,
}

/// Addresses of the Sentinels.
#[derive(Clone, Debug, PartialEq)]
pub enum SentinelNodes {
    /// At these addresses, at least one.
    Addresses(Vec<HostPort>),
    /// Behind a Kubernetes Service.
    Service(SentinelService),
}

/// Keys of a section that describe a connection.
pub(crate) struct ConnectionKeys<S: SecretLocation> {
    pub(crate) address: Option<HostPort>,
    pub(crate) cluster_mode: bool,
    pub(crate) dial_timeout: Duration,
    pub(crate) read_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) sentinel_config: Option<Sentinel>,
    pub(crate) sentinel_tls: Option<RedisTls<S>>,
    pub(crate) tls: Option<RedisTls<S>>,
}

section! {
    /// TLS to Redis or Sentinel; its presence turns it on.
    pub struct RedisTls<S: SecretLocation> {
        /// PEM bundle of certificates to trust. Absent trusts the system's.
        pub ca_cert_secret_ref: Option<S>;
        /// Do not verify the server's certificate.
        pub insecure_skip_verify: bool = false;
    }
}

section! {
    /// A Kubernetes Service in front of the Sentinels.
    pub struct SentinelService {
        /// Name of the Service.
        pub name: String, [Constraint::NotEmpty];
        /// Its namespace. Absent is the same.
        pub namespace: Option<String>;
        /// Its port.
        pub port: u32 = 26379, [Constraint::Range(1, 65535)];
    }
}

section! {
    /// The Sentinels and the master they watch.
    struct RawSentinel {
        /// Name of the master.
        master_name: String, [Constraint::NotEmpty];
        /// Number of the database.
        db: u32 = 0, [Constraint::Range(0, 0x7fff_ffff)];
        /// Addresses of Sentinels.
        sentinel_addrs: Option<Vec<HostPort>>, [Constraint::MinItems(1)];
        /// Kubernetes Service in front of the Sentinels.
        sentinel_service: Option<SentinelService>;
    }
    rules [Rule::ExactlyOne(&["sentinelAddrs", "sentinelService"])]
}

raw_conversion!(Sentinel as RawSentinel);

// === impl RedisConnection ===

impl<S: SecretLocation> RedisConnection<S> {
    /// Converts the keys of `node`, which has its address at `address_key`. The rules of the section have checked which keys
    /// exclude each other.
    pub(crate) fn from_keys(
        keys: ConnectionKeys<S>,
        address_key: &str,
        node: &Node,
        cx: &mut Context,
    ) -> Option<Self> {
        let ConnectionKeys {
            address,
            cluster_mode,
            dial_timeout,
            read_timeout,
            write_timeout,
            sentinel_config,
            sentinel_tls,
            tls,
        } = keys;
        let address = match (address, sentinel_config) {
            (Some(address), None) if cluster_mode => RedisAddress::Cluster(address),
            (Some(address), None) => RedisAddress::Standalone(address),
            (None, Some(config)) if !cluster_mode => {
                RedisAddress::Sentinel { config, tls: sentinel_tls }
            }
            (None, Some(_)) => {
                let found = format!("clusterMode without {address_key}");
                let allowed = format!("clusterMode together with {address_key}");
                cx.reject_key(node, "clusterMode", found, allowed);
                return None;
            }
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Self { address, dial_timeout, read_timeout, write_timeout, tls })
    }

    /// Returns the keys of a section.
    pub(crate) fn into_keys(self) -> ConnectionKeys<S> {
        let Self { address, dial_timeout, read_timeout, write_timeout, tls } = self;
        let (address, cluster_mode, sentinel_config, sentinel_tls) = match address {
            RedisAddress::Standalone(address) => (Some(address), false, None, None),
            RedisAddress::Cluster(address) => (Some(address), true, None, None),
            RedisAddress::Sentinel { config, tls } => (None, false, Some(config), tls),
        };
        ConnectionKeys {
            address,
            cluster_mode,
            dial_timeout,
            read_timeout,
            write_timeout,
            sentinel_config,
            sentinel_tls,
            tls,
        }
    }
}

// === impl Sentinel ===

impl Sentinel {
    fn from_raw(raw: RawSentinel, _: &Node, _: &mut Context) -> Option<Self> {
        let RawSentinel { master_name, db, sentinel_addrs, sentinel_service } = raw;
        let nodes = sentinel_addrs
            .map(SentinelNodes::Addresses)
            .or_else(|| sentinel_service.map(SentinelNodes::Service))?;
        Some(Self { master_name, db, nodes })
    }

    fn to_raw(&self) -> RawSentinel {
        let Self { master_name, db, nodes } = self.clone();
        let (sentinel_addrs, sentinel_service) = match nodes {
            SentinelNodes::Addresses(addresses) => (Some(addresses), None),
            SentinelNodes::Service(service) => (None, Some(service)),
        };
        RawSentinel { master_name, db, sentinel_addrs, sentinel_service }
    }
}
