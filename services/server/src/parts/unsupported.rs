//! Sections whose runtime this version does not have. They are refused rather than ignored: nothing
//! that is accepted is without effect.

use std::fmt;

use vmcp_config::{FailureHandling, File, Operational, OutgoingAuth, Source};

/// The interval applies only under the operator.
const NO_REPORTS: &str =
    "statusReportingInterval applies only under the operator: remove it, and see /status";

/// A section that nothing in this version would read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedSetting {
    /// Path of the section in the configuration.
    pub path: String,
    /// Supported alternative.
    pub instead: &'static str,
}

impl fmt::Display for UnsupportedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: not supported by this version: {}", self.path, self.instead)
    }
}

/// All of them.
pub(super) fn find(file: &File) -> Vec<UnsupportedSetting> {
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
    outgoing(outgoing_auth, &mut reject);
    health(operational, &mut reject);
    found
}

fn outgoing(outgoing: &OutgoingAuth, reject: &mut impl FnMut(bool, &str, &'static str)) {
    let OutgoingAuth { source, default: _, backends: _ } = outgoing;
    let discovered = matches!(source, Source::Discovered);
    reject(discovered, "outgoingAuth.source", "use source: inline");
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
