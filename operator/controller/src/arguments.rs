//! Arguments of the operator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Parser;
use tracing::level_filters::LevelFilter;
use vmcp_api::SecretRef;
use vmcp_api::conversion::{ClusterDefaults, DefaultRedis};
use vmcp_operator::{LeaseName, Settings};

/// Name of the Lease for which replicas of the operator compete.
const LEASE: &str = "vmcp-operator-leader";

/// Kubernetes operator of vmcp: from VirtualMCPServer resources to running gateways.
#[derive(Debug, Parser)]
#[command(name = "vmcp-operator", version)]
pub(crate) struct Arguments {
    /// Image of the servers.
    #[arg(long, env = "VMCP_IMAGE")]
    image: String,
    /// Secrets with credentials for the image registry, for the pods of all servers.
    #[arg(long, env = "VMCP_IMAGE_PULL_SECRETS", value_delimiter = ',', value_name = "NAME")]
    image_pull_secret: Vec<String>,
    /// Namespaces that the operator watches. None means all.
    #[arg(long, env = "WATCH_NAMESPACE", value_delimiter = ',', value_name = "NAME")]
    namespace: Vec<String>,
    /// Address of /healthz, /readyz and /metrics.
    #[arg(long, env = "VMCP_OPERATOR_LISTEN", default_value = "0.0.0.0:8080")]
    pub(crate) listen: SocketAddr,
    /// Lets one of several replicas work at a time. Needs POD_NAMESPACE.
    #[arg(long, requires = "pod_namespace")]
    leader_elect: bool,
    /// Namespace of the operator.
    #[arg(long, env = "POD_NAMESPACE", hide = true)]
    pod_namespace: Option<String>,
    /// Name of the operator's pod.
    #[arg(long, env = "POD_NAME", hide = true)]
    pod_name: Option<String>,
    /// DNS domain of the cluster.
    #[arg(long, env = "VMCP_CLUSTER_DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// Address on which servers listen; :: in a cluster of IPv6.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    server_listen: IpAddr,
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
    /// The cluster assigns the users of pods, as OpenShift does. Absent, the operator asks the cluster.
    #[arg(long, value_name = "BOOLEAN")]
    pub(crate) openshift: Option<bool>,
    /// Level of the log: error, warn, info, debug or trace.
    #[arg(long, env = "VMCP_OPERATOR_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: LevelFilter,
}

// === impl Arguments ===

impl Arguments {
    pub(crate) fn settings(&self, is_openshift: bool) -> Settings {
        let redis = self.default_redis.clone().map(|address| DefaultRedis {
            address,
            password: self
                .default_redis_secret
                .clone()
                .map(|name| SecretRef { name, key: self.default_redis_secret_key.clone() }),
        });
        Settings {
            image: self.image.clone(),
            image_pull_secrets: non_empty(&self.image_pull_secret),
            is_openshift,
            listen: self.server_listen,
            defaults: ClusterDefaults { domain: self.cluster_domain.clone(), redis },
        }
    }

    pub(crate) fn namespaces(&self) -> Vec<String> {
        non_empty(&self.namespace)
    }

    /// Returns the name of this replica.
    pub(crate) fn identity(&self) -> String {
        self.pod_name.clone().unwrap_or_else(|| format!("vmcp-operator-{}", std::process::id()))
    }

    pub(crate) fn lease(&self) -> Option<LeaseName> {
        let namespace = self.pod_namespace.clone().filter(|_| self.leader_elect)?;
        Some(LeaseName { namespace, name: LEASE.to_owned() })
    }
}

/// Returns the names of a list, without the white space around them.
fn non_empty(names: &[String]) -> Vec<String> {
    let names = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_settings() {
        let arguments = Arguments::parse_from([
            "vmcp-operator",
            "--image=i",
            "--image-pull-secret=a, b,",
            "--namespace=x,y",
            "--default-redis=r:6379",
            "--default-redis-secret=s",
            "--leader-elect",
            "--pod-namespace=operators",
        ]);
        let settings = arguments.settings(true);
        assert_eq!(settings.image_pull_secrets, ["a", "b"]);
        assert_eq!(arguments.namespaces(), ["x", "y"]);
        let redis = settings.defaults.redis.unwrap();
        assert_eq!(redis.password.unwrap().key, "redis-password");
        assert_eq!(arguments.lease().unwrap().namespace, "operators");
    }

    #[test]
    fn leader_election_needs_namespace() {
        let arguments = ["vmcp-operator", "--image=i", "--leader-elect"];
        assert!(Arguments::try_parse_from(arguments).is_err());
    }
}
