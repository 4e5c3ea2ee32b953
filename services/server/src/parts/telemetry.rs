//! `telemetry`: metrics and traces, and their destinations.

use std::path::Path;

use vmcp_config::{ConfigError, FilePath, Telemetry as Section};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher, Versions};
use vmcp_telemetry_export::{
    BuildError, Endpoint, Headers, Protocol, SamplingRatio, Settings, SettingsError, Telemetry,
};

/// Environment variable for the collector's protocol.
const PROTOCOL_VARIABLE: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

/// Maximum size of an export, in bytes. Thousands of label sets take some megabytes.
const MAX_EXPORT_SIZE: usize = 64 * 1024 * 1024;

/// Metrics and traces, and their destinations.
#[derive(Clone, Debug)]
pub struct TelemetryParts {
    settings: Settings,
    /// HTTP client for the collector.
    fetcher: Fetcher,
    source_config: Section,
}

/// Converts the section, and returns its error.
pub(super) fn convert(
    name: &str,
    section: Option<Section>,
    egress: &Egress,
) -> (Option<TelemetryParts>, Vec<ConfigError>) {
    let Some(section) = section else { return (None, Vec::new()) };
    let mut errors = Vec::new();
    let source_config = section.clone();
    let Section {
        endpoint,
        insecure,
        ca_cert_path,
        headers,
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
    let headers = Headers::new(headers.iter().map(|(name, value)| (name.as_str(), value.secret())));
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
    let parts = fetcher.ok().map(|fetcher| TelemetryParts { settings, fetcher, source_config });
    (parts, errors)
}

impl TelemetryParts {
    /// Starts the exporter within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the settings or the environment variables of the exporter are invalid.
    pub fn start(self) -> Result<Telemetry, BuildError> {
        let Self { settings, fetcher, source_config: _ } = self;
        Telemetry::builder(settings)
            .environment(|name| std::env::var(name).ok())
            .otlp(fetcher)?
            .build()
    }

    /// Adds resource attributes; they override those of the configuration.
    pub fn add_attributes(&mut self, attributes: &[(String, String)]) {
        self.settings.custom_attributes.extend(attributes.iter().cloned());
    }

    /// Returns `true` if both were built from the same configuration.
    pub(crate) fn is_same_config(&self, other: &Self) -> bool {
        self.source_config == other.source_config
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
