//! Storage of the authorization server's state.

use super::SecretLocation;
use crate::{
    context::Context,
    duration::Duration,
    shape::{Limit, Rule, Variant, alternative, choice, section},
    text::HostPort,
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

/// The Redis that holds the authorization server's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Redis<S: SecretLocation> {
    /// Credentials for Redis.
    pub acl_user_config: RedisAcl<S>,
    /// Address of Redis.
    pub address: RedisAddress<S>,
    /// The longest that connecting may take.
    pub dial_timeout: Duration,
    /// The longest that reading from the socket may take.
    pub read_timeout: Duration,
    /// The longest that writing to the socket may take.
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
        pub name: String, [Limit::NotEmpty];
        /// Its namespace. Absent is the same.
        pub namespace: Option<String>;
        /// Its port.
        pub port: u32 = 26379, [Limit::Range(1, 65535)];
    }
}

choice! {
    /// Kind of storage.
    enum StorageWord {
        /// In the process.
        Memory = "memory",
        /// In Redis.
        Redis = "redis",
    }
}

section! {
    /// Storage of the authorization server's state.
    struct StorageForm<S: SecretLocation> {
        /// `memory` for one process, `redis` for several.
        r#type: StorageWord = StorageWord::Memory;
        /// Required with `type: redis`.
        redis: Option<Redis<S>>;
    }
    rules [Rule::Variants {
        tag: "type",
        default: Some("memory"),
        variants: &[
            Variant { value: "memory", needs: &[], refuses: &["redis"] },
            Variant { value: "redis", needs: &["redis"], refuses: &[] },
        ],
    }]
}

section! {
    /// The Redis that holds the authorization server's state.
    struct RedisForm<S: SecretLocation> {
        /// Credentials for Redis.
        acl_user_config: RedisAcl<S>;
        /// Address of one server or, with `clusterMode`, of a node of the cluster.
        addr: Option<HostPort>;
        /// Speak the Redis Cluster protocol. Needs `addr`.
        cluster_mode: bool = false;
        /// The longest that connecting may take.
        dial_timeout: Duration = Duration::from_secs(5), [Limit::Positive];
        /// The longest that reading from the socket may take.
        read_timeout: Duration = Duration::from_secs(3), [Limit::Positive];
        /// The longest that writing to the socket may take.
        write_timeout: Duration = Duration::from_secs(3), [Limit::Positive];
        /// The Sentinels, instead of `addr`.
        sentinel_config: Option<Sentinel>;
        /// TLS to the Sentinels. Only with `sentinelConfig`.
        sentinel_tls: Option<RedisTls<S>>;
        /// TLS to Redis. Absent is plain text.
        tls: Option<RedisTls<S>>;
    }
    rules [
        Rule::ExactlyOne(&["addr", "sentinelConfig"]),
        Rule::Needs("sentinelTls", "sentinelConfig"),
    ]
}

section! {
    /// The Sentinels and the master they watch.
    struct SentinelForm {
        /// Name of the master.
        master_name: String, [Limit::NotEmpty];
        /// Number of the database.
        db: u32 = 0, [Limit::Range(0, 0x7fff_ffff)];
        /// Addresses of Sentinels.
        sentinel_addrs: Option<Vec<HostPort>>, [Limit::MinItems(1)];
        /// Kubernetes Service in front of the Sentinels.
        sentinel_service: Option<SentinelService>;
    }
    rules [Rule::ExactlyOne(&["sentinelAddrs", "sentinelService"])]
}

alternative!(Storage<S: SecretLocation> as StorageForm<S>);
alternative!(Redis<S: SecretLocation> as RedisForm<S>);
alternative!(Sentinel as SentinelForm);

// === impl Storage ===

impl<S: SecretLocation> Storage<S> {
    fn from_wire(wire: StorageForm<S>, _: &Node, _: &mut Context) -> Option<Self> {
        let StorageForm { r#type, redis } = wire;
        match r#type {
            StorageWord::Memory => Some(Self::Memory),
            StorageWord::Redis => redis.map(Box::new).map(Self::Redis),
        }
    }

    fn wire(&self) -> StorageForm<S> {
        match self.clone() {
            Self::Memory => StorageForm { r#type: StorageWord::Memory, redis: None },
            Self::Redis(redis) => StorageForm { r#type: StorageWord::Redis, redis: Some(*redis) },
        }
    }
}

// === impl Redis ===

impl<S: SecretLocation> Redis<S> {
    fn from_wire(wire: RedisForm<S>, node: &Node, cx: &mut Context) -> Option<Self> {
        let RedisForm {
            acl_user_config,
            addr,
            cluster_mode,
            dial_timeout,
            read_timeout,
            write_timeout,
            sentinel_config,
            sentinel_tls,
            tls,
        } = wire;
        let address = match (addr, sentinel_config) {
            (Some(addr), None) if cluster_mode => RedisAddress::Cluster(addr),
            (Some(addr), None) => RedisAddress::Standalone(addr),
            (None, Some(config)) if !cluster_mode => {
                RedisAddress::Sentinel { config, tls: sentinel_tls }
            }
            (None, Some(_)) => {
                cx.refuse_key(
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

    fn wire(&self) -> RedisForm<S> {
        let Self { acl_user_config, address, dial_timeout, read_timeout, write_timeout, tls } =
            self.clone();
        let (addr, cluster_mode, sentinel_config, sentinel_tls) = match address {
            RedisAddress::Standalone(addr) => (Some(addr), false, None, None),
            RedisAddress::Cluster(addr) => (Some(addr), true, None, None),
            RedisAddress::Sentinel { config, tls } => (None, false, Some(config), tls),
        };
        RedisForm {
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
    fn from_wire(wire: SentinelForm, _: &Node, _: &mut Context) -> Option<Self> {
        let SentinelForm { master_name, db, sentinel_addrs, sentinel_service } = wire;
        let nodes = sentinel_addrs
            .map(SentinelNodes::Addresses)
            .or_else(|| sentinel_service.map(SentinelNodes::Service))?;
        Some(Self { master_name, db, nodes })
    }

    fn wire(&self) -> SentinelForm {
        let Self { master_name, db, nodes } = self.clone();
        let (sentinel_addrs, sentinel_service) = match nodes {
            SentinelNodes::Addresses(addresses) => (Some(addresses), None),
            SentinelNodes::Service(service) => (None, Some(service)),
        };
        SentinelForm { master_name, db, sentinel_addrs, sentinel_service }
    }
}
