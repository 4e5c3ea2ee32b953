//! Storage of the authorization server's state.

use super::SecretLocation;
use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    duration::Duration,
    redis::{
        ConnectionKeys, DIAL_TIMEOUT, READ_TIMEOUT, RedisConnection, RedisTls, Sentinel,
        WRITE_TIMEOUT,
    },
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
    /// Address, timeouts and TLS.
    pub connection: RedisConnection<S>,
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
        dial_timeout: Duration = DIAL_TIMEOUT, [Constraint::Positive];
        /// Timeout for a read from the socket.
        read_timeout: Duration = READ_TIMEOUT, [Constraint::Positive];
        /// Timeout for a write to the socket.
        write_timeout: Duration = WRITE_TIMEOUT, [Constraint::Positive];
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

raw_conversion!(Storage<S: SecretLocation> as RawStorage<S>);
raw_conversion!(Redis<S: SecretLocation> as RawRedis<S>);

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
        let keys = ConnectionKeys {
            address: addr,
            cluster_mode,
            dial_timeout,
            read_timeout,
            write_timeout,
            sentinel_config,
            sentinel_tls,
            tls,
        };
        let connection = RedisConnection::from_keys(keys, "addr", node, cx)?;
        Some(Self { acl_user_config, connection })
    }

    fn to_raw(&self) -> RawRedis<S> {
        let Self { acl_user_config, connection } = self.clone();
        let ConnectionKeys {
            address: addr,
            cluster_mode,
            dial_timeout,
            read_timeout,
            write_timeout,
            sentinel_config,
            sentinel_tls,
            tls,
        } = connection.into_keys();
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
