//! Warnings for settings that are valid but probably unintended.

mod unused_settings;

use std::collections::HashSet;

use crate::{
    Config, File, Warning,
    aggregation::{Aggregation, ConflictResolution, WorkloadTools},
    backend::{Backend, BackendDocument},
    duration::Duration,
    error::MAX_ERRORS,
    incoming_auth::IncomingMethod,
    operational::{FailureHandling, Operational},
    outgoing_auth::{ClientSecret, OutgoingAuth, Source, Strategy},
    patterns,
    reference::Reference,
    string_types::{EnvName, is_loopback},
    suggest::nearest,
};

use self::unused_settings::UnusedSettings;

impl File {
    /// Returns warnings for settings that are valid but probably unintended, such as names of unknown backends. At most
    /// 200 unknown names are reported.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let Self {
            backends,
            variables,
            aggregation,
            outgoing_auth,
            operational,
            incoming_auth,
            ..
        } = self;
        // Discovered backends are not known here.
        let known = (outgoing_auth.source == Source::Inline).then_some(backends.as_slice());
        let mut warnings =
            common_warnings(known, backends, aggregation, Some(outgoing_auth), operational);
        self.check_step_tools(&mut warnings);
        check_unused_variables(variables, backends, &mut warnings);
        let urls = backends.iter().map(|backend| {
            let is_secret = backend.headers.iter().next().is_some();
            (backend.name.as_str(), backend.url.as_str(), is_secret)
        });
        check_plaintext_credentials(urls, outgoing_auth, &mut warnings);
        let mut unused = UnusedSettings(&mut warnings);
        unused.audit(&self.audit);
        self.telemetry.iter().for_each(|telemetry| unused.telemetry(telemetry));
        if let IncomingMethod::Oidc(oidc) = &incoming_auth.method {
            unused.oidc(oidc, self.auth_server.is_some());
        }
        warnings
    }
}

impl Config {
    /// Returns the warnings of [`File::warnings`]. Names are checked only if the resource lists its backends.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let Self { backends, aggregation, outgoing_auth, operational, .. } = self;
        let known = (!backends.is_empty()).then_some(backends.as_slice());
        let mut warnings =
            common_warnings(known, backends, aggregation, outgoing_auth.as_ref(), operational);
        if let Some(outgoing) = outgoing_auth {
            let urls = backends.iter().map(|it| (it.name.as_str(), it.url.as_str(), false));
            check_plaintext_credentials(urls, outgoing, &mut warnings);
        }
        let mut unused = UnusedSettings(&mut warnings);
        unused.audit(&self.audit);
        self.telemetry.iter().for_each(|telemetry| unused.telemetry(telemetry));
        for name in outgoing_auth.iter().flat_map(|auth| auth.backends.keys()) {
            let names = || backends.iter().map(|backend| backend.name.as_str());
            if known.is_some() && !names().any(|known| known == name) && warnings.len() < MAX_ERRORS
            {
                // In a file this is an error: see `File::contradictions`.
                warnings.push(Warning {
                    path: format!("outgoingAuth.backends.{name}"),
                    message: format!("no backend has the name \"{}\"", crate::tree::shorten(name)),
                    suggestion: nearest(name, names()).map(ToOwned::to_owned),
                });
            }
        }
        warnings
    }
}

fn common_warnings<R: Reference, D: BackendDocument>(
    known: Option<&[Backend<D>]>,
    backends: &[Backend<D>],
    aggregation: &Aggregation<R>,
    outgoing_auth: Option<&OutgoingAuth>,
    operational: &Operational,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(known) = known {
        check_names(known, aggregation, operational, &mut warnings);
    }
    check_prefixes(backends, &aggregation.conflict_resolution, &mut warnings);
    let FailureHandling { health_check_interval: interval, .. } = operational.failure_handling;
    if interval < Duration::from_secs(1) {
        warnings.push(Warning {
            path: "operational.failureHandling.healthCheckInterval".to_owned(),
            message: format!("each backend is checked every {interval}: use 1s or more"),
            suggestion: None,
        });
    }
    let mut unused = UnusedSettings(&mut warnings);
    unused.circuit_breaker(&operational.failure_handling);
    unused.aggregation(aggregation);
    if let Some(outgoing_auth) = outgoing_auth {
        let names: Vec<_> = backends.iter().map(|backend| backend.name.as_str()).collect();
        unused.outgoing_auth(outgoing_auth, &names);
    }
    for (index, backend) in backends.iter().enumerate() {
        if backend.metadata.contains_key("group") {
            warnings.push(Warning {
                path: format!("backends[{index}].metadata.group"),
                message: "no effect: the server sets this key".to_owned(),
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
                message: "the configuration contains the secret itself".to_owned(),
                suggestion: Some("clientSecretEnv".to_owned()),
            });
        }
    }
    warnings
}

