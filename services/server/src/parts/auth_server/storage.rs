//! `authServer.storage`: storage of the authorization server's state.

use std::sync::Arc;

use vmcp_auth_redis::{Namespace, RedisStore, StartError};
use vmcp_auth_store::{Limits, MemoryStore, Store};
use vmcp_config::auth_server::{
    Redis, RedisAcl, RedisAddress, RedisTls, SentinelNodes, SentinelService, Storage as Section,
};
use vmcp_config::{ConfigError, HostPort, SecretFile, auth_server};
use vmcp_core::Clock;
use vmcp_redis::{Address, Credentials, Node, Sentinel, Settings, Timeouts, Tls, TlsError};

use super::Converter;

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
        let Redis { acl_user_config, address, dial_timeout, read_timeout, write_timeout, tls } =
            redis;
        let RedisAcl { password_secret_ref, username_secret_ref } = acl_user_config;
        let at = format!("{REDIS}.aclUserConfig");
        let password = self.files.text(&format!("{at}.passwordSecretRef"), &password_secret_ref);
        let user = username_secret_ref
            .map(|user| self.files.text(&format!("{at}.usernameSecretRef"), &user));
        let tls = self.tls(&format!("{REDIS}.tls"), tls);
        let address = self.address(address);
        let settings = Settings {
            address: address?,
            credentials: Credentials {
                user: user.map_or(Some(None), |user| user.map(Some))?,
                password: Some(password?),
            },
            tls: tls?,
            timeouts: Timeouts {
                dial: dial_timeout.into(),
                read: read_timeout.into(),
                write: write_timeout.into(),
            },
        };
        // Only few characters of an issuer are invalid in a namespace, such as the brackets of an IPv6 address.
        let named =
            issuer.replace(|c: char| !c.is_ascii_alphanumeric() && !"-._/:".contains(c), "_");
        let namespace = Namespace::new(&named).map_err(|error| {
            self.reject("authServer.issuer", format!("\"{issuer}\""), error.to_string());
        });
        Some(Storage::Redis(Box::new(settings), namespace.ok()?))
    }

    fn address(&mut self, address: RedisAddress<SecretFile>) -> Option<Address> {
        Some(match address {
            RedisAddress::Standalone(at) => Address::Standalone(node(&at)),
            RedisAddress::Cluster(at) => Address::Cluster(vec![node(&at)]),
            RedisAddress::Sentinel { config, tls } => {
                let auth_server::Sentinel { master_name, db, nodes } = config;
                let nodes = match nodes {
                    SentinelNodes::Addresses(all) => all.iter().map(node).collect(),
                    SentinelNodes::Service(service) => {
                        let node = service_node(service).map_err(|error| self.errors.push(error));
                        vec![node.ok()?]
                    }
                };
                let tls = self.tls(&format!("{REDIS}.sentinelTls"), tls)?;
                Address::Sentinel(Sentinel { master: master_name, database: db, nodes, tls })
            }
        })
    }

    #[expect(clippy::option_option, reason = "no TLS is what was asked for; a wrong one is not")]
    fn tls(&mut self, at: &str, tls: Option<RedisTls<SecretFile>>) -> Option<Option<Tls>> {
        let Some(RedisTls { ca_cert_secret_ref, insecure_skip_verify }) = tls else {
            return Some(None);
        };
        let key = format!("{at}.caCertSecretRef");
        let ca = ca_cert_secret_ref.map(|file| self.files.bytes(&key, &file));
        let ca = ca.map_or(Some(None), |ca| ca.map(Some))?;
        let tls = if insecure_skip_verify {
            self.warn(
                &format!("{at}.insecureSkipVerify"),
                "certificates are not verified: an attacker on the network can read and change the traffic",
            );
            Tls::insecure_skip_verify()
        } else {
            match &ca {
                None => Tls::system(),
                Some(pem) => Tls::with_ca(secrecy::ExposeSecret::expose_secret(pem)),
            }
        };
        tls.map(Some)
            .map_err(|error: TlsError| {
                self.reject(key, "no usable certificate authority", error.to_string());
            })
            .ok()
    }
}

fn node(address: &HostPort) -> Node {
    let node = address.as_str().rsplit_once(':').and_then(|(host, port)| {
        Some(Node::new(host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
    });
    node.expect("a HostPort has a port from 1 to 65535")
}

/// Returns the DNS name of the Service within the cluster.
fn service_node(service: SentinelService) -> Result<Node, ConfigError> {
    let SentinelService { name, namespace, port } = service;
    // Only a configuration that was built in code has another port.
    let port = u16::try_from(port).map_err(|_| {
        let path = format!("{REDIS}.sentinelConfig.sentinelService.port");
        ConfigError::new(path, port.to_string(), "a port from 1 to 65535")
    })?;
    let host = match namespace {
        Some(namespace) => format!("{name}.{namespace}.svc"),
        None => name,
    };
    Ok(Node::new(host, port))
}
