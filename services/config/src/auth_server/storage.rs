//! Storage of the authorization server's state.

use super::SecretLocation;
use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    duration::Duration,
    string_types::HostPort,
    tree::Node,
};

/// Storage of the authorization server's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Storage<S: SecretLocation> {
    /// In memory; lost on restart.
    Memory,
    /// In Redis.
    Redis(Box<Redis<S>>),
}

/// Redis storage of the authorization server's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Redis<S: SecretLocation> {
    /// Credentials for Redis.
    pub acl_user_config: RedisAcl<S>,
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

section! {
    /// Credentials for Redis.
    pub struct RedisAcl<S: SecretLocation> {
        /// The password.
        pub password_secret_ref: S;
        /// The ACL user. Absent authenticates with the password alone.
        pub username_secret_ref: Option<S>;
    }
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

keyword_enum! {
    /// Kind of storage.
    enum StorageTag {
        /// In the process.
        Memory = "memory",
        /// In Redis.
        Redis = "redis",
    }
}

section! {
    /// Storage of the authorization server's state.
    struct RawStorage<S: SecretLocation> {
        /// `memory` for one process, `redis` for several.
        r#type: StorageTag = StorageTag::Memory;
        /// Required with `type: redis`.
        redis: Option<Redis<S>>;
    }
    rules [Rule::Variants {
        tag: "type",
        default: Some("memory"),
        variants: &[
            Variant { value: "memory", requires: &[], forbids: &["redis"] },
            Variant { value: "redis", requires: &["redis"], forbids: &[] },
        ],
    }]
}

section! {
    /// Redis storage of the authorization server's state.
    struct RawRedis<S: SecretLocation> {
        /// Credentials for Redis.
        acl_user_config: RedisAcl<S>;
        /// Address of one server or, with `clusterMode`, of a node of the cluster.
        addr: Option<HostPort>;
        /// Use the Redis Cluster protocol. Requires `addr`.
        cluster_mode: bool = false;
        /// Timeout for connecting to Redis.
        dial_timeout: Duration = Duration::from_secs(5), [Constraint::Positive];
        /// Timeout for a read from the socket.
        read_timeout: Duration = Duration::from_secs(3), [Constraint::Positive];
        /// Timeout for a write to the socket.
        write_timeout: Duration = Duration::from_secs(3), [Constraint::Positive];
        /// The Sentinels, instead of `addr`.
        sentinel_config: Option<Sentinel>;
        /// TLS to the Sentinels. Only with `sentinelConfig`.
        sentinel_tls: Option<RedisTls<S>>;
        /// TLS to Redis. Absent is plain text.
        tls: Option<RedisTls<S>>;
    }
    rules [
        Rule::ExactlyOne(&["addr", "sentinelConfig"]),
        Rule::Requires("sentinelTls", "sentinelConfig"),
        Rule::Cel(
            "!has(self.clusterMode) || !self.clusterMode || has(self.addr)",
            "clusterMode only together with addr",
        ),
    ]
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

raw_conversion!(Storage<S: SecretLocation> as RawStorage<S>);
raw_conversion!(Redis<S: SecretLocation> as RawRedis<S>);
raw_conversion!(Sentinel as RawSentinel);

// === impl Storage ===

impl<S: SecretLocation> Storage<S> {
    fn from_raw(raw: RawStorage<S>, _: &Node, _: &mut Context) -> Option<Self> {
        let RawStorage { r#type, redis } = raw;
        match r#type {
            StorageTag::Memory => Some(Self::Memory),
            StorageTag::Redis => redis.map(Box::new).map(Self::Redis),
        }
    }

    fn to_raw(&self) -> RawStorage<S> {
        match self.clone() {
            Self::Memory => RawStorage { r#type: StorageTag::Memory, redis: None },
            Self::Redis(redis) => RawStorage { r#type: StorageTag::Redis, redis: Some(*redis) },
        }
    }
}

// === impl Redis ===

impl<S: SecretLocation> Redis<S> {
    fn from_raw(raw: RawRedis<S>, node: &Node, cx: &mut Context) -> Option<Self> {
        let RawRedis {
            acl_user_config,
            addr,
            cluster_mode,
            dial_timeout,
            read_timeout,
            write_timeout,
            sentinel_config,
            sentinel_tls,
            tls,
        } = raw;
        let address = match (addr, sentinel_config) {
            (Some(addr), None) if cluster_mode => RedisAddress::Cluster(addr),
            (Some(addr), None) => RedisAddress::Standalone(addr),
            (None, Some(config)) if !cluster_mode => {
                RedisAddress::Sentinel { config, tls: sentinel_tls }
            }
            (None, Some(_)) => {
                cx.reject_key(
                    node,
                    "clusterMode",
                    "clusterMode without addr",
                    "clusterMode together with addr",
                );
                return None;
            }
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Self { acl_user_config, address, dial_timeout, read_timeout, write_timeout, tls })
    }

    fn to_raw(&self) -> RawRedis<S> {
        let Self { acl_user_config, address, dial_timeout, read_timeout, write_timeout, tls } =
            self.clone();
        let (addr, cluster_mode, sentinel_config, sentinel_tls) = match address {
            RedisAddress::Standalone(addr) => (Some(addr), false, None, None),
            RedisAddress::Cluster(addr) => (Some(addr), true, None, None),
            RedisAddress::Sentinel { config, tls } => (None, false, Some(config), tls),
        };
        RawRedis {
            acl_user_config,
            addr,
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
