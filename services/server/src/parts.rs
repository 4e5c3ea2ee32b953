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
    AuthServer, CircuitBreaker, FailureHandling, File, IncomingAuth as IncomingSection, LogLevel,
    Operational, PartialFailureMode, SecretFile, Warning,
};
use vmcp_egress::Egress;

pub(crate) use self::audit::AuditPipeline;
pub use self::audit::{AuditOptions, AuditParts};
use self::auth_server::Conversion;
pub(crate) use self::auth_server::ObservedProvider;
pub use self::auth_server::{
    AuthServerParts, AuthServerReport, ProviderStatus, StorageError, StorageStatus,
};

use self::backends::SharedSettings;
pub use self::backends::transport_name;
use self::credential_advice::KnownIssuers;
pub(crate) use self::embedded_issuer::IssuerSessions;
pub use self::error::PartsError;
pub use self::incoming_auth::IncomingAuth;
pub use self::policy_evaluator::PolicyEvaluator;
pub use self::telemetry::TelemetryParts;
pub use self::unstacked::PendingSettings;
pub use self::unsupported::Unsupported;
use crate::memory_gauges::MemoryGauges;

/// Components of a server, built from one configuration.
#[derive(Debug)]
pub struct Parts {
    /// Settings of the aggregating service.
    pub settings: PendingSettings,
    /// Authentication and authorization of incoming requests.
    pub incoming_auth: IncomingAuth,
    /// Audit recording; `None` disables it.
    pub audit: Option<AuditParts>,
    /// Metrics and traces; `None` disables them.
    pub telemetry: Option<TelemetryParts>,
    /// Embedded authorization server, if one is configured.
    pub auth_server: Option<AuthServerParts>,
    /// Settings that are valid but probably unintended.
    pub warnings: Vec<Warning>,
    /// Description of the configuration for `/status`.
    pub info: ServerInfo,
    /// `true` for debug logging.
    pub debug: bool,
    /// Gauges of the credential caches.
    pub(crate) gauges: MemoryGauges,
}

/// Description of the configuration for `/status` and `inspect`.
#[derive(Clone, Debug, Default)]
pub struct ServerInfo {
    /// Name of the server.
    pub name: String,
    /// Group of the backends.
    pub group: String,
    /// `metadata` of the server.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// `true` if lists fail while a backend has not responded (`partialFailureMode: fail`).
    pub is_strict: bool,
    /// Descriptions by backend name.
    pub backends: std::collections::BTreeMap<String, BackendInfo>,
}

/// Description of one backend's configuration.
#[derive(Clone, Debug, Default)]
pub struct BackendInfo {
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
        let Failures { partial_failure, checks, circuit } = failures(&failure_handling);
        let default_provider = first_provider(auth_server.as_ref());
        let (strategies, mut errors) =
            credentials::strategies(outgoing_auth, default_provider, egress);
        let issuers = Arc::new(KnownIssuers::new(&incoming_auth, auth_server.as_ref()));
        let (incoming_auth, Conversion { auth_server, errors: found, mut warnings }) =
            front(&name, incoming_auth, auth_server, egress);
        errors.extend(found);
        let (telemetry, found) = telemetry::convert(&name, telemetry, egress);
        errors.extend(found);
        let describe = |backend| backends::describe(backend, &group, &strategies);
        let is_strict = partial_failure == PartialFailure::Fail;
        let known = backends.iter().map(describe).collect();
        let group = group.clone();
        let info = ServerInfo { name: name.clone(), group, metadata, is_strict, backends: known };
        let (timeout_settings, strategies) = (&timeouts, &strategies);
        let shared = SharedSettings { timeout_settings, strategies, circuit, issuers, egress };
        let (backends, found) = backends::settings(backends, &shared);
        errors.extend(found);
        let (audit, found) = audit::convert(audit);
        errors.extend(found);
        let is_valid = unsupported.is_empty() && errors.is_empty();
        let Some(incoming_auth) = incoming_auth.filter(|_| is_valid) else {
            return Err(PartsError { unsupported, errors, ..PartsError::default() });
        };
        warnings.extend(incoming_auth.unknown_backends(|name| info.backends.contains_key(name)));
        let settings = settings(name, aggregation::rules(aggregation), partial_failure, checks);
        let settings = PendingSettings { settings, backends };
        Ok(Self {
            settings,
            incoming_auth,
            audit,
            telemetry,
            auth_server,
            warnings,
            info,
            debug: matches!(log_level, Some(LogLevel::Debug)),
            gauges: strategies.gauges.clone(),
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
    incoming: IncomingSection,
    section: Option<AuthServer<SecretFile>>,
    egress: &Egress,
) -> (Option<IncomingAuth>, Conversion) {
    let is_issuer = section.is_some();
    let hosts = configured_hosts::configured_hosts(&incoming, section.as_ref());
    let converted = section.map(|section| auth_server::convert(name, section, &incoming, egress));
    let mut converted = converted.unwrap_or_default();
    let (incoming_auth, found, warnings) =
        incoming_auth::convert(name, incoming, is_issuer, egress);
    converted.errors.extend(found);
    converted.warnings.extend(warnings);
    (incoming_auth.map(|incoming_auth| incoming_auth.with_configured_hosts(hosts)), converted)
}

/// Settings of `operational.failureHandling`.
struct Failures {
    partial_failure: PartialFailure,
    checks: Checks,
    /// Circuit breaker of each backend; `None` disables it.
    circuit: Option<CircuitSettings>,
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
    let circuit = CircuitSettings::new(*failure_threshold, (*timeout).into()).ok();
    Failures { partial_failure, checks, circuit: circuit.filter(|_| *enabled) }
}
