//! Traces and metrics (`telemetry`).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    config_value::{Constraint, Rule, section_with_default},
    context::Context,
    decimal::Decimal,
    string_types::{EnvName, FilePath, HeaderName, Secret},
    tree::Node,
};

section_with_default! {
    /// Traces and metrics.
    pub struct Telemetry {
        /// OTLP endpoint.
        pub endpoint: Option<String>;
        /// Use http instead of https for the endpoint.
        pub insecure: bool = false;
        /// PEM bundle of certificates to trust for the endpoint.
        pub ca_cert_path: Option<FilePath>;
        /// Headers of requests to the endpoint, for authentication.
        pub headers: BTreeMap<String, Secret> = BTreeMap::new();
        /// Headers of requests to the endpoint whose values are in environment variables.
        pub headers_env: BTreeMap<String, EnvName> = BTreeMap::new();
        /// Traces requests. Requires an endpoint.
        pub tracing_enabled: bool = false;
        /// Share of sampled traces, "0.0" to "1.0".
        pub sampling_rate: Decimal = Decimal::hundredths(0, 5), [Constraint::AtMost(1.0)];
        /// Send metrics over OTLP. Independent of `enablePrometheusMetricsPath`.
        pub metrics_enabled: bool = false;
        /// Serve `/metrics` for Prometheus on the main port.
        pub enable_prometheus_metrics_path: bool = false;
        /// Name of the service in all signals. Absent means the name of the server.
        pub service_name: Option<String>;
        /// Version of the service in all signals. Absent means the version of the server.
        pub service_version: Option<String>;
        /// Resource attributes of all signals.
        pub custom_attributes: BTreeMap<String, String> = BTreeMap::new();
        /// Environment variables to copy into spans. No others are read.
        pub environment_variables: Vec<EnvName> = Vec::new();
        /// Also writes the older attribute names. A later release will change the default to false.
        pub use_legacy_attributes: bool = true;
    }
    rules [
        Rule::Cel(
            "!has(self.endpoint) || self.endpoint == '' || (has(self.tracingEnabled) && self.tracingEnabled) || \
             (has(self.metricsEnabled) && self.metricsEnabled)",
            "endpoint only with tracingEnabled or metricsEnabled",
        ),
        Rule::Cel(
            "!has(self.caCertPath) || !has(self.insecure) || !self.insecure",
            "caCertPath only without insecure",
        ),
    ]
    check Telemetry::check
}

impl Telemetry {
    fn check(&self, node: &Node, cx: &mut Context) {
        let sends = self.tracing_enabled || self.metrics_enabled;
        if self.endpoint.is_some() && !sends {
            let allowed = "endpoint only with tracingEnabled or metricsEnabled";
            cx.reject_key(
                node,
                "endpoint",
                "endpoint without tracingEnabled and metricsEnabled",
                allowed,
            );
        }
        if self.insecure && self.ca_cert_path.is_some() {
            cx.reject_key(
                node,
                "caCertPath",
                "caCertPath with insecure: true",
                "caCertPath only without insecure",
            );
        }
        self.check_header_names(node, cx);
    }

    /// Reports invalid names of headers, and names that occur twice, regardless of case.
    fn check_header_names(&self, node: &Node, cx: &mut Context) {
        let literal = self.headers.keys().map(|name| ("headers", name));
        let named = self.headers_env.keys().map(|name| ("headersEnv", name));
        let mut known = BTreeSet::new();
        for (key, name) in literal.chain(named) {
            let problem = if HeaderName::new(name).is_none() {
                Some(("a key that is not a header name", crate::patterns::HEADER_NAME.meaning))
            } else if known.insert(name.to_ascii_lowercase()) {
                None
            } else {
                Some(("a duplicate header (names ignore case)", "each header once"))
            };
            let Some((found, allowed)) = problem else { continue };
            let at = node.get(key).unwrap_or(node);
            cx.at_key(key, |cx| cx.reject_key(at, name, found, allowed));
        }
    }
}
