//! Builder of the parts, in one direction: configuration, started telemetry, parts with complete stacks.

use std::sync::Arc;

use vmcp_aggregate::settings::{PartialFailure, Settings};
use vmcp_config::{
    AuthServer, ConfigError, File, IncomingAuth as IncomingSection, LogLevel, Operational,
    SecretFile, SessionStorage, Telemetry as TelemetrySection, Warning,
};
use vmcp_egress::Egress;

use super::auth_server::{self, Conversion};
use super::backends::{self, Converted, SharedSettings};
use super::credential_advice::KnownIssuers;
use super::environment::Environment;
use super::failures::Failures;
use super::telemetry::{self, TelemetryParts, TelemetrySource};
use super::{
    IncomingAuth, Parts, PartsError, ServerInfo, SessionStorageParts, aggregation, audit,
    configured_hosts, credentials, discovered, incoming_auth, optimizer, session_storage,
    unsupported,
};

/// Builder of [`Parts`]. Starts telemetry first if the configuration enables it, because the stacks of backends report to
/// it.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct PartsBuilder<'a> {
    pub(super) egress: &'a Egress,
    pub(super) environment: &'a Environment,
    pub(super) telemetry: TelemetrySource<'a>,
    /// `true` for a replica of a VirtualMCPServer.
    pub(super) is_replica: bool,
}

impl Parts {
    /// Returns a builder whose parts connect through `egress`.
    pub fn builder(egress: &Egress) -> PartsBuilder<'_> {
        static PROCESS: Environment = Environment::of_process();
        let telemetry = TelemetrySource::Start { attributes: &[] };
        PartsBuilder { egress, environment: &PROCESS, telemetry, is_replica: false }
    }
}

impl<'a> PartsBuilder<'a> {
    /// Reads variables from `environment`. The default is the environment of the process.
    pub fn environment(self, environment: &'a Environment) -> Self {
        Self { environment, ..self }
    }

    /// Adds resource attributes to telemetry; they override those of the configuration.
    pub fn telemetry_attributes(self, attributes: &'a [(String, String)]) -> Self {
        Self { telemetry: TelemetrySource::Start { attributes }, ..self }
    }

    /// Starts no telemetry, for parts that serve no requests. The section is still checked.
    pub fn without_telemetry(self) -> Self {
        Self { telemetry: TelemetrySource::Off, ..self }
    }

    /// Accepts the settings that apply to a replica of a VirtualMCPServer alone: `outgoingAuth.source: discovered` and
    /// `operational.failureHandling.statusReportingInterval`.
    pub fn replica(self, is_replica: bool) -> Self {
        Self { is_replica, ..self }
    }

    /// Uses telemetry that runs already.
    pub(crate) fn running_telemetry(self, running: Option<&'a TelemetryParts>) -> Self {
        Self { telemetry: TelemetrySource::Running(running), ..self }
    }

    /// Builds the parts that `file` configures. Call it within a tokio runtime if `file` enables telemetry.
    ///
    /// # Errors
    /// Returns all unsupported sections, or all invalid values, or the reason why telemetry does not start.
    pub fn build(self, file: File) -> Result<Parts, PartsError> {
        let contradictions = file.contradictions();
        if contradictions.is_empty() {
            return self.build_consistent(file);
        }
        let built = self.without_telemetry().build_consistent(file);
        let mut error = built.err().unwrap_or_default();
        error.in_document = contradictions.len();
        error.errors.splice(..0, contradictions);
        Err(error)
    }

    /// Builds the parts without a check for contradictions between sections.
    pub(super) fn build_consistent(self, file: File) -> Result<Parts, PartsError> {
        let unsupported = unsupported::find(&file, self.is_replica);
        let (group, is_discovered) = (file.group().to_owned(), discovered::is_discovered(&file));
        let File {
            name,
            group_ref: _,
            metadata,
            aggregation,
            audit,
            backends,
            // Checked with the document: placeholders read no unlisted variables.
            variables: _,
            composite_tools,
            incoming_auth,
            outgoing_auth,
            operational,
            optimizer,
            session_storage,
            telemetry,
            auth_server,
        } = file;
        let Operational { log_level, timeouts, failure_handling } = operational;
        let Failures { partial_failure, checks, circuit, report_interval } =
            Failures::new(&failure_handling)?;
        let provider = first_provider(auth_server.as_ref());
        let (strategies, mut errors) = credentials::strategies(outgoing_auth, provider, self);
        let issuers = Arc::new(KnownIssuers::new(&incoming_auth, auth_server.as_ref()));
        let (incoming_auth, Conversion { auth_server, errors: found, mut warnings }) =
            front(&name, incoming_auth, auth_server, self);
        errors.extend(found);
        let session_storage =
            self.session_storage(&name, session_storage, &mut errors, &mut warnings);
        let audit = audit::convert(audit, &mut errors);
        let rules = aggregation::convert(aggregation, &composite_tools, &mut errors);
        let optimizer = optimizer::convert(optimizer, &composite_tools, self, &mut errors);
        // After the other sections, so that a file with errors starts nothing. Before the backends, whose stacks report
        // to it.
        let telemetry = self.start_telemetry(unsupported.is_empty(), &name, telemetry, &mut errors);
        let (timeouts, strategies) = (&timeouts, &strategies);
        let layer = telemetry.as_ref().map(TelemetryParts::outgoing);
        let shared =
            SharedSettings { timeouts, strategies, circuit, issuers, builder: self, layer };
        let Converted { backends, info } =
            backends::settings(backends, &group, &shared, &mut errors, &mut warnings);
        let is_valid = unsupported.is_empty() && errors.is_empty();
        let Some(incoming_auth) = incoming_auth.filter(|_| is_valid) else {
            return Err(PartsError { unsupported, errors, ..PartsError::default() });
        };
        let is_strict = partial_failure == PartialFailure::Fail;
        let base = Settings { partial_failure, checks: Some(checks), ..Settings::new(&*name) };
        let info = ServerInfo { name, metadata, is_strict, is_discovered, report_interval, ..info };
        warnings.extend(incoming_auth.unknown_backends(|name| info.may_have(name)));
        Ok(Parts {
            settings: Settings { backends, rules, optimizer, ..base },
            incoming_auth,
            audit,
            telemetry,
            auth_server,
            session_storage,
            warnings,
            info,
            debug: log_level == Some(LogLevel::Debug),
            gauges: strategies.gauges.clone(),
        })
    }

