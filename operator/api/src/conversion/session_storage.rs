//! Storage of client sessions.

use serde_json::json;
use vmcp_config::{SecretFile, SecretRef, SessionRedis, SessionStorage, from_json};

use super::{
    DefaultRedis, WarningReason,
    converter::{Converter, secret},
    strategy::filled,
};
use crate::virtual_mcp_server::{
    ServerValid, SessionStorage as ResourceStorage, SessionStorageProvider, SessionStorageWarning,
};

/// Variable that the server reads the password of Redis from.
const PASSWORD: &str = "VMCP_SESSION_REDIS_PASSWORD";

const AT: &str = "spec.sessionStorage";

impl Converter<'_> {
    /// Converts `spec.sessionStorage`, or else the section of `spec.config`, or else the default of the cluster.
    pub(super) fn session_storage(
        &mut self,
        inline: Option<SessionStorage<SecretRef>>,
    ) -> Option<SessionStorage> {
        let storage = match (self.inputs.server.spec.session_storage.as_ref(), inline) {
            (Some(storage), inline) => {
                if inline.is_some() {
                    self.warn(
                        WarningReason::ConfigOverridden,
                        "spec.config.sessionStorage has no effect: spec.sessionStorage replaces it",
                    );
                }
                self.resource_storage(storage)
            }
            (None, Some(inline)) => self.inline_storage(inline),
            (None, None) => match self.inputs.defaults.redis.as_ref() {
                None => Some(SessionStorage::Memory),
                Some(DefaultRedis { address, password }) => {
                    let path = "default Redis of the operator";
                    self.redis_storage(address, 0, None, password.as_ref(), path)
                }
            },
        };
        if let Some(storage) = &storage {
            self.report_storage(storage);
        }
        storage
    }

    fn resource_storage(&mut self, storage: &ResourceStorage) -> Option<SessionStorage> {
        let ResourceStorage { provider, address, db, key_prefix, password_ref } = storage;
        match provider {
            SessionStorageProvider::Memory => {
                let given = [
                    ("address", address.is_some()),
                    ("db", *db != 0),
                    ("keyPrefix", key_prefix.is_some()),
                    ("passwordRef", password_ref.is_some()),
                ];
                for (key, _) in given.into_iter().filter(|(_, given)| *given) {
                    let message = format!(
                        "found {key} with provider: memory; allowed: {key} only with provider: redis"
                    );
                    self.reject(format!("{AT}.{key}"), ServerValid::Invalid, message);
                }
                Some(SessionStorage::Memory)
            }
            SessionStorageProvider::Redis => {
                let Some(address) = filled(address.as_deref()) else {
                    let message =
                        "found no value; allowed: the address of Redis with provider: redis";
                    self.reject(format!("{AT}.address"), ServerValid::Invalid, message);
                    return None;
                };
                let prefix = filled(key_prefix.as_deref());
                self.redis_storage(address, *db, prefix, password_ref.as_ref(), AT)
            }
        }
    }

    fn redis_storage(
        &mut self,
        address: &str,
        db: i32,
        key_prefix: Option<&str>,
        password: Option<&SecretRef>,
        path: &str,
    ) -> Option<SessionStorage> {
        let prefix = key_prefix.map_or_else(|| self.key_prefix(), str::to_owned);
        let section =
            json!({ "provider": "redis", "address": address, "db": db, "keyPrefix": prefix });
        let storage = match from_json(&section) {
            Ok(storage) => Some(storage),
            Err(errors) => {
                self.reject_part(path, ServerValid::Invalid, &errors);
                None
            }
        };
        if let Some(reference) = password {
            let path = format!("{path}.passwordRef");
            if let Err(missing) = self.entry(PASSWORD.to_owned(), secret(reference), &path) {
                self.reject_missing(&missing, &path);
                return None;
            }
        }
        storage
    }

    fn inline_storage(&mut self, storage: SessionStorage<SecretRef>) -> Option<SessionStorage> {
        let redis = match storage {
            SessionStorage::Memory => return Some(SessionStorage::Memory),
            SessionStorage::Redis(redis) => *redis,
        };
        let SessionRedis { connection, db, key_prefix } = redis;
        let connection = self.redis_connection(connection, "spec.config.sessionStorage")?;
        let key_prefix = Some(key_prefix.unwrap_or_else(|| self.key_prefix()));
        let redis: SessionRedis<SecretFile> = SessionRedis { connection, db, key_prefix };
        Some(SessionStorage::Redis(Box::new(redis)))
    }

    /// Returns the prefix of the server's keys, which no other server of the cluster has.
    fn key_prefix(&self) -> String {
        format!("vmcp:{}:{}:", self.inputs.namespace(), self.inputs.name())
    }

    fn report_storage(&mut self, storage: &SessionStorage) {
        let replicas = self.inputs.server.spec.replicas;
        match storage {
            SessionStorage::Redis(_) => {
                self.report(SessionStorageWarning::Configured, "replicas share sessions in Redis");
            }
            SessionStorage::Memory if replicas.is_some_and(|replicas| replicas > 1) => {
                self.report(
                    SessionStorageWarning::MissingForReplicas,
                    "with several replicas, a session ends with its replica; set sessionStorage.provider: redis",
                );
            }
            SessionStorage::Memory => {
                let message = "sessions are in the memory of the pod";
                self.report(SessionStorageWarning::NotApplicable, message);
            }
        }
    }
}
