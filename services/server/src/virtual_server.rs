//! VirtualMCPServer of Kubernetes that a process is a replica of.

use std::time::SystemTime;

/// VirtualMCPServer of Kubernetes, and the replica that the process is.
///
/// A server that is a replica discovers its backends in the cluster if its configuration says so, and reports their health in the
/// status of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualServer {
    namespace: String,
    name: String,
    replica: String,
}

/// Error of a program that was built without access to Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this program was built without the feature `kubernetes`: build it with `cargo build -p vmcp --features kubernetes`, or \
     use the image"
)]
pub struct NoKubernetesError;

/// Error of the access to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The program has no access to Kubernetes.
    #[error(transparent)]
    NoKubernetes(#[from] NoKubernetesError),
    /// Neither the service account of a pod nor a kubeconfig can be used.
    #[error(
        "failed to find the API server: {0}; run the server in a pod with a service account, or set KUBECONFIG"
    )]
    NoApiServer(String),
}

/// Progress of the reports about backends in the status of the VirtualMCPServer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportProgress {
    /// `true` if this replica reports, `false` if another one does, or none can.
    pub(crate) is_leader: bool,
    /// Reports that changed the status.
    pub(crate) written: u64,
    /// Reports that failed.
    pub(crate) failed: u64,
    /// Time at which this replica last found or made the status current.
    pub(crate) last_success: Option<SystemTime>,
    /// Reason why this replica cannot report.
    pub(crate) problem: Option<String>,
}

impl VirtualServer {
    /// Creates the replica of a name, which is unique among the replicas of the VirtualMCPServer, such as that of the pod.
    ///
    /// # Errors
    /// Returns an error without the feature `kubernetes`.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        replica: impl Into<String>,
    ) -> Result<Self, NoKubernetesError> {
        Self::with_feature(namespace.into(), name.into(), replica.into(), Self::is_available())
    }

    /// Returns `true` if the feature `kubernetes` was built.
    #[must_use]
    pub const fn is_available() -> bool {
        cfg!(feature = "kubernetes")
    }

    fn with_feature(
        namespace: String,
        name: String,
        replica: String,
        has_kubernetes: bool,
    ) -> Result<Self, NoKubernetesError> {
        if has_kubernetes { Ok(Self { namespace, name, replica }) } else { Err(NoKubernetesError) }
    }

    /// Returns the namespace of the VirtualMCPServer.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name of the VirtualMCPServer.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the replica.
    #[must_use]
    pub fn replica(&self) -> &str {
        &self.replica
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_without_feature_names_it() {
        let new = |has_kubernetes| {
            let [namespace, name, replica] = ["team", "tools", "pod"].map(str::to_owned);
            VirtualServer::with_feature(namespace, name, replica, has_kubernetes)
        };
        let error = new(false).unwrap_err().to_string();
        assert!(error.contains("--features kubernetes"), "{error}");
        assert_eq!(new(true).unwrap().name(), "tools");
    }
}
