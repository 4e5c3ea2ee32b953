//! Option of `vmcp serve` for a replica of a VirtualMCPServer in Kubernetes.

use std::env;

use clap::Args;
use vmcp_server::serve::VirtualServer;

use crate::output::Failure;

/// Environment variable with the name of the pod.
const POD_NAME: &str = "POD_NAME";

/// Maximum length of a name in Kubernetes.
const MAX_NAME: usize = 253;

#[derive(Debug, Args)]
pub(super) struct VirtualServerArgs {
    /// The VirtualMCPServer in Kubernetes that this server is a replica of. The operator sets it. With outgoingAuth.source:
    /// discovered, the backends are the members of its group, and changes are taken over without a restart. One of the
    /// replicas reports the health of the backends in the status. The variable POD_NAME has the name of this replica. The API server is that of KUBECONFIG, or of the service account of the pod.
    #[arg(long = "virtual-mcp-server", value_name = "NAMESPACE/NAME", value_parser = resource)]
    resource: Option<Resource>,
}

/// Namespace and name of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Resource {
    namespace: String,
    name: String,
}

impl VirtualServerArgs {
    /// Returns the replica; `None` without the option.
    pub(super) fn replica(&self) -> Result<Option<VirtualServer>, Failure> {
        self.resolve(env::var(POD_NAME).ok())
    }

    fn resolve(&self, pod: Option<String>) -> Result<Option<VirtualServer>, Failure> {
        let Some(Resource { namespace, name }) = &self.resource else { return Ok(None) };
        let Some(pod) = pod.filter(|pod| is_name(pod)) else {
            let reason = format!(
                "--virtual-mcp-server needs the variable {POD_NAME} with the name of this replica, such as that of the pod"
            );
            return Err(Failure::Usage(reason));
        };
        let server = VirtualServer::new(namespace, name, pod)
            .map_err(|error| Failure::Usage(format!("--virtual-mcp-server: {error}")))?;
        Ok(Some(server))
    }
}

/// Parses `namespace/name`.
fn resource(text: &str) -> Result<Resource, String> {
    let parts = text.split_once('/');
    let (namespace, name) =
        parts.filter(|(namespace, name)| is_name(namespace) && is_name(name)).ok_or(
            "must be the namespace and the name of a VirtualMCPServer, such as team/tools",
        )?;
    Ok(Resource { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Returns whether a text can be the name of an object, which becomes a part of URLs.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    (1..=MAX_NAME).contains(&bytes.len())
        && bytes.iter().all(|&byte| is_letter(byte) || matches!(byte, b'-' | b'.'))
        && [bytes.first(), bytes.last()].into_iter().flatten().all(|&byte| is_letter(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_namespace_and_name() {
        let expected = Resource { namespace: "team".to_owned(), name: "a.b-1".to_owned() };
        assert_eq!(resource("team/a.b-1"), Ok(expected));
        let long = format!("a/{}", "b".repeat(254));
        for wrong in ["", "a", "/a", "a/", "a/b/c", "A/b", "a/-b", "a/b?", "../b", &long] {
            assert!(resource(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn needs_name_of_replica() {
        let arguments = VirtualServerArgs { resource: resource("team/tools").ok() };
        for pod in [None, Some(""), Some("a/b")] {
            let failure = arguments.resolve(pod.map(str::to_owned)).unwrap_err();
            let Failure::Usage(reason) = failure else { panic!("{failure:?}") };
            assert!(reason.contains(POD_NAME), "{reason}");
        }
        let none = VirtualServerArgs { resource: None };
        assert!(none.resolve(None).unwrap().is_none());
    }
}
