//! `telemetry`: metrics and traces, and their destinations.

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::SecretString;
use vmcp_config::{ConfigError, EnvName, File, FilePath, Telemetry as Section};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher, Versions};
use vmcp_telemetry::ClientTelemetryLayer;
use vmcp_telemetry_export::{
    BuildError, Builder, Endpoint, Headers, Protocol, SamplingRatio, Settings, SettingsError,
    Telemetry,
};

use super::environment::Environment;

/// Environment variable for the collector's protocol.
const PROTOCOL_VARIABLE: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

/// Maximum size of an export, in bytes. Thousands of label sets take some megabytes.
const MAX_EXPORT_SIZE: usize = 64 * 1024 * 1024;

/// Started telemetry, with the section that it was started from.
#[derive(Clone, Debug)]
pub struct TelemetryParts {
    /// Exporters, with the layers that report to them.
    pub telemetry: Telemetry,
    section: Section,
}

/// Origin of the telemetry that parts report to.
#[derive(Clone, Copy, Debug)]
pub(super) enum TelemetrySource<'a> {
    /// Started from the section, with these resource attributes in addition.
    Start { attributes: &'a [(String, String)] },
    /// Started earlier. A reload does not change it.
    Running(Option<&'a TelemetryParts>),
    /// None: the section is only checked.
    Off,
}

/// ConvertedTelemetry section.
struct ConvertedTelemetry {
    settings: Settings,
    /// HTTP client for the collector.
    fetcher: Fetcher,
}

/// Returns the telemetry from `source`, or the errors of the section.
pub(super) fn start(
    name: &str,
    section: Option<Section>,
    source: TelemetrySource<'_>,
    egress: &Egress,
    environment: &Environment,
) -> Result<Option<TelemetryParts>, Vec<ConfigError>> {
    let converted = section.clone().map(|section| convert(name, section, egress, environment));
    let converted = converted.transpose()?;
    match (source, converted.zip(section)) {
        (TelemetrySource::Off, _) | (TelemetrySource::Start { .. }, None) => Ok(None),
        (TelemetrySource::Running(running), _) => Ok(running.cloned()),
        (TelemetrySource::Start { attributes }, Some((mut converted, section))) => {
            converted.settings.custom_attributes.extend(attributes.iter().cloned());
            let telemetry = converted.exporters().and_then(Builder::build);
            let telemetry = telemetry.map_err(|error| vec![start_error(&error)])?;
            Ok(Some(TelemetryParts { telemetry, section }))
        }
    }
}

/// Returns the reason why the valid section `telemetry` of `file` cannot be started, without starting it. Call it within
/// a tokio runtime.
#[must_use]
pub fn telemetry_error(
    file: &File,
    egress: &Egress,
    environment: &Environment,
) -> Option<ConfigError> {
    let section = file.telemetry.clone()?;
    match convert(&file.name, section, egress, environment) {
        Ok(converted) => converted.exporters().err().map(|error| start_error(&error)),
        Err(errors) => errors.into_iter().next(),
    }
}

fn start_error(error: &BuildError) -> ConfigError {
    ConfigError::new("telemetry", error.to_string(), "settings that the exporter takes")
}

/// Converts the section, or returns its errors.
fn convert(
    name: &str,
    section: Section,
    egress: &Egress,
    environment: &Environment,
) -> Result<ConvertedTelemetry, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let Section {
        endpoint,
        insecure,
        ca_cert_path,
        headers,
        headers_env,
        tracing_enabled,
        sampling_rate,
        metrics_enabled,
        enable_prometheus_metrics_path,
        service_name,
        service_version,
        custom_attributes,
        environment_variables,
        use_legacy_attributes,
    } = section;
    let fetcher = Fetcher::new(
        egress.clone(),
        fetch_policy(insecure, ca_cert_path.as_ref().map(FilePath::as_path)),
    );
    let fetcher = fetcher.map_err(|error| {
        let found = ca_cert_path.map(|path| path.as_path().display().to_string());
        let allowed = format!("a readable file of PEM certificates ({error})");
        errors.push(config_error("caCertPath", found.unwrap_or_default(), allowed));
    });
    let endpoint = endpoint.map(|text| Endpoint::new(&text, insecure)).transpose();
    let endpoint = endpoint.map_err(|error| errors.push(to_config_error(&error)));
    let named = header_values(&headers_env, environment).map_err(|found| errors.extend(found));
    let named = named.unwrap_or_default();
    let literal = headers.iter().map(|(name, value)| (name.as_str(), value.secret()));
    let headers = Headers::new(literal.chain(named.iter().map(|(name, value)| (*name, value))));
    let headers = headers.map_err(|error| errors.push(to_config_error(&error)));
    let sampling = SamplingRatio::try_from(sampling_rate.get());
    let sampling = sampling.map_err(|error| errors.push(to_config_error(&error)));
    let settings = Settings {
        endpoint: endpoint.unwrap_or_default(),
        headers: headers.unwrap_or_default(),
        sampling: sampling.ok().filter(|_| tracing_enabled),
        metrics: metrics_enabled,
        prometheus: enable_prometheus_metrics_path,
        service_name,
        default_service_name: name.to_owned(),
        service_version: service_version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
        custom_attributes,
        environment_variables: environment_variables
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect(),
        legacy_attributes: use_legacy_attributes,
    };
    if errors.is_empty() {
        errors.extend(unreachable_collector(&settings));
    }
    match fetcher {
        Ok(fetcher) if errors.is_empty() => Ok(ConvertedTelemetry { settings, fetcher }),
        Ok(_) | Err(()) => Err(errors),
    }
}

