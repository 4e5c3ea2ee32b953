//! `authServer.storage`: storage of the authorization server's state.

use std::sync::Arc;

use vmcp_auth_redis::{Namespace, RedisStore, StartError};
use vmcp_auth_store::{Limits, MemoryStore, Store};
use vmcp_config::SecretFile;
use vmcp_config::auth_server::{Redis, RedisAcl, Storage as Section};
use vmcp_core::Clock;
use vmcp_redis::{Credentials, Settings};

use super::Converter;
use crate::parts::redis::RedisConverter;

const AT: &str = "authServer.storage";
const REDIS: &str = "authServer.storage.redis";

/// Storage of the authorization state.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// In memory.
    Memory,
    /// In Redis, under this namespace.
    Redis(Box<Settings>, Namespace),
}

/// Error that prevents the use of the configured store (`authServer.storage.redis`).
#[derive(Debug, thiserror::Error)]
#[error("{REDIS}: {0}")]
pub struct StorageError(#[from] StartError);

impl Storage {
    /// Returns the kind of storage.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis(..) => "redis",
        }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// Returns an error if Redis cannot be reached, or if the permissions of its user are insufficient.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, StorageError> {
        let (limits, clock) = (Limits::default(), Clock::system());
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new(limits, clock))),
            Self::Redis(settings, namespace) => {
                let redis = vmcp_redis::Redis::connect(Settings::clone(settings)).await;
                let redis = redis.map_err(StartError::from)?;
                Ok(Arc::new(RedisStore::start(redis, namespace, limits, clock).await?))
            }
        }
    }
}

impl Converter {
    pub(super) fn storage(
        &mut self,
        section: Section<SecretFile>,
        issuer: &str,
    ) -> Option<Storage> {
        let redis = match section {
            Section::Memory => {
                let message = "memory: logins, clients and tokens are lost when the process ends, and replicas do \
                               not share them";
                self.warn(&format!("{AT}.type"), message);
                return Some(Storage::Memory);
            }
            Section::Redis(redis) => *redis,
        };
        let Redis { acl_user_config, connection } = redis;
        let RedisAcl { password_secret_ref, username_secret_ref } = acl_user_config;
        let at = format!("{REDIS}.aclUserConfig");
        let password = self.files.text(&format!("{at}.passwordSecretRef"), &password_secret_ref);
        let user = username_secret_ref
            .map(|user| self.files.text(&format!("{at}.usernameSecretRef"), &user));
        let Self { files, errors, warnings } = self;
        let connection = RedisConverter { at: REDIS, files, errors, warnings }.convert(connection);
        let credentials = Credentials {
            user: user.map_or(Some(None), |user| user.map(Some))?,
            password: Some(password?),
        };
        let settings = connection?.settings(credentials, 0);
        // Only few characters of an issuer are invalid in a namespace, such as the brackets of an IPv6 address.
        let named =
            issuer.replace(|c: char| !c.is_ascii_alphanumeric() && !"-._/:".contains(c), "_");
        let namespace = Namespace::new(&named).map_err(|error| {
            self.reject("authServer.issuer", format!("\"{issuer}\""), error.to_string());
        });
        Some(Storage::Redis(Box::new(settings), namespace.ok()?))
    }
}
