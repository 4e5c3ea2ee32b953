//! Traces and metrics.

use std::collections::BTreeMap;

use serde_json::json;
use vmcp_config::{
    ConfigErrors, Decimal, EnvName, FilePath, HeaderName, Secret, Telemetry, from_json,
};

use super::{
    EnvironmentVariable, WarningReason,
    converter::{Converter, Rejected, env_name, join, secret},
    strategy::filled,
};
use crate::{
    CaBundleRef, ConfigMapKeyRef, MCPTelemetryConfigSpec, MetricsExport, OpenTelemetry, Prometheus,
    SensitiveHeader, TelemetryConfigRef, TracingExport, condition::ConditionStatus,
    virtual_mcp_server::TelemetryConfigRefValidated,
};

/// Variable with attributes of the resource, which OpenTelemetry defines.
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Key of a CA bundle in a ConfigMap, if the reference names none.
const CA_KEY: &str = "ca.crt";

impl Converter<'_> {
    /// Converts the MCPTelemetryConfig, or else the section of `spec.config`.
    pub(super) fn telemetry(
        &mut self,
        inline: Option<Telemetry>,
    ) -> Result<Option<Telemetry>, Rejected> {
        let Some(reference) = self.inputs.server.spec.telemetry_config_ref.as_ref() else {
            return Ok(inline.map(|telemetry| {
                self.warn(
                    WarningReason::InlineTelemetryDeprecated,
                    "spec.config.telemetry is deprecated; create an MCPTelemetryConfig and refer to it with spec.telemetryConfigRef",
                );
                let service_name =
                    telemetry.service_name.clone().unwrap_or_else(|| self.service_name(None));
                Telemetry { service_name: Some(service_name), ..telemetry }
            }));
        };
        if inline.is_some() {
            self.warn(
                WarningReason::ConfigOverridden,
                "spec.config.telemetry has no effect: spec.telemetryConfigRef replaces it",
            );
        }
        self.referenced_telemetry(reference)
    }

    /// Returns the variables that the container needs for `telemetry`.
    pub(super) fn environment(&self, telemetry: Option<&Telemetry>) -> Vec<EnvironmentVariable> {
        let Some(telemetry) = telemetry else { return Vec::new() };
        let service = telemetry.service_name.as_deref().unwrap_or_default();
        let attributes = format!(
            "service.name={},service.namespace={}",
            encode(service),
            encode(self.inputs.namespace())
        );
        vec![EnvironmentVariable { name: RESOURCE_ATTRIBUTES.to_owned(), value: attributes }]
    }

    /// Returns the name of the service in signals: the one of the reference, or else that of the server, in which `vmcp-`
    /// replaces a leading `thv-`.
    fn service_name(&self, own: Option<&str>) -> String {
        let name = self.inputs.name();
        match (filled(own), name.strip_prefix("thv-")) {
            (Some(own), _) => own.to_owned(),
            (None, Some(rest)) => format!("vmcp-{rest}"),
            (None, None) => name.to_owned(),
        }
    }

    fn referenced_telemetry(
        &mut self,
        reference: &TelemetryConfigRef,
    ) -> Result<Option<Telemetry>, Rejected> {
        let TelemetryConfigRef { name, service_name } = reference;
        let path = "spec.telemetryConfigRef.name";
        let Some(config) = self.inputs.telemetry_config.clone() else {
            let message = format!("MCPTelemetryConfig {name} does not exist");
            self.reject(path, TelemetryConfigRefValidated::NotFound, message);
            return Err(Rejected);
        };
        let generation = config.metadata.generation;
        let conditions = config.status.iter().flat_map(|status| &status.conditions);
        let mut invalid = conditions.filter(|condition| {
            let is_current = condition.observed_generation.is_none()
                || condition.observed_generation == generation;
            let is_false = condition.status == ConditionStatus::False.as_str();
            condition.type_ == "Valid" && is_false && is_current
        });
        if self.inputs.checks.is_none()
            && let Some(condition) = invalid.next()
        {
            let message = format!("MCPTelemetryConfig {name} is invalid: {}", condition.message);
            self.reject(path, TelemetryConfigRefValidated::Invalid, message);
            return Err(Rejected);
        }
        let errors = self.errors.len();
        let MCPTelemetryConfigSpec { open_telemetry, prometheus } = &config.spec;
        let enabled = open_telemetry.as_ref().filter(|export| export.enabled);
        let mut telemetry = match enabled {
            None => Telemetry::default(),
            Some(export) => self.export(name, export),
        };
        telemetry.enable_prometheus_metrics_path =
            prometheus.as_ref().is_some_and(|Prometheus { enabled }| *enabled);
        telemetry.service_name = Some(self.service_name(service_name.as_deref()));
        if self.errors.len() > errors {
            return Err(Rejected);
        }
        let message = format!("MCPTelemetryConfig {name} is valid");
        self.report(TelemetryConfigRefValidated::Valid, message);
        let has_effect = enabled.is_some() || telemetry.enable_prometheus_metrics_path;
        Ok(has_effect.then_some(telemetry))
    }

    fn export(&mut self, name: &str, export: &OpenTelemetry) -> Telemetry {
        let OpenTelemetry {
            enabled: _,
            endpoint,
            insecure,
            headers,
            sensitive_headers,
            resource_attributes,
            metrics,
            tracing,
            use_legacy_attributes,
            ca_bundle_ref,
        } = export;
        let at = format!("MCPTelemetryConfig/{name}: spec.openTelemetry");
        let is_tracing = tracing.as_ref().is_some_and(|tracing| tracing.enabled);
        let is_measuring = metrics.as_ref().is_some_and(|MetricsExport { enabled }| *enabled);
        let endpoint = filled(endpoint.as_deref());
        self.check_endpoint(&at, endpoint, *insecure, is_tracing || is_measuring);
        let sampling_rate = match tracing {
            Some(TracingExport { enabled: _, sampling_rate }) => {
                let path = format!("{at}.tracing.samplingRate");
                self.telemetry_value::<Decimal>(&path, from_json(&json!(sampling_rate)))
            }
            None => None,
        };
        let ca_cert_path = self.telemetry_bundle(&at, ca_bundle_ref.as_ref(), *insecure);
        let literal: Option<BTreeMap<String, Secret>> =
            self.telemetry_value(&format!("{at}.headers"), from_json(&json!(headers)));
        let headers_env = self.sensitive_headers(&at, headers, sensitive_headers);
        Telemetry {
            endpoint: endpoint.map(str::to_owned),
            insecure: *insecure,
            ca_cert_path,
            headers: literal.unwrap_or_default(),
            headers_env,
            tracing_enabled: is_tracing,
            sampling_rate: sampling_rate.unwrap_or(Telemetry::default().sampling_rate),
            metrics_enabled: is_measuring,
            enable_prometheus_metrics_path: false,
            service_name: None,
            service_version: None,
            custom_attributes: resource_attributes.clone(),
            environment_variables: Vec::new(),
            use_legacy_attributes: *use_legacy_attributes,
        }
    }

    fn check_endpoint(&mut self, at: &str, endpoint: Option<&str>, insecure: bool, is_used: bool) {
        let Some(endpoint) = endpoint else {
            if is_used {
                let message = "found no value; allowed: an OTLP endpoint with tracing.enabled or metrics.enabled";
                self.reject_telemetry(at, "endpoint", message);
            }
            return;
        };
        if !is_used {
            let message = "found endpoint without tracing.enabled and metrics.enabled; allowed: endpoint only with one of them";
            self.reject_telemetry(at, "endpoint", message);
        }
        let mismatch = match endpoint.split_once("://") {
            Some(("http", _)) if !insecure => {
                Some("an http:// URL; allowed: http only with insecure: true")
            }
            Some(("https", _)) if insecure => {
                Some("an https:// URL with insecure: true; allowed: https only without insecure")
            }
            Some(("http" | "https", _)) | None => None,
            Some(_) => Some("another scheme; allowed: http or https"),
        };
        if let Some(mismatch) = mismatch {
            self.reject_telemetry(at, "endpoint", &format!("found {mismatch}"));
        }
    }

    fn telemetry_bundle(
        &mut self,
        at: &str,
        reference: Option<&CaBundleRef>,
        insecure: bool,
    ) -> Option<FilePath> {
        let Some(CaBundleRef { config_map_ref: Some(reference) }) = reference else { return None };
        if insecure {
            let message =
                "found caBundleRef with insecure: true; allowed: caBundleRef only without insecure";
            self.reject_telemetry(at, "caBundleRef", message);
            return None;
        }
        let mut reference = ConfigMapKeyRef::clone(reference);
        if reference.key.is_empty() {
            CA_KEY.clone_into(&mut reference.key);
        }
        self.required_bundle(&reference, &format!("{at}.caBundleRef.configMapRef"))
    }

    fn sensitive_headers(
        &mut self,
        at: &str,
        literal: &BTreeMap<String, String>,
        headers: &[SensitiveHeader],
    ) -> BTreeMap<String, EnvName> {
        let mut variables = BTreeMap::new();
        for (index, header) in headers.iter().enumerate() {
            let SensitiveHeader { name, secret_key_ref } = header;
            let path = format!("{at}.sensitiveHeaders[{index}]");
            if HeaderName::new(name).is_none() {
                let message = format!("found \"{name}\"; allowed: the name of an HTTP header");
                self.reject_telemetry(&path, "name", &message);
            }
            let is_equal = |other: &String| other.eq_ignore_ascii_case(name);
            if literal.keys().any(is_equal) || variables.keys().any(is_equal) {
                let message =
                    format!("found the duplicate header \"{name}\"; allowed: each header once");
                self.reject_telemetry(&path, "name", &message);
            }
            let file = self.required(secret(secret_key_ref), &format!("{path}.secretKeyRef"));
            if let Some(file) = file {
                variables.insert(name.clone(), env_name(&file));
            }
        }
        variables
    }

    fn telemetry_value<T>(&mut self, path: &str, value: Result<T, ConfigErrors>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(errors) => {
                self.reject_part(path, TelemetryConfigRefValidated::Invalid, &errors);
                None
            }
        }
    }

    fn reject_telemetry(&mut self, at: &str, key: &str, message: &str) {
        self.reject(join(at, key), TelemetryConfigRefValidated::Invalid, message);
    }
}

/// Encodes a value of an attribute: percent-encoding of all that is not unreserved (RFC 3986).
fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
    }
    encoded
}

fn hex(digit: u8) -> char {
    char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase()
}