    fn session_storage(
        self,
        name: &str,
        section: SessionStorage<SecretFile>,
        errors: &mut Vec<ConfigError>,
        warnings: &mut Vec<Warning>,
    ) -> Option<SessionStorageParts> {
        let variable = |name: &str| self.environment.variable(name);
        session_storage::convert(name, section, variable, errors, warnings)
    }

    /// Starts telemetry, unless the configuration has errors.
    fn start_telemetry(
        self,
        is_supported: bool,
        name: &str,
        section: Option<TelemetrySection>,
        errors: &mut Vec<ConfigError>,
    ) -> Option<TelemetryParts> {
        let is_valid = is_supported && errors.is_empty();
        let builder = if is_valid { self } else { self.without_telemetry() };
        let telemetry =
            telemetry::start(name, section, builder.telemetry, self.egress, self.environment);
        telemetry.map_err(|found| errors.extend(found)).ok().flatten()
    }
}

/// Returns the name of the first provider that users log in at.
fn first_provider(section: Option<&AuthServer<SecretFile>>) -> Option<&str> {
    section?.upstream_providers.first().map(|upstream| upstream.name.as_str())
}

/// Converts `incomingAuth` and `authServer` into authentication, authorization and the embedded authorization server.
fn front(
    name: &str,
    incoming: IncomingSection,
    section: Option<AuthServer<SecretFile>>,
    builder: PartsBuilder<'_>,
) -> (Option<IncomingAuth>, Conversion) {
    let PartsBuilder { egress, environment, telemetry: _, is_replica: _ } = builder;
    let is_issuer = section.is_some();
    let hosts = configured_hosts::configured_hosts(&incoming, section.as_ref());
    let converted = section.map(|section| auth_server::convert(name, section, &incoming, egress));
    let mut converted = converted.unwrap_or_default();
    let (incoming_auth, found, warnings) =
        incoming_auth::convert(name, incoming, is_issuer, egress, environment);
    converted.errors.extend(found);
    converted.warnings.extend(warnings);
    (incoming_auth.map(|incoming_auth| incoming_auth.with_configured_hosts(hosts)), converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rest: &str) -> File {
        let text = format!(
            "name: x\nincomingAuth: {{type: anonymous}}\n\
             telemetry: {{enablePrometheusMetricsPath: true}}\n{rest}"
        );
        File::parse(&text, vmcp_config::Format::Yaml).unwrap()
    }

    #[test]
    fn starts_telemetry_only_for_a_server() {
        let egress = Egress::default();
        let builder = Parts::builder(&egress);
        assert!(builder.build(file("")).unwrap().telemetry.is_some());
        assert!(builder.without_telemetry().build(file("")).unwrap().telemetry.is_none());
    }

    #[test]
    fn reload_keeps_running_telemetry() {
        let egress = Egress::default();
        let running = Parts::builder(&egress).build(file("")).unwrap().telemetry;
        let renamed = File { name: "y".to_owned(), ..file("") };
        let reloaded = Parts::builder(&egress).running_telemetry(running.as_ref()).build(renamed);
        assert_eq!(reloaded.unwrap().telemetry.unwrap().telemetry.service_name(), "x");
    }

    #[test]
    fn only_replica_has_interval_of_reports() {
        let egress = Egress::default();
        let every = || file("operational: {failureHandling: {statusReportingInterval: 5s}}\n");
        let builder = Parts::builder(&egress).without_telemetry();
        let parts = builder.replica(true).build(every()).unwrap();
        assert_eq!(parts.info.report_interval, std::time::Duration::from_secs(5));
        let error = builder.build(every()).unwrap_err();
        assert_eq!(error.unsupported.len(), 1);
        assert!(error.unsupported[0].path.ends_with("statusReportingInterval"));
    }
}