/// Reports variables that no placeholder reads.
fn check_unused_variables(variables: &[EnvName], backends: &[Backend], to: &mut Vec<Warning>) {
    let used: HashSet<&str> = backends.iter().flat_map(Backend::variables).collect();
    for (index, name) in variables.iter().enumerate() {
        if !used.contains(name.as_str()) {
            to.push(Warning {
                path: format!("variables[{index}]"),
                message: format!("no url or header of a backend uses ${{{name}}}"),
                suggestion: None,
            });
        }
    }
}

/// Reports credentials that are sent over a network without TLS. `backends` has the name and URL of each backend, and
/// `true` if it has headers.
fn check_plaintext_credentials<'a>(
    backends: impl Iterator<Item = (&'a str, &'a str, bool)>,
    outgoing: &OutgoingAuth,
    to: &mut Vec<Warning>,
) {
    for (index, (name, url, has_headers)) in backends.enumerate() {
        let is_shown =
            !matches!(outgoing.strategy_for(name), None | Some(Strategy::Unauthenticated));
        let is_plain = url::Url::parse(url)
            .map_or(url.starts_with("http://"), |url| url.scheme() == "http" && !is_loopback(&url));
        if (is_shown || has_headers) && is_plain && to.len() < MAX_ERRORS {
            let message = "credentials are sent over plain http, where other machines can read them: use https";
            to.push(Warning {
                path: format!("backends[{index}].url"),
                message: message.to_owned(),
                suggestion: None,
            });
        }
    }
}

/// Warns about prefixes that are equal or nested, or that tool names should not begin with.
fn check_prefixes<D: BackendDocument>(
    backends: &[Backend<D>],
    resolution: &ConflictResolution,
    to: &mut Vec<Warning>,
) {
    let ConflictResolution::Prefix { format } = resolution else { return };
    if !format.as_str().contains("{workload}") && backends.len() > 1 {
        to.push(Warning {
            path: "aggregation.conflictResolutionConfig.prefixFormat".to_owned(),
            message: "all backends get the same prefix, so their names can still collide: use {workload}, the name of the \
                      backend"
                .to_owned(),
            suggestion: None,
        });
    }
    check_nested_prefixes(backends, &format.to_string(), to);
    let mut warn = |path: String| {
        to.push(Warning {
            path,
            message: format!(
                "tool names begin with it, and some clients reject names that are not {}",
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
            .take(MAX_ERRORS)
        {
            warn(format!("backends[{index}].name"));
        }
    }
}

/// Reports prefixes that begin with the prefix of another backend.
fn check_nested_prefixes<D: BackendDocument>(
    backends: &[Backend<D>],
    format: &str,
    to: &mut Vec<Warning>,
) {
    let prefix = |backend: &Backend<D>| format.replace("{workload}", &backend.name);
    let prefixes: Vec<_> = backends.iter().map(prefix).collect();
    for (index, longer) in prefixes.iter().enumerate() {
        let within =
            |shorter: &&String| longer.len() > shorter.len() && longer.starts_with(&***shorter);
        if let Some(shorter) = prefixes.iter().find(within).filter(|_| to.len() < MAX_ERRORS) {
            to.push(Warning {
                path: format!("backends[{index}].name"),
                message: format!(
                    "its prefix {longer} begins with the prefix {shorter} of another backend: tools and prompts of that \
                     backend with such names are left out"
                ),
                suggestion: None,
            });
        }
    }
}

fn check_names<R: Reference, D: BackendDocument>(
    known: &[Backend<D>],
    aggregation: &Aggregation<R>,
    operational: &Operational,
    warnings: &mut Vec<Warning>,
) {
    let names: HashSet<&str> = known.iter().map(|backend| backend.name.as_str()).collect();
    let mut check_name = |path: String, name: &str| {
        if !names.contains(name) && warnings.len() < MAX_ERRORS {
            warnings.push(Warning {
                path,
                message: format!("no backend has the name \"{}\"", crate::tree::shorten(name)),
                suggestion: nearest(name, names.iter().copied()).map(ToOwned::to_owned),
            });
        }
    };
    let Aggregation { conflict_resolution, exclude_all_tools: _, tools } = aggregation;
    for (index, WorkloadTools { workload, .. }) in tools.iter().enumerate() {
        check_name(format!("aggregation.tools[{index}].workload"), workload);
    }
    if let ConflictResolution::Priority { order } = conflict_resolution {
        for (index, name) in order.iter().enumerate() {
            check_name(
                format!("aggregation.conflictResolutionConfig.priorityOrder[{index}]"),
                name,
            );
        }
    }
    for name in operational.timeouts.per_workload.keys() {
        check_name(format!("operational.timeouts.perWorkload.{name}"), name);
    }
}
