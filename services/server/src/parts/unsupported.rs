//! Settings that apply only to a replica of a VirtualMCPServer. They are refused elsewhere rather than ignored: nothing that is
//! accepted is without effect.

use std::fmt;

use vmcp_config::{FailureHandling, File, Operational, OutgoingAuth, Source};

/// Remedy for backends that nothing would discover.
const NO_DISCOVERY: &str = "name the VirtualMCPServer with --virtual-mcp-server, as the operator does, or use source: inline";

/// Remedy for an interval without reports.
const NO_REPORTS: &str = "name the VirtualMCPServer with --virtual-mcp-server, as the operator does, or remove it and see /status";

/// A setting that nothing in this process would read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedSetting {
    /// Path of the section in the configuration.
    pub path: String,
    /// Supported alternative.
    pub instead: &'static str,
}

impl fmt::Display for UnsupportedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: applies only in Kubernetes: {}", self.path, self.instead)
    }
}

/// Returns all of them.
pub(super) fn find(file: &File, is_replica: bool) -> Vec<UnsupportedSetting> {
    let File {
        name: _,
        group_ref: _,
        metadata: _,
        aggregation: _,
        audit: _,
        backends: _,
        composite_tools: _,
        incoming_auth: _,
        outgoing_auth,
        operational,
        optimizer: _,
        session_storage: _,
        telemetry: _,
        auth_server: _,
        variables: _,
    } = file;
    let mut found = Vec::new();
    let mut reject = |given: bool, path: &str, instead| {
        if given {
            found.push(UnsupportedSetting { path: path.to_owned(), instead });
        }
    };
    if !is_replica {
        outgoing(outgoing_auth, &mut reject);
        health(operational, &mut reject);
    }
    found
}

fn outgoing(outgoing: &OutgoingAuth, reject: &mut impl FnMut(bool, &str, &'static str)) {
    let OutgoingAuth { source, default: _, backends: _ } = outgoing;
    let discovered = matches!(source, Source::Discovered);
    reject(discovered, "outgoingAuth.source", NO_DISCOVERY);
}

fn health(operational: &Operational, reject: &mut impl FnMut(bool, &str, &'static str)) {
    let defaults = FailureHandling::default();
    let FailureHandling {
        health_check_interval: _,
        health_check_timeout: _,
        unhealthy_threshold: _,
        partial_failure_mode: _,
        status_reporting_interval,
        circuit_breaker: _,
    } = &operational.failure_handling;
    reject(
        *status_reporting_interval != defaults.status_reporting_interval,
        "operational.failureHandling.statusReportingInterval",
        NO_REPORTS,
    );
}
