//! Conversion of the configuration into the components of the server. Each conversion destructures its section without
//! `..`, so that a new field does not compile until it is used.

mod aggregation;
mod audit;
mod auth_server;
mod backends;
mod configured_hosts;
mod credential_advice;
mod credentials;
mod embedded_issuer;
mod environment;
mod error;
mod headers;
mod incoming_auth;
mod policy_evaluator;
mod telemetry;
mod unstacked;
mod unsupported;

use std::num::NonZeroU32;
use std::sync::Arc;

use vmcp_aggregate::settings::{Checks, PartialFailure, Rules, Settings};
use vmcp_breaker::CircuitSettings;
use vmcp_config::{
    AuthServer, CircuitBreaker, FailureHandling, File, IncomingAuth, LogLevel, Operational,
    PartialFailureMode, SecretFile, Warning,
};
use vmcp_egress::Egress;

pub(crate) use self::audit::Recording;
pub use self::audit::{Recorded, Records};
use self::auth_server::Converted;
pub(crate) use self::auth_server::{Asked, Found, Report, Stored};
pub use self::auth_server::{Issuing, StorageError};
use self::backends::Around;
use self::credential_advice::Issuers;
pub(crate) use self::embedded_issuer::Sessions;
pub use self::error::PartsError;
pub use self::incoming_auth::Guards;
pub(crate) use self::policy_evaluator::Judge;
pub use self::telemetry::Measures;
pub use self::unstacked::Unstacked;
pub use self::unsupported::Unsupported;
use crate::memory_gauges::Held;

/// Components of a server, built from one configuration.
#[derive(Debug)]
pub struct Parts {
    /// Settings of the aggregating service.
    pub settings: Unstacked,
    /// Authentication and authorization of incoming requests.
    pub guards: Guards,
    /// Audit recording; `None` disables it.
    pub records: Option<Records>,
    /// Metrics and traces; `None` disables them.
    pub measures: Option<Measures>,
    /// Embedded authorization server, if one is configured.
    pub issuing: Option<Issuing>,
    /// Settings that are valid but probably unintended.
    pub warnings: Vec<Warning>,
    /// Description of the configuration for `/status`.
    pub about: About,
    /// `true` for debug logging.
    pub debug: bool,
    /// Gauges of the credential caches.
    pub(crate) held: Held,
}

/// Description of the configuration for `/status` and `inspect`.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Name of the server.
    pub name: String,
    /// Group of the backends.
    pub group: String,
    /// `metadata` of the server.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// `true` if lists fail while a backend has not responded (`partialFailureMode: fail`).
    pub is_strict: bool,
    /// Descriptions by backend name.
    pub backends: std::collections::BTreeMap<String, AboutBackend>,
}

/// Description of one backend's configuration.
#[derive(Clone, Debug, Default)]
pub struct AboutBackend {
    /// URL without credentials and query.
    pub url: String,
    /// `true` for a backend of `type: entry`.
    pub entry: bool,
    /// Strategy of outgoing authentication.
    pub auth: &'static str,
    /// Its metadata, with `group` set by the server.
    pub metadata: std::collections::BTreeMap<String, String>,
}

impl Parts {
    /// Builds the components that `file` configures.
    ///
    /// # Errors
    /// Returns all unsupported sections, or all invalid values.
    pub fn new(file: File, egress: &Egress) -> Result<Self, PartsError> {
        let contradictions = file.contradictions();
        let built = Self::build(file, egress);
        if contradictions.is_empty() {
            return built;
        }
        let mut error = built.err().unwrap_or_default();
        error.in_document = contradictions.len();
        error.errors.splice(..0, contradictions);
        Err(error)
    }

