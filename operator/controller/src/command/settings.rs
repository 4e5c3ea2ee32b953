//! Arguments that generated objects depend on.

use std::net::{IpAddr, Ipv4Addr};

use clap::Args;
use vmcp_api::SecretRef;
use vmcp_api::conversion::{ClusterDefaults, DefaultRedis};
use vmcp_operator::Settings;

/// Settings that are the same for all servers.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// Image of the servers.
    #[arg(long, env = "VMCP_IMAGE")]
    image: String,
    /// Secrets with credentials for the image registry, for the pods of all servers.
    #[arg(long, env = "VMCP_IMAGE_PULL_SECRETS", value_delimiter = ',', value_name = "NAME")]
    image_pull_secret: Vec<String>,
    /// Address on which servers listen; :: in a cluster of IPv6.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    server_listen: IpAddr,
    #[command(flatten)]
    defaults: DefaultsArgs,
}

/// Settings of the cluster, which servers without settings of their own use.
#[derive(Debug, Args)]
pub(crate) struct DefaultsArgs {
    /// DNS domain of the cluster.
    #[arg(long, env = "VMCP_CLUSTER_DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// Redis for the sessions of servers without sessionStorage.
    #[arg(long, env = "VMCP_DEFAULT_REDIS_ADDRESS", value_name = "HOST:PORT")]
    default_redis: Option<String>,
    /// Secret with the password of that Redis, in the namespace of each server.
    #[arg(
        long,
        env = "VMCP_DEFAULT_REDIS_SECRET",
        value_name = "NAME",
        requires = "default_redis"
    )]
    default_redis_secret: Option<String>,
    /// Key of the password in the Secret.
    #[arg(long, env = "VMCP_DEFAULT_REDIS_SECRET_KEY", default_value = "redis-password")]
    default_redis_secret_key: String,
}

// === impl SettingsArgs ===

impl SettingsArgs {
    pub(crate) fn settings(&self, is_openshift: bool) -> Settings {
        Settings {
            image: self.image.clone(),
            image_pull_secrets: non_empty(&self.image_pull_secret),
            is_openshift,
            listen: self.server_listen,
            defaults: self.defaults.defaults(),
        }
    }
}

// === impl DefaultsArgs ===

impl DefaultsArgs {
    pub(crate) fn defaults(&self) -> ClusterDefaults {
        let redis = self.default_redis.clone().map(|address| DefaultRedis {
            address,
            password: self
                .default_redis_secret
                .clone()
                .map(|name| SecretRef { name, key: self.default_redis_secret_key.clone() }),
        });
        ClusterDefaults { domain: self.cluster_domain.clone(), redis }
    }
}

/// Returns the names of a list, without the white space around them.
pub(crate) fn non_empty(names: &[String]) -> Vec<String> {
    let names = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}
