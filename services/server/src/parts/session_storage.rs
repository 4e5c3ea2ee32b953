//! `sessionStorage`: storage of client sessions and of runs of composite tools.

use std::time::Duration;

use secrecy::SecretString;
use vmcp_compose::StoreLimits;
use vmcp_compose_redis::RedisWorkflowStore;
use vmcp_config::{ConfigError, SecretFile, SessionRedis, SessionStorage, Warning};
use vmcp_core::Clock;
use vmcp_redis::{Credentials, Redis, Settings};
use vmcp_seal::KeyRing;
use vmcp_session_redis::RedisSessionStorage;

use super::redis::RedisConverter;
use super::secret_files::SecretFiles;
use crate::session_storage::SharedStorage;

const AT: &str = "sessionStorage";

/// Environment variable with the password.
const PASSWORD: &str = "VMCP_SESSION_REDIS_PASSWORD";
/// Environment variable with the ACL user.
const USERNAME: &str = "VMCP_SESSION_REDIS_USERNAME";

/// Storage that replicas share, ready to connect.
#[derive(Debug)]
pub struct SessionStorageParts {
    settings: Box<Settings>,
    key_prefix: String,
    /// Section from which it was converted, for comparison.
    section: SessionRedis<SecretFile>,
}

/// Error that prevents the use of the configured storage (`sessionStorage`).
#[derive(Debug, thiserror::Error)]
pub enum SessionStorageError {
    /// Session ids would open in one process only.
    #[error(
        "sessionStorage.provider: redis needs --seal-key with the same key files at each replica, because replicas seal what they \
         store; create a key with: openssl rand -hex 32"
    )]
    NoSealKey,
    /// Sessions cannot be stored.
    #[error("sessionStorage: {0}")]
    Sessions(#[from] vmcp_session_redis::StartError),
    /// Runs of composite tools cannot be stored.
    #[error("sessionStorage: {0}")]
    Workflows(#[from] vmcp_compose_redis::StartError),
}

impl SessionStorageParts {
    /// Connects to Redis. While it is away, the storage starts without it and connects later.
    ///
    /// # Errors
    /// Returns an error if Redis rejects the settings, if the permissions of its user are insufficient, or if the ring has no key
    /// that other replicas may know.
    pub(crate) async fn start(
        self,
        ring: &KeyRing,
        session_ttl: Duration,
        clock: &Clock,
    ) -> Result<SharedStorage, SessionStorageError> {
        if !ring.is_shared() {
            return Err(SessionStorageError::NoSealKey);
        }
        let Self { settings, key_prefix, section } = self;
        let redis = Redis::connect_lazy(*settings);
        let sessions =
            vmcp_session_redis::Settings { key_prefix: key_prefix.clone(), ttl: session_ttl };
        let (ring, clock) = (ring.clone(), clock.clone());
        let sessions =
            RedisSessionStorage::start(redis.clone(), sessions, ring.clone(), clock.clone());
        let limits = StoreLimits::default();
        let workflows = vmcp_compose_redis::Settings { key_prefix, limits };
        let workflows = RedisWorkflowStore::start(redis, workflows, ring, clock);
        // Both wait for the dial timeout while Redis is away.
        let (sessions, workflows) = tokio::join!(sessions, workflows);
        Ok(SharedStorage { sessions: sessions?, workflows: workflows?, section })
    }

    /// Returns `true` if a running storage has this section.
    pub(crate) fn is_section(&self, running: &SharedStorage) -> bool {
        self.section == running.section
    }
}

/// Converts the section of the server with this name. `variable` returns the value of an environment variable.
pub(super) fn convert(
    name: &str,
    section: SessionStorage<SecretFile>,
    variable: impl Fn(&str) -> Option<String>,
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<Warning>,
) -> Option<SessionStorageParts> {
    let section = match section {
        SessionStorage::Memory => return None,
        SessionStorage::Redis(redis) => *redis,
    };
    let SessionRedis { connection, db, key_prefix } = section.clone();
    let mut files = SecretFiles::default();
    let converter = RedisConverter { at: AT, files: &mut files, errors, warnings };
    let connection = converter.convert(connection);
    errors.append(&mut files.errors);
    let secret = |name| variable(name).filter(|value| !value.is_empty()).map(SecretString::from);
    let credentials = Credentials { user: secret(USERNAME), password: secret(PASSWORD) };
    if credentials.user.is_some() && credentials.password.is_none() {
        let found = format!("{USERNAME} without {PASSWORD}");
        errors.push(ConfigError::new(AT, found, "both variables of the environment, or none"));
        return None;
    }
    let settings = Box::new(connection?.settings(credentials, db));
    let key_prefix = key_prefix.unwrap_or_else(|| default_prefix(name));
    Some(SessionStorageParts { settings, key_prefix, section })
}

/// Returns the prefix of the keys of the server with this name. A prefix has no spaces and braces.
fn default_prefix(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
    format!("vmcp:{}:", name.replace(|c| !allowed(c), "_"))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use vmcp_config::{File, Format};
    use vmcp_redis::Address;

    use super::*;

    /// Converts a section of `provider: redis`. The environment has a password.
    fn converted(fields: &str) -> (Option<SessionStorageParts>, Vec<ConfigError>) {
        let password = |name: &str| (name == PASSWORD).then(|| "canary".to_owned());
        converted_with(fields, password)
    }

    fn converted_with(
        fields: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> (Option<SessionStorageParts>, Vec<ConfigError>) {
        let text = format!(
            "name: my {{tools}}\nincomingAuth: {{type: anonymous}}\n\
             sessionStorage: {{provider: redis, {fields}}}\n"
        );
        let file = File::parse(&text, Format::Yaml).unwrap();
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let storage = file.session_storage;
        let parts = convert(&file.name, storage, variable, &mut errors, &mut warnings);
        (parts, errors)
    }

    #[test]
    fn converts_each_mode_to_settings() {
        let of = |fields: &str| converted(fields).0.unwrap();
        let parts = of(
            "address: 'r.test:7000', db: 3, keyPrefix: 'team:', dialTimeout: 1s, readTimeout: 2s, \
             writeTimeout: 4s, tls: {insecureSkipVerify: true}",
        );
        let Settings { address, credentials, tls, timeouts } = *parts.settings;
        assert!(
            matches!(&address, Address::Database(node, 3) if node.port() == 7000),
            "{address:?}"
        );
        assert_eq!(credentials.password.unwrap().expose_secret(), "canary");
        assert!(tls.is_some() && credentials.user.is_none());
        let seconds = [timeouts.dial, timeouts.read, timeouts.write].map(|time| time.as_secs());
        assert_eq!((seconds, &*parts.key_prefix), ([1, 2, 4], "team:"));

        let parts = of("address: '[::1]:7001', clusterMode: true");
        let address = parts.settings.address;
        assert!(matches!(&address, Address::Cluster(nodes) if nodes[0].host() == "::1"));
        assert_eq!(parts.key_prefix, "vmcp:my__tools_:");

        for (nodes, host) in [
            ("sentinelAddrs: ['s.test:1']", "s.test"),
            ("sentinelService: {name: s, namespace: n, port: 9}", "s.n.svc"),
        ] {
            let parts = of(&format!(
                "sentinelConfig: {{masterName: m, db: 2, {nodes}}}, \
                 sentinelTls: {{insecureSkipVerify: true}}"
            ));
            let Address::Sentinel(sentinel) = parts.settings.address else { panic!() };
            assert_eq!((&*sentinel.master, sentinel.database), ("m", 2));
            assert_eq!(sentinel.nodes[0].host(), host);
            assert!(sentinel.tls.is_some());
        }
    }

    #[test]
    fn reports_invalid_certificate_with_path() {
        for key in ["tls", "sentinelTls"] {
            let (parts, errors) = converted(&format!(
                "sentinelConfig: {{masterName: m, sentinelAddrs: ['s:1']}}, \
                 {key}: {{caCertSecretRef: {{file: /missing}}}}"
            ));
            let path = format!("sessionStorage.{key}.caCertSecretRef.file");
            assert!(parts.is_none() && errors.iter().any(|error| error.path == path), "{errors:?}");
        }
    }

    #[test]
    fn user_needs_password() {
        let user = |name: &str| (name == USERNAME).then(|| "u".to_owned());
        let (parts, errors) = converted_with("address: 'r:1'", user);
        assert!(parts.is_none());
        assert!(errors[0].to_string().contains(PASSWORD), "{errors:?}");
        let (parts, _) = converted_with("address: 'r:1'", |name| Some(name.to_owned()));
        let credentials = parts.unwrap().settings.credentials;
        assert_eq!(credentials.user.unwrap().expose_secret(), USERNAME);
    }
}
