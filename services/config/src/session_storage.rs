//! Storage of client sessions (`sessionStorage`).

use crate::{
    context::Context,
    shape::{Limit, Rule, Variant, alternative, choice, section},
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

choice! {
    /// Kind of storage.
    enum ProviderWord {
        /// In the process.
        Memory = "memory",
        /// In Redis.
        Redis = "redis",
    }
}

section! {
    /// Storage of client sessions. The Redis password is in the environment variable VMCP_SESSION_REDIS_PASSWORD.
    struct SessionStorageForm {
        /// `memory` for one process, `redis` for several that share sessions.
        provider: ProviderWord;
        /// Address of the Redis server. Required with `provider: redis`.
        address: Option<String>, [Limit::NotEmpty];
        /// Number of the Redis database.
        db: Option<u32>, [Limit::Range(0, 0x7fff_ffff)];
        /// Prefix of all keys in Redis.
        key_prefix: Option<String>;
    }
    rules [Rule::Variants {
        tag: "provider",
        default: None,
        variants: &[
            Variant { value: "memory", needs: &[], refuses: &["address", "db", "keyPrefix"] },
            Variant { value: "redis", needs: &["address"], refuses: &[] },
        ],
    }]
}

alternative!(SessionStorage as SessionStorageForm);

impl SessionStorage {
    fn from_wire(wire: SessionStorageForm, _: &Node, _: &mut Context) -> Option<Self> {
        let SessionStorageForm { provider, address, db, key_prefix } = wire;
        match provider {
            ProviderWord::Memory => Some(Self::Memory),
            ProviderWord::Redis => Some(Self::Redis(SessionRedis {
                address: address?,
                db: db.unwrap_or(0),
                key_prefix,
            })),
        }
    }

    fn wire(&self) -> SessionStorageForm {
        match self.clone() {
            Self::Memory => SessionStorageForm {
                provider: ProviderWord::Memory,
                address: None,
                db: None,
                key_prefix: None,
            },
            Self::Redis(SessionRedis { address, db, key_prefix }) => SessionStorageForm {
                provider: ProviderWord::Redis,
                address: Some(address),
                db: Some(db),
                key_prefix,
            },
        }
    }
}