/// Returns the headers with the values of their variables, or all errors.
fn header_values<'a>(
    headers: &'a BTreeMap<String, EnvName>,
    environment: &Environment,
) -> Result<Vec<(&'a str, SecretString)>, Vec<ConfigError>> {
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    for (header, name) in headers {
        match environment.secret(&format!("telemetry.headersEnv.{header}"), name) {
            Ok(value) => values.push((header.as_str(), value)),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(values) } else { Err(errors) }
}

impl ConvertedTelemetry {
    /// Returns a builder with the exporters, which start with [`Builder::build`].
    fn exporters(self) -> Result<Builder, BuildError> {
        let Self { settings, fetcher } = self;
        Telemetry::builder(settings).environment(|name| std::env::var(name).ok()).otlp(fetcher)
    }
}

impl TelemetryParts {
    /// Returns the layer for requests to a backend.
    pub(super) fn outgoing(&self) -> ClientTelemetryLayer {
        self.telemetry.outgoing()
    }

    /// Returns `true` if `section` equals the one that this was started from.
    pub(crate) fn is_section(&self, section: &Section) -> bool {
        self.section == *section
    }
}

/// Returns the fetch policy for the collector.
fn fetch_policy(insecure: bool, ca_bundle: Option<&Path>) -> FetchPolicy {
    FetchPolicy {
        // The operator configures the collector, which is often on a private address.
        addresses: FetchAddresses::Any,
        http: insecure,
        ca_bundle: ca_bundle.map(Path::to_owned),
        max_body: MAX_EXPORT_SIZE,
        versions: match configured_protocol() {
            Ok(Protocol::Grpc) => Versions::Http2,
            Ok(Protocol::Http) | Err(_) => Versions::Negotiated,
        },
        ..FetchPolicy::supplied()
    }
}

/// Returns an error if the collector cannot be reached with these settings.
fn unreachable_collector(settings: &Settings) -> Option<ConfigError> {
    if settings.sampling.is_none() && !settings.metrics {
        return None;
    }
    if settings.endpoint.is_none() {
        return Some(to_config_error(&SettingsError::MissingEndpoint));
    }
    configured_protocol().err().map(|error| to_config_error(&error))
}

/// Returns the protocol of the collector.
fn configured_protocol() -> Result<Protocol, SettingsError> {
    std::env::var(PROTOCOL_VARIABLE).unwrap_or_default().parse()
}

fn config_error(key: &str, found: String, allowed: String) -> ConfigError {
    ConfigError::new(format!("telemetry.{key}"), found, allowed)
}

/// Converts an invalid setting into a configuration error: path, found value and allowed values.
fn to_config_error(error: &SettingsError) -> ConfigError {
    let (key, found, allowed) = match error {
        SettingsError::Endpoint(text) => {
            let allowed = "the URL of a collector: http(s)://host:port, or host:port";
            ("endpoint", format!("\"{text}\""), allowed.to_owned())
        }
        SettingsError::InsecureMismatch(what, insecure) => {
            let found = format!("{what} with insecure: {}", !insecure);
            ("endpoint", found, format!("{what} with insecure: {insecure}"))
        }
        SettingsError::Protocol(text) => {
            let allowed = "grpc or http/protobuf in that variable".to_owned();
            ("endpoint", format!("{PROTOCOL_VARIABLE}=\"{text}\""), allowed)
        }
        SettingsError::Sampling => {
            ("samplingRate", "another number".to_owned(), "a number from 0.0 to 1.0".to_owned())
        }
        SettingsError::HeaderName(name) => {
            ("headers", format!("\"{name}\""), "names of HTTP header fields".to_owned())
        }
        SettingsError::HeaderValue(name) => {
            let allowed = "text that can stand in a header".to_owned();
            ("headers", format!("the value of {name}"), allowed)
        }
        SettingsError::MissingEndpoint => {
            let allowed = "the URL of a collector, since traces or metrics are to be sent";
            ("endpoint", "none".to_owned(), allowed.to_owned())
        }
    };
    config_error(key, found, allowed)
}
