//! Validation of a VirtualMCPServer by itself, for any cluster.

use std::sync::Arc;

use vmcp_api::VirtualMCPServer;
use vmcp_api::conversion::{Checks, ConversionError, ResourceError};

use crate::plan::{PlanError, plan};
use crate::server_checks::ServerChecks;
use crate::settings::Settings;

/// Result of a validation.
#[derive(Debug)]
pub(crate) struct ServerReview {
    /// Mistakes that the server has in each cluster.
    pub(crate) errors: Vec<ResourceError>,
    /// Settings without effect, and deprecated ones.
    pub(crate) warnings: Vec<String>,
}

/// Converts and plans a server as a reconcile does, with references that exist and are valid.
pub(crate) fn review_server(server: &VirtualMCPServer, settings: &Settings) -> ServerReview {
    let checks: Arc<dyn Checks> = Arc::new(ServerChecks);
    let conversion = match server.convert_standalone(&settings.defaults, &checks) {
        Ok(conversion) => conversion,
        Err(errors) => {
            let errors = errors.into_iter().map(|error| {
                let ConversionError { path, condition, phase: _, event: _ } = error;
                ResourceError { path, message: condition.message }
            });
            return ServerReview { errors: errors.collect(), warnings: Vec::new() };
        }
    };
    let planned = plan(server, &conversion, settings).err();
    let errors =
        planned.map(|error: PlanError| ResourceError { path: error.path, message: error.message });
    let warnings = conversion.warnings.into_iter().map(|warning| warning.message);
    ServerReview { errors: errors.into_iter().collect(), warnings: warnings.collect() }
}
