//! Validated settings of the export.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use http::uri::{Scheme, Uri};
use http::{HeaderName, HeaderValue};

/// Settings of the export. The default exports nothing.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Collector. Required for traces and for `metrics`.
    pub endpoint: Option<Endpoint>,
    /// Headers for the collector, usually credentials. `Debug` shows only their names.
    pub headers: Headers,
    /// Ratio of sampled traces. `None` disables tracing; no tracer provider is created.
    pub sampling: Option<SamplingRatio>,
    /// Sends metrics to the collector.
    pub metrics: bool,
    /// Serves metrics as Prometheus text, independent of `metrics`.
    pub prometheus: bool,
    /// `service.name` of all signals; takes precedence over `OTEL_SERVICE_NAME`.
    pub service_name: Option<String>,
    /// `service.name` if no other source has one: the name of the server.
    pub default_service_name: String,
    /// `service.version` of all signals.
    pub service_version: String,
    /// Resource attributes of all signals; take precedence over `OTEL_RESOURCE_ATTRIBUTES`.
    pub custom_attributes: BTreeMap<String, String>,
    /// Environment variables that spans carry as `environment.<NAME>`. No other variables are read.
    pub environment_variables: Vec<String>,
    /// Records the older attribute names beside those of the semantic conventions.
    pub legacy_attributes: bool,
}

/// URL of a collector: scheme, host, port, and the base path of the signals' paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Uri);

/// Protocol of a collector (`OTEL_EXPORTER_OTLP_PROTOCOL`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `grpc`: needs an HTTP/2 client, by prior knowledge without TLS.
    Grpc,
    /// `http/protobuf`.
    #[default]
    Http,
}

/// Ratio of sampled traces, from 0 to 1. The default is 0.05.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingRatio(f64);

/// Headers with secret values.
#[derive(Clone, Default)]
pub struct Headers(pub(crate) Vec<(HeaderName, HeaderValue)>);

/// Error of a setting, with the change that fixes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The endpoint is not a URL.
    #[error("endpoint: {0:?} is not the URL of a collector; use http(s)://host:port or host:port")]
    Endpoint(String),
    /// The scheme and `insecure` contradict each other.
    #[error("endpoint: {0} requires insecure: {1}")]
    InsecureMismatch(&'static str, bool),
    /// The protocol is not supported.
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL: {0:?} is not supported; use grpc or http/protobuf")]
    Protocol(String),
    /// The ratio is not a number from 0 to 1.
    #[error("samplingRate: must be a number from 0.0 to 1.0")]
    Sampling,
    /// The name of a header is invalid.
    #[error("headers: {0:?} is not a valid header name")]
    HeaderName(String),
    /// The value of a header has invalid characters.
    #[error("headers: the value of {0} has invalid characters")]
    HeaderValue(HeaderName),
    /// A signal is enabled without an endpoint.
    #[error("endpoint: missing; traces and metrics need a collector")]
    MissingEndpoint,
}

// === impl Endpoint ===

impl Endpoint {
    /// Parses a URL with or without a scheme. `insecure` requires http; without it https is
    /// required.
    ///
    /// # Errors
    /// The text is not a URL, has user information or a query, or its scheme contradicts
    /// `insecure`.
    pub fn new(text: &str, insecure: bool) -> Result<Self, SettingsError> {
        let invalid = || SettingsError::Endpoint(text.chars().take(256).collect());
        let default = if insecure { "http://" } else { "https://" };
        let url = if text.contains("://") { text.to_owned() } else { format!("{default}{text}") };
        let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| invalid())?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP && !insecure => {
                return Err(SettingsError::InsecureMismatch("an http URL", true));
            }
            Some(scheme) if *scheme == Scheme::HTTPS && insecure => {
                return Err(SettingsError::InsecureMismatch("an https URL", false));
            }
            Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => {}
            _ => return Err(invalid()),
        }
        let host = uri.authority().is_some_and(|host| !host.as_str().contains('@'));
        if host && uri.query().is_none() { Ok(Self(uri)) } else { Err(invalid()) }
    }

    /// Returns the URL. The HTTP client of the exporter has to reach its origin.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// Returns whether the URL uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// Appends a path to the URL.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.0.to_string().trim_end_matches('/'))
    }
}

// === impl Protocol ===

impl FromStr for Protocol {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text {
            "grpc" => Ok(Self::Grpc),
            "" | "http/protobuf" => Ok(Self::Http),
            other => Err(SettingsError::Protocol(other.chars().take(64).collect())),
        }
    }
}

// === impl SamplingRatio ===

impl SamplingRatio {
    /// Returns the ratio as a number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for SamplingRatio {
    type Error = SettingsError;

    fn try_from(ratio: f64) -> Result<Self, SettingsError> {
        if (0.0..=1.0).contains(&ratio) { Ok(Self(ratio)) } else { Err(SettingsError::Sampling) }
    }
}

impl Default for SamplingRatio {
    fn default() -> Self {
        Self(0.05)
    }
}

// === impl Headers ===

impl Headers {
    /// Parses the headers of a configuration.
    ///
    /// # Errors
    /// A name or a value is invalid. The error does not contain the value.
    pub fn new<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a secrecy::SecretString)>,
    ) -> Result<Self, SettingsError> {
        let read = |(name, value): (&str, &secrecy::SecretString)| {
            let name = HeaderName::from_str(name)
                .map_err(|_| SettingsError::HeaderName(name.chars().take(256).collect()))?;
            let mut value = HeaderValue::from_str(secrecy::ExposeSecret::expose_secret(value))
                .map_err(|_| SettingsError::HeaderValue(name.clone()))?;
            value.set_sensitive(true);
            Ok((name, value))
        };
        headers.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insecure_selects_the_default_scheme() {
        let secure = Endpoint::new("otel:4318", false).unwrap();
        assert_eq!(
            (secure.uri().to_string(), secure.is_secure()),
            ("https://otel:4318/".into(), true)
        );
        assert!(!Endpoint::new("otel:4318", true).unwrap().is_secure());
    }

    #[test]
    fn rejects_scheme_that_contradicts_insecure() {
        let message = |text, insecure| Endpoint::new(text, insecure).unwrap_err().to_string();
        assert_eq!(message("http://otel", false), "endpoint: an http URL requires insecure: true");
        assert_eq!(
            message("https://otel", true),
            "endpoint: an https URL requires insecure: false"
        );
    }

    #[test]
    fn rejects_invalid_endpoints() {
        for text in ["", "ftp://otel", "https://u:p@otel", "https://otel?token=x", "/v1/traces"] {
            assert!(Endpoint::new(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn rejects_ratios_outside_zero_to_one() {
        for invalid in [-0.1, 1.1, f64::NAN] {
            assert_eq!(SamplingRatio::try_from(invalid), Err(SettingsError::Sampling));
        }
        assert_eq!(SamplingRatio::try_from(1.0).map(SamplingRatio::get), Ok(1.0));
    }

    #[test]
    fn secrets_appear_in_no_debug_output_or_error() {
        let value = "canary".into();
        let headers = Headers::new([("authorization", &value)]).unwrap();
        let settings = Settings { headers, ..Settings::default() };
        assert!(!format!("{settings:?}").contains("canary"));
        let bad = "canary\n".into();
        let error = Headers::new([("authorization", &bad)]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}
