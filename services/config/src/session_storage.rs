//! Storage of client sessions (`sessionStorage`).

use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    duration::Duration,
    patterns,
    redis::{
        ConnectionKeys, DIAL_TIMEOUT, READ_TIMEOUT, RedisAddress, RedisConnection, RedisTls,
        Sentinel, WRITE_TIMEOUT,
    },
    secret::{SecretFile, SecretLocation},
    string_types::HostPort,
    tree::Node,
};

/// Port of an address without one.
const REDIS_PORT: u16 = 6379;

/// Storage of client sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SessionStorage<S: SecretLocation = SecretFile> {
    /// In the process.
    #[default]
    Memory,
    /// In Redis, so that several processes share them.
    Redis(Box<SessionRedis<S>>),
}

/// Redis storage of client sessions. Its password is in the environment variable `VMCP_SESSION_REDIS_PASSWORD`.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRedis<S: SecretLocation = SecretFile> {
    /// Address, timeouts and TLS.
    pub connection: RedisConnection<S>,
    /// Number of the database of a single server; 0 with other addresses.
    pub db: u32,
    /// Prefix of all keys. `None` is `vmcp:<name of the server>:`.
    pub key_prefix: Option<String>,
}

keyword_enum! {
    /// Kind of storage.
    enum SessionStorageTag {
        /// In the process.
        Memory = "memory",
        /// In Redis.
        Redis = "redis",
    }
}

section! {
    /// Storage of client sessions. The Redis password is in the environment variable VMCP_SESSION_REDIS_PASSWORD, the ACL
    /// user, if any, in VMCP_SESSION_REDIS_USERNAME.
    struct RawSessionStorage<S: SecretLocation> {
        /// `memory` for one process, `redis` for several that share sessions.
        provider: SessionStorageTag;
        /// Address of one Redis server, `host:port`, or with `clusterMode` of a node of the cluster. The default port is
        /// 6379. `provider: redis` requires it or `sentinelConfig`.
        address: Option<String>, [Constraint::NotEmpty];
        /// Number of the Redis database. The default is 0, the only one with `clusterMode`. Sentinel has
        /// `sentinelConfig.db`.
        db: Option<u32>, [Constraint::Range(0, 0x7fff_ffff)];
        /// Prefix of all keys in Redis, without braces. The default is `vmcp:<name>:` with the name of the server.
        key_prefix: Option<String>, [Constraint::Matches(&patterns::KEY_PREFIX)];
        /// Use the Redis Cluster protocol. Requires `address`.
        cluster_mode: Option<bool>;
        /// The Sentinels, instead of `address`.
        sentinel_config: Option<Sentinel>;
        /// TLS to the Sentinels. Only with `sentinelConfig`.
        sentinel_tls: Option<RedisTls<S>>;
        /// TLS to Redis. Absent is plain text.
        tls: Option<RedisTls<S>>;
        /// Timeout for connecting to Redis. The default is 5s.
        dial_timeout: Option<Duration>, [Constraint::Positive];
        /// Timeout for a read from the socket. The default is 3s.
        read_timeout: Option<Duration>, [Constraint::Positive];
        /// Timeout for a write to the socket. The default is 3s.
        write_timeout: Option<Duration>, [Constraint::Positive];
    }
    rules [
        Rule::Variants {
            tag: "provider",
            default: None,
            variants: &[
                Variant {
                    value: "memory",
                    requires: &[],
                    forbids: &[
                        "address",
                        "db",
                        "keyPrefix",
                        "clusterMode",
                        "sentinelConfig",
                        "sentinelTls",
                        "tls",
                        "dialTimeout",
                        "readTimeout",
                        "writeTimeout",
                    ],
                },
                Variant { value: "redis", requires: &[], forbids: &[] },
            ],
        },
        Rule::ExactlyOneWith("provider", "redis", &["address", "sentinelConfig"]),
        Rule::Requires("sentinelTls", "sentinelConfig"),
    ]
}

raw_conversion!(SessionStorage<S: SecretLocation> as RawSessionStorage<S>);

impl<S: SecretLocation> SessionStorage<S> {
    fn from_raw(raw: RawSessionStorage<S>, node: &Node, cx: &mut Context) -> Option<Self> {
        let RawSessionStorage {
            provider,
            address,
            db,
            key_prefix,
            cluster_mode,
            sentinel_config,
            sentinel_tls,
            tls,
            dial_timeout,
            read_timeout,
            write_timeout,
        } = raw;
        match provider {
            SessionStorageTag::Memory => return Some(Self::Memory),
            SessionStorageTag::Redis => {}
        }
        let address = match address {
            Some(text) => Some(host_port(&text, node, cx)?),
            None => None,
        };
        let keys = ConnectionKeys {
            address,
            cluster_mode: cluster_mode.unwrap_or(false),
            dial_timeout: dial_timeout.unwrap_or(DIAL_TIMEOUT),
            read_timeout: read_timeout.unwrap_or(READ_TIMEOUT),
            write_timeout: write_timeout.unwrap_or(WRITE_TIMEOUT),
            sentinel_config,
            sentinel_tls,
            tls,
        };
        let connection = RedisConnection::from_keys(keys, "address", node, cx)?;
        let db = db.unwrap_or(0);
        let allowed = match &connection.address {
            RedisAddress::Cluster(_) => "db: 0 with clusterMode: a cluster has no other database",
            RedisAddress::Sentinel { .. } => "sentinelConfig.db for the database of the master",
            RedisAddress::Standalone(_) => "",
        };
        if db > 0 && !allowed.is_empty() {
            cx.reject_key(node, "db", db.to_string(), allowed);
            return None;
        }
        Some(Self::Redis(Box::new(SessionRedis { connection, db, key_prefix })))
    }

    fn to_raw(&self) -> RawSessionStorage<S> {
        let Self::Redis(redis) = self.clone() else {
            return RawSessionStorage {
                provider: SessionStorageTag::Memory,
                address: None,
                db: None,
                key_prefix: None,
                cluster_mode: None,
                sentinel_config: None,
                sentinel_tls: None,
                tls: None,
                dial_timeout: None,
                read_timeout: None,
                write_timeout: None,
            };
        };
        let SessionRedis { connection, db, key_prefix } = *redis;
        let ConnectionKeys {
            address,
            cluster_mode,
            dial_timeout,
            read_timeout,
            write_timeout,
            sentinel_config,
            sentinel_tls,
            tls,
        } = connection.into_keys();
        RawSessionStorage {
            provider: SessionStorageTag::Redis,
            db: address.as_ref().map(|_| db),
            cluster_mode: address.as_ref().map(|_| cluster_mode),
            address: address.map(|address| address.as_str().to_owned()),
            key_prefix,
            sentinel_config,
            sentinel_tls,
            tls,
            dial_timeout: Some(dial_timeout),
            read_timeout: Some(read_timeout),
            write_timeout: Some(write_timeout),
        }
    }
}

/// Reads an address, to which it adds the default port.
fn host_port(text: &str, node: &Node, cx: &mut Context) -> Option<HostPort> {
    let address = HostPort::new(text).or_else(|| HostPort::new(&format!("{text}:{REDIS_PORT}")));
    if address.is_none() {
        cx.reject_key(node, "address", format!("\"{}\"", crate::tree::shorten(text)), "host:port");
    }
    address
}