    /// Builds the components without a check for contradictions between sections.
    fn build(file: File, egress: &Egress) -> Result<Self, PartsError> {
        let unsupported = unsupported::find(&file);
        let group = file.group().to_owned();
        let File {
            name,
            group_ref: _,
            metadata,
            aggregation,
            audit,
            backends,
            // Checked with the document: placeholders read no unlisted variables.
            variables: _,
            composite_tools: _,
            incoming_auth,
            outgoing_auth,
            operational,
            optimizer: _,
            session_storage: _,
            telemetry,
            auth_server,
        } = file;
        let Operational { log_level, timeouts, failure_handling } = operational;
        let Failures { partial_failure, checks, breaking } = failures(&failure_handling);
        let first = first_provider(auth_server.as_ref());
        let (strategies, mut errors) = credentials::strategies(outgoing_auth, first, egress);
        let issuers = Arc::new(Issuers::new(&incoming_auth, auth_server.as_ref()));
        let (guards, Converted { issuing, errors: wrong, mut warnings }) =
            front(&name, incoming_auth, auth_server, egress);
        errors.extend(wrong);
        let (measures, wrong) = telemetry::measures(&name, telemetry, egress);
        errors.extend(wrong);
        let shown = |backend| backends::about(backend, &group, &strategies);
        let about = About {
            name: name.clone(),
            group: group.clone(),
            metadata,
            is_strict: partial_failure == PartialFailure::Fail,
            backends: backends.iter().map(shown).collect(),
        };
        let around =
            Around { waiting: &timeouts, strategies: &strategies, breaking, issuers, egress };
        let (backends, wrong) = backends::settings(backends, &around);
        errors.extend(wrong);
        let (records, wrong) = audit::records(audit);
        errors.extend(wrong);
        let Some(guards) = guards.filter(|_| unsupported.is_empty() && errors.is_empty()) else {
            return Err(PartsError { unsupported, errors, ..PartsError::default() });
        };
        warnings.extend(guards.unknown_backends(|name| about.backends.contains_key(name)));
        let settings = settings(name, aggregation::rules(aggregation), partial_failure, checks);
        let settings = Unstacked { settings, backends };
        Ok(Self {
            settings,
            guards,
            records,
            measures,
            issuing,
            warnings,
            about,
            debug: matches!(log_level, Some(LogLevel::Debug)),
            held: strategies.held,
        })
    }
}

/// Returns the name of the first provider that users log in at.
fn first_provider(section: Option<&AuthServer<SecretFile>>) -> Option<&str> {
    section?.upstream_providers.first().map(|upstream| upstream.name.as_str())
}

/// Returns the settings of the aggregating service, without backends.
fn settings(
    name: String,
    rules: Rules,
    partial_failure: PartialFailure,
    checks: Checks,
) -> Settings {
    Settings {
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        backends: Vec::new(),
        rules,
        partial_failure,
        checks: Some(checks),
    }
}

/// Converts `incomingAuth` and `authServer` into authentication, authorization and the embedded authorization server.
fn front(
    name: &str,
    incoming: IncomingAuth,
    section: Option<AuthServer<SecretFile>>,
    egress: &Egress,
) -> (Option<Guards>, Converted) {
    let is_issuer = section.is_some();
    let hosts = configured_hosts::own_hosts(&incoming, section.as_ref());
    let converted = section.map(|section| auth_server::issuing(name, section, &incoming, egress));
    let mut converted = converted.unwrap_or_default();
    let (guards, wrong, warnings) = incoming_auth::guards(name, incoming, is_issuer, egress);
    converted.errors.extend(wrong);
    converted.warnings.extend(warnings);
    (guards.map(|guards| guards.with_own_hosts(hosts)), converted)
}

/// Settings of `operational.failureHandling`.
struct Failures {
    partial_failure: PartialFailure,
    checks: Checks,
    /// Circuit breaker of each backend; `None` disables it.
    breaking: Option<CircuitSettings>,
}

fn failures(failures: &FailureHandling) -> Failures {
    let FailureHandling {
        health_check_interval,
        health_check_timeout,
        unhealthy_threshold,
        partial_failure_mode,
        // Applies only under the operator; rejected as unsupported elsewhere.
        status_reporting_interval: _,
        circuit_breaker: CircuitBreaker { enabled, failure_threshold, timeout },
    } = failures;
    let partial_failure = match partial_failure_mode {
        PartialFailureMode::Fail => PartialFailure::Fail,
        PartialFailureMode::BestEffort => PartialFailure::BestEffort,
    };
    // The configuration guarantees a positive threshold, and a timeout below the interval.
    let threshold = NonZeroU32::new(*unhealthy_threshold).unwrap_or(NonZeroU32::MIN);
    let (interval, timeout_of) = ((*health_check_interval).into(), (*health_check_timeout).into());
    let checks = Checks::new(interval, timeout_of, threshold);
    let breaking = CircuitSettings::new(*failure_threshold, (*timeout).into()).ok();
    Failures { partial_failure, checks, breaking: breaking.filter(|_| *enabled) }
}
