//! Result of a discovery.

use std::sync::Arc;

use vmcp_api::conversion::{Backends, LeftOut, MemberKind};
use vmcp_config::{Backend, EnvName, Never, OutgoingAuth, WorkloadTools};

/// Backends of a server, with their credentials and tools, and the members that are not backends.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    /// The backends, sorted by name.
    pub backends: Vec<Backend>,
    /// Variables that the headers of the backends read.
    pub variables: Vec<EnvName>,
    /// Credentials for the backends, with an entry for each backend that has some.
    pub outgoing_auth: OutgoingAuth,
    /// Selection and overrides of tools.
    pub tools: Vec<WorkloadTools<Never>>,
    /// Members of the group that are not backends, with the reasons.
    pub left_out: Vec<LeftOut>,
    /// Members of the group beyond the first 1,024 in the order of their names. They are not backends.
    pub surplus: Vec<(String, MemberKind)>,
}

/// State of a discovery.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveryState {
    /// The last result. It remains while there is a problem.
    pub discovered: Option<Arc<Discovered>>,
    /// Reason for a missing result, or why the last one does not follow the resources.
    pub problem: Option<DiscoveryProblem>,
}

/// Reason why a discovery has no result, or keeps an older one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DiscoveryProblem {
    /// The API server has not listed all resources yet.
    #[error("the API server has not listed {}", describe(.0))]
    NotListed(Vec<Unlisted>),
    /// The VirtualMCPServer does not exist, or was deleted.
    #[error("VirtualMCPServer {0} does not exist")]
    Missing(String),
    /// The configuration of the VirtualMCPServer is invalid.
    #[error("VirtualMCPServer {name} is invalid: {}", errors.join("; "))]
    Invalid {
        /// Name of the VirtualMCPServer.
        name: String,
        /// The errors, each with its path.
        errors: Vec<String>,
    },
}

/// Resource that the API server has not listed yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unlisted {
    /// Plural name of the resource.
    pub resource: &'static str,
    /// The last error. `None` while there was no response.
    pub error: Option<String>,
}

// === impl Discovered ===

impl Discovered {
    pub(crate) fn new(converted: Backends, surplus: Vec<(String, MemberKind)>) -> Self {
        let Backends {
            backends,
            variables,
            outgoing_auth,
            tools,
            // The operator copies these, and reports the rest in the status of the server.
            secrets: _,
            left_out,
            warnings: _,
            conditions: _,
        } = converted;
        Self { backends, variables, outgoing_auth, tools, left_out, surplus }
    }
}

fn describe(unlisted: &[Unlisted]) -> String {
    let texts: Vec<String> = unlisted
        .iter()
        .map(|Unlisted { resource, error }| match error {
            Some(error) => format!("{resource} ({error})"),
            None => format!("{resource} (no response)"),
        })
        .collect();
    texts.join(", ")
}
