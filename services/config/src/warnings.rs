//! What is legal and probably not what was meant.

use std::collections::HashSet;

use crate::{
    Config, File, Warning,
    aggregation::{Aggregation, ConflictResolution, WorkloadTools},
    backend::{Backend, BackendDocument},
    duration::Duration,
    error::KEPT,
    operational::{FailureHandling, Operational},
    outgoing_auth::{ClientSecret, OutgoingAuth, Source, Strategy},
    reference::Reference,
    suggest::nearest,
    text::{EnvName, patterns},
};

impl File {
    /// What is legal and probably not what was meant: names of backends that there are none of, and the like. Of
    /// unknown names the first 200.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let Self { backends, variables, aggregation, outgoing_auth, operational, .. } = self;
        // Discovered backends are not known here.
        let known = (outgoing_auth.source == Source::Inline).then_some(backends.as_slice());
        let mut warnings = gather(known, backends, aggregation, Some(outgoing_auth), operational);
        unused_variables(variables, backends, &mut warnings);
        warnings
    }
}

impl Config {
    /// As [`File::warnings`]; names are compared only where the resource itself lists its backends.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let Self { backends, aggregation, outgoing_auth, operational, .. } = self;
        let known = (!backends.is_empty()).then_some(backends.as_slice());
        gather(known, backends, aggregation, outgoing_auth.as_ref(), operational)
    }
}

fn gather<R: Reference, D: BackendDocument>(
    known: Option<&[Backend<D>]>,
    backends: &[Backend<D>],
    aggregation: &Aggregation<R>,
    outgoing_auth: Option<&OutgoingAuth>,
    operational: &Operational,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(known) = known {
        unknown_names(known, aggregation, outgoing_auth, operational, &mut warnings);
    }
    odd_prefixes(backends, &aggregation.conflict_resolution, &mut warnings);
    let FailureHandling { health_check_interval: interval, .. } = operational.failure_handling;
    if interval < Duration::from_secs(1) {
        warnings.push(Warning {
            path: "operational.failureHandling.healthCheckInterval".to_owned(),
            message: format!("each backend is asked every {interval}, all the time"),
            suggestion: None,
        });
    }
    for (index, backend) in backends.iter().enumerate() {
        if backend.metadata.contains_key("group") {
            warnings.push(Warning {
                path: format!("backends[{index}].metadata.group"),
                message: "the server sets this key; the value is not used".to_owned(),
                suggestion: None,
            });
        }
    }
    for (path, strategy) in outgoing_auth.into_iter().flat_map(OutgoingAuth::strategies) {
        if let Strategy::TokenExchange(exchange) = strategy
            && let Some(ClientSecret::Literal(_)) = exchange.client_secret
        {
            warnings.push(Warning {
                path: format!("{path}.tokenExchange.clientSecret"),
                message: "a secret in the configuration itself".to_owned(),
                suggestion: Some("clientSecretEnv".to_owned()),
            });
        }
    }
    warnings
}

/// A variable that no placeholder reads.
fn unused_variables(variables: &[EnvName], backends: &[Backend], to: &mut Vec<Warning>) {
    let used: HashSet<&str> = backends.iter().flat_map(Backend::variables).collect();
    for (index, name) in variables.iter().enumerate() {
        if !used.contains(name.as_str()) {
            to.push(Warning {
                path: format!("variables[{index}]"),
                message: format!("no url or header of a backend has ${{{name}}}"),
                suggestion: None,
            });
        }
    }
}

/// What stands before the names of tools should be made of what they may be made of.
fn odd_prefixes<D: BackendDocument>(
    backends: &[Backend<D>],
    resolution: &ConflictResolution,
    to: &mut Vec<Warning>,
) {
    let ConflictResolution::Prefix { format } = resolution else { return };
    let mut warn = |path: String| {
        to.push(Warning {
            path,
            message: format!(
                "it begins the names of tools, which should be {}: some clients refuse others",
                patterns::TOOL_NAME.meaning
            ),
            suggestion: None,
        });
    };
    let format = format.to_string();
    if !patterns::TOOL_NAME.matches(&format.replace("{workload}", "_")) {
        return warn("aggregation.conflictResolutionConfig.prefixFormat".to_owned());
    }
    if format.contains("{workload}") {
        for (index, _) in backends
            .iter()
            .enumerate()
            .filter(|(_, backend)| !patterns::TOOL_NAME.matches(&backend.name))
            .take(KEPT)
        {
            warn(format!("backends[{index}].name"));
        }
    }
}

fn unknown_names<R: Reference, D: BackendDocument>(
    known: &[Backend<D>],
    aggregation: &Aggregation<R>,
    outgoing_auth: Option<&OutgoingAuth>,
    operational: &Operational,
    warnings: &mut Vec<Warning>,
) {
    let names: HashSet<&str> = known.iter().map(|backend| backend.name.as_str()).collect();
    let mut look = |path: String, name: &str| {
        if !names.contains(name) && warnings.len() < KEPT {
            warnings.push(Warning {
                path,
                message: format!("no backend is called \"{}\"", crate::tree::shorten(name)),
                suggestion: nearest(name, names.iter().copied()).map(ToOwned::to_owned),
            });
        }
    };
    let Aggregation { conflict_resolution, exclude_all_tools: _, tools } = aggregation;
    for (index, WorkloadTools { workload, .. }) in tools.iter().enumerate() {
        look(format!("aggregation.tools[{index}].workload"), workload);
    }
    if let ConflictResolution::Priority { order } = conflict_resolution {
        for (index, name) in order.iter().enumerate() {
            look(format!("aggregation.conflictResolutionConfig.priorityOrder[{index}]"), name);
        }
    }
    for name in operational.timeouts.per_workload.keys() {
        look(format!("operational.timeouts.perWorkload.{name}"), name);
    }
    for name in outgoing_auth.iter().flat_map(|auth| auth.backends.keys()) {
        look(format!("outgoingAuth.backends.{name}"), name);
    }
}
