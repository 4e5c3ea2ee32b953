//! Arguments of `vmcp-operator run`.

use std::net::SocketAddr;

use clap::Args;
use tracing::level_filters::LevelFilter;
use vmcp_operator::{LeaseName, ServiceName, Settings};

use crate::command::settings::{SettingsArgs, non_empty};

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Namespaces that the operator watches. None means all.
    #[arg(long, env = "WATCH_NAMESPACE", value_delimiter = ',', value_name = "NAME")]
    namespace: Vec<String>,
    /// Address of /healthz, /readyz and /metrics.
    #[arg(long, env = "VMCP_OPERATOR_LISTEN", default_value = "0.0.0.0:8080")]
    pub(crate) listen: SocketAddr,
    /// Lets one of several replicas work at a time. Needs POD_NAMESPACE.
    #[arg(long, requires = "pod_namespace")]
    leader_elect: bool,
    /// Name of the Lease for which the replicas compete. Operators of different scopes in one namespace need different ones.
    #[arg(long, default_value = "vmcp-operator-leader", value_name = "NAME")]
    lease: String,
    /// Address of the validating webhook, over TLS.
    #[arg(
        long,
        env = "VMCP_OPERATOR_WEBHOOK_LISTEN",
        default_value = "0.0.0.0:9443",
        value_name = "ADDRESS"
    )]
    pub(crate) webhook_listen: SocketAddr,
    /// Service by which the API server reaches the webhook, in the operator's namespace.
    #[arg(long, default_value = "vmcp-operator-webhook", value_name = "NAME")]
    webhook_service: String,
    /// Serves no webhook, and deletes its configuration. Without it, POD_NAMESPACE is needed.
    #[arg(long)]
    pub(crate) no_webhook: bool,
    /// Namespace of the operator.
    #[arg(long, env = "POD_NAMESPACE", hide = true)]
    pod_namespace: Option<String>,
    /// Name of the operator's pod.
    #[arg(long, env = "POD_NAME", hide = true)]
    pod_name: Option<String>,
    /// The cluster assigns the users of pods, as OpenShift does. Absent, the operator asks the cluster.
    #[arg(long, value_name = "BOOLEAN")]
    pub(crate) openshift: Option<bool>,
    /// Level of the log: error, warn, info, debug or trace.
    #[arg(long, env = "VMCP_OPERATOR_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: LevelFilter,
}

// === impl RunArgs ===

impl RunArgs {
    pub(crate) fn settings(&self, is_openshift: bool) -> Settings {
        self.settings.settings(is_openshift)
    }

    pub(crate) fn namespaces(&self) -> Vec<String> {
        non_empty(&self.namespace)
    }

    /// Returns the name of this replica.
    pub(crate) fn identity(&self) -> String {
        self.pod_name.clone().unwrap_or_else(|| format!("vmcp-operator-{}", std::process::id()))
    }

    /// Returns the Service of the webhook, if the namespace of the operator is known.
    pub(crate) fn webhook_service(&self) -> Option<ServiceName> {
        let namespace = self.pod_namespace.clone()?;
        Some(ServiceName { namespace, name: self.webhook_service.clone() })
    }

    pub(crate) fn lease(&self) -> Option<LeaseName> {
        let namespace = self.pod_namespace.clone().filter(|_| self.leader_elect)?;
        Some(LeaseName { namespace, name: self.lease.clone() })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn flags_become_settings() {
        let Cli { run: arguments } = Cli::parse_from([
            "vmcp-operator",
            "--image=i",
            "--image-pull-secret=a, b,",
            "--namespace=x,y",
            "--default-redis=r:6379",
            "--default-redis-secret=s",
            "--leader-elect",
            "--lease=mine",
            "--pod-namespace=operators",
        ]);
        let settings = arguments.settings(true);
        assert_eq!(settings.image_pull_secrets, ["a", "b"]);
        assert_eq!(arguments.namespaces(), ["x", "y"]);
        let redis = settings.defaults.redis.unwrap();
        assert_eq!(redis.password.unwrap().key, "redis-password");
        let lease = arguments.lease().unwrap();
        assert_eq!((&*lease.namespace, &*lease.name), ("operators", "mine"));
        let webhook = arguments.webhook_service().unwrap();
        assert_eq!((&*webhook.namespace, &*webhook.name), ("operators", "vmcp-operator-webhook"));
        assert_eq!(arguments.webhook_listen.to_string(), "0.0.0.0:9443");
    }

    #[test]
    fn leader_election_needs_namespace() {
        let arguments = ["vmcp-operator", "--image=i", "--leader-elect"];
        assert!(Cli::try_parse_from(arguments).is_err());
    }
}
