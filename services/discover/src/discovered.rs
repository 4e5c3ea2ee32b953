//! Result of a discovery.

use vmcp_api::conversion::{Backends, LeftOut};
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
}

impl From<Backends> for Discovered {
    fn from(converted: Backends) -> Self {
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
        Self { backends, variables, outgoing_auth, tools, left_out }
    }
}
