//! What is sent where: settings that are valid once they exist.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use http::uri::{Scheme, Uri};
use http::{HeaderName, HeaderValue};

/// What is to be measured and where it goes. The default measures nothing.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the collector is. Needed for `tracing` and for `metrics`.
    pub endpoint: Option<Endpoint>,
    /// Headers that the collector wants, credentials mostly. They never appear in a `Debug` form.
    pub headers: Headers,
    /// The share of traces that are recorded. `None` records none: there is no tracer provider then.
    pub sampling: Option<SamplingRatio>,
    /// Whether metrics are sent to the collector.
    pub metrics: bool,
    /// Whether metrics are shown as text, independent of `metrics`.
    pub prometheus: bool,
    /// `service.name` of all signals; before `OTEL_SERVICE_NAME`.
    pub service_name: Option<String>,
    /// `service.name` when nobody else says one: the server's name.
    pub default_service_name: String,
    /// `service.version` of all signals.
    pub service_version: String,
    /// Resource attributes of all signals; before `OTEL_RESOURCE_ATTRIBUTES`.
    pub custom_attributes: BTreeMap<String, String>,
    /// Environment variables that spans carry as `environment.<NAME>`. No others are read.
    pub environment_variables: Vec<String>,
    /// Whether the older attribute names are written beside the ones of the conventions.
    pub legacy_attributes: bool,
}

/// Where a collector is: scheme, host, port, and the path that its signals' paths are appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Uri);

/// How a collector is spoken to (`OTEL_EXPORTER_OTLP_PROTOCOL`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `grpc`: needs a client that speaks HTTP/2, without TLS by prior knowledge.
    Grpc,
    /// `http/protobuf`.
    #[default]
    Http,
}

/// A share of traces, from 0 to 1. The default is 0.05.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingRatio(f64);

/// Headers whose values are secret.
#[derive(Clone, Default)]
pub struct Headers(pub(crate) Vec<(HeaderName, HeaderValue)>);

/// Which setting is wrong, and how it is put right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The endpoint is no address.
    #[error("endpoint: {0:?} is no URL of a collector: give http(s)://host:port or host:port")]
    Endpoint(String),
    /// The scheme and `insecure` contradict each other.
    #[error("endpoint: {0} needs insecure: {1}")]
    InsecureMismatch(&'static str, bool),
    /// The protocol is none of those that are spoken.
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL: {0:?} is not spoken: use grpc or http/protobuf")]
    Protocol(String),
    /// The ratio is no number from 0 to 1.
    #[error("samplingRate: must be a number from 0.0 to 1.0")]
    Sampling,
    /// The name of a header is none.
    #[error("headers: {0:?} is no name of a header")]
    HeaderName(String),
    /// The value of a header cannot be sent.
    #[error("headers: the value of {0} has characters that cannot be sent")]
    HeaderValue(HeaderName),
    /// Something is to be sent, and nobody says where to.
    #[error("endpoint: is missing, but traces or metrics are to be sent")]
    MissingEndpoint,
}

// === impl Endpoint ===

impl Endpoint {
    /// Reads `text`, with or without a scheme. `insecure` allows http, and only http.
    ///
    /// # Errors
    /// It is no address, has user information or a query, or its scheme contradicts `insecure`.
    pub fn new(text: &str, insecure: bool) -> Result<Self, SettingsError> {
        let invalid = || SettingsError::Endpoint(text.chars().take(256).collect());
        let default = if insecure { "http://" } else { "https://" };
        let url = if text.contains("://") { text.to_owned() } else { format!("{default}{text}") };
        let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| invalid())?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP && !insecure => {
                return Err(SettingsError::InsecureMismatch("an http address", true));
            }
            Some(scheme) if *scheme == Scheme::HTTPS && insecure => {
                return Err(SettingsError::InsecureMismatch("an https address", false));
            }
            Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => {}
            _ => return Err(invalid()),
        }
        let host = uri.authority().is_some_and(|host| !host.as_str().contains('@'));
        if host && uri.query().is_none() { Ok(Self(uri)) } else { Err(invalid()) }
    }

    /// The whole address. The client that is given for it has to reach its origin.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// Whether it is spoken to over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// The address of a path below it.
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
    /// The share as a number.
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
    /// Headers as a configuration has them.
    ///
    /// # Errors
    /// A name is none, or a value cannot be sent. The value is not in the error.
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
        assert_eq!(message("http://otel", false), "endpoint: an http address needs insecure: true");
        assert_eq!(
            message("https://otel", true),
            "endpoint: an https address needs insecure: false"
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
