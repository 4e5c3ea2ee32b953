//! Storage of client sessions (`sessionStorage`).

use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    tree::Node,
};

/// Storage of client sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SessionStorage {
    /// In the process.
    #[default]
    Memory,
    /// In Redis, so that several processes share them.
    Redis(SessionRedis),
}

/// The Redis that holds client sessions. Its password is in the environment variable `VMCP_SESSION_REDIS_PASSWORD`.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRedis {
    /// Address of the server.
    pub address: String,
    /// Number of the database.
    pub db: u32,
    /// Prefix of all keys.
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
    /// Storage of client sessions. The Redis password is in the environment variable VMCP_SESSION_REDIS_PASSWORD.
    struct RawSessionStorage {
        /// `memory` for one process, `redis` for several that share sessions.
        provider: SessionStorageTag;
        /// Address of the Redis server. Required with `provider: redis`.
        address: Option<String>, [Constraint::NotEmpty];
        /// Number of the Redis database.
        db: Option<u32>, [Constraint::Range(0, 0x7fff_ffff)];
        /// Prefix of all keys in Redis.
        key_prefix: Option<String>;
    }
    rules [Rule::Variants {
        tag: "provider",
        default: None,
        variants: &[
            Variant { value: "memory", requires: &[], forbids: &["address", "db", "keyPrefix"] },
            Variant { value: "redis", requires: &["address"], forbids: &[] },
        ],
    }]
}

raw_conversion!(SessionStorage as RawSessionStorage);

impl SessionStorage {
    fn from_raw(raw: RawSessionStorage, _: &Node, _: &mut Context) -> Option<Self> {
        let RawSessionStorage { provider, address, db, key_prefix } = raw;
        match provider {
            SessionStorageTag::Memory => Some(Self::Memory),
            SessionStorageTag::Redis => Some(Self::Redis(SessionRedis {
                address: address?,
                db: db.unwrap_or(0),
                key_prefix,
            })),
        }
    }

    fn to_raw(&self) -> RawSessionStorage {
        match self.clone() {
            Self::Memory => RawSessionStorage {
                provider: SessionStorageTag::Memory,
                address: None,
                db: None,
                key_prefix: None,
            },
            Self::Redis(SessionRedis { address, db, key_prefix }) => RawSessionStorage {
                provider: SessionStorageTag::Redis,
                address: Some(address),
                db: Some(db),
                key_prefix,
            },
        }
    }
}
