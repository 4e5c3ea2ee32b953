//! Warnings for settings without effect.

use crate::{
    Warning,
    aggregation::{Aggregation, WorkloadTools},
    audit::Audit,
    incoming_auth::Oidc,
    operational::{CircuitBreaker, FailureHandling},
    outgoing_auth::{AwsSts, OutgoingAuth, RoleMatch, Strategy},
    reference::Reference,
    telemetry::Telemetry,
};

/// Collector of warnings for settings without effect.
pub(super) struct UnusedSettings<'a>(pub(super) &'a mut Vec<Warning>);

impl UnusedSettings<'_> {
    fn warn(&mut self, path: impl Into<String>, message: &str) {
        let (path, message) = (path.into(), message.to_owned());
        self.0.push(Warning { path, message, suggestion: None });
    }

    pub(super) fn audit(&mut self, audit: &Audit) {
        let silent = Audit { enabled: false, ..audit.clone() };
        if !audit.enabled {
            if silent != Audit::default() {
                self.warn("audit", "no effect: audit is disabled; set enabled: true");
            }
            return;
        }
        if audit.records_nothing() {
            let message = "all event types are excluded, so nothing is recorded";
            self.warn("audit.excludeEventTypes", message);
        }
        let has_data = audit.include_request_data || audit.include_response_data;
        if !has_data && audit.max_data_size != Audit::default().max_data_size {
            let message =
                "no effect: records contain no data; set includeRequestData or includeResponseData";
            self.warn("audit.maxDataSize", message);
        }
    }

    pub(super) fn telemetry(&mut self, telemetry: &Telemetry) {
        let default = Telemetry::default();
        let is_sent = telemetry.tracing_enabled || telemetry.metrics_enabled;
        if !is_sent && !telemetry.enable_prometheus_metrics_path {
            if *telemetry != default {
                let message = "no effect: telemetry is disabled; set tracingEnabled, metricsEnabled or \
                               enablePrometheusMetricsPath";
                self.warn("telemetry", message);
            }
            return;
        }
        if !telemetry.tracing_enabled {
            let message = "no effect: tracing is disabled; set tracingEnabled: true";
            if telemetry.sampling_rate != default.sampling_rate {
                self.warn("telemetry.samplingRate", message);
            }
            if !telemetry.environment_variables.is_empty() {
                self.warn("telemetry.environmentVariables", message);
            }
        }
        if !is_sent {
            let message = "no effect: nothing is exported; set tracingEnabled or metricsEnabled";
            for (key, is_given) in [
                ("headers", !telemetry.headers.is_empty()),
                ("headersEnv", !telemetry.headers_env.is_empty()),
                ("caCertPath", telemetry.ca_cert_path.is_some()),
                ("insecure", telemetry.insecure),
            ] {
                if is_given {
                    self.warn(format!("telemetry.{key}"), message);
                }
            }
        }
    }

    pub(super) fn oidc(&mut self, oidc: &Oidc, is_issuer: bool) {
        if oidc.client_secret_env.is_some() && oidc.introspection_url.is_none() {
            let message = "no effect: only introspection uses the secret; set introspectionUrl";
            self.warn("incomingAuth.oidc.clientSecretEnv", message);
        }
        let message = "no effect: authServer verifies its own tokens without requests";
        for (key, is_given) in [
            ("caBundlePath", oidc.ca_bundle_path.is_some()),
            ("jwksAuthTokenPath", oidc.jwks_auth_token_path.is_some()),
        ] {
            if is_given && is_issuer {
                self.warn(format!("incomingAuth.oidc.{key}"), message);
            }
        }
    }

    pub(super) fn circuit_breaker(&mut self, failures: &FailureHandling) {
        const AT: &str = "operational.failureHandling.circuitBreaker";
        let CircuitBreaker { enabled, failure_threshold, timeout } = failures.circuit_breaker;
        if enabled {
            return;
        }
        let default = CircuitBreaker::default();
        let message = "no effect: the circuit breaker is disabled; set enabled: true";
        if failure_threshold != default.failure_threshold {
            self.warn(format!("{AT}.failureThreshold"), message);
        }
        if timeout != default.timeout {
            self.warn(format!("{AT}.timeout"), message);
        }
    }

    pub(super) fn aggregation<R: Reference>(&mut self, aggregation: &Aggregation<R>) {
        let Aggregation { conflict_resolution: _, exclude_all_tools, tools } = aggregation;
        for (index, WorkloadTools { exclude_all, filter, .. }) in tools.iter().enumerate() {
            let at = format!("aggregation.tools[{index}]");
            if *exclude_all_tools && *exclude_all {
                self.warn(
                    format!("{at}.excludeAll"),
                    "no effect: excludeAllTools hides these tools",
                );
            }
            if !filter.is_empty() && (*exclude_all_tools || *exclude_all) {
                let by = if *exclude_all { "excludeAll" } else { "excludeAllTools" };
                let message = format!("no effect: {by} hides these tools");
                self.warn(format!("{at}.filter"), &message);
            }
        }
    }

    pub(super) fn outgoing_auth(&mut self, outgoing: &OutgoingAuth, backends: &[&str]) {
        let OutgoingAuth { source: _, default, backends: own } = outgoing;
        let all_have_own = backends.iter().all(|name| own.contains_key(*name));
        if default.is_some() && !backends.is_empty() && all_have_own {
            self.warn("outgoingAuth.default", "no effect: each backend has its own entry");
        }
        for (path, strategy) in outgoing.strategies() {
            let Strategy::AwsSts(AwsSts { role_claim, role_mappings, .. }) = strategy else {
                continue;
            };
            let mut mappings = role_mappings.iter();
            let reads = mappings.any(|mapping| matches!(mapping.matches, RoleMatch::Claim(_)));
            if role_claim != "groups" && !reads {
                self.warn(
                    format!("{path}.awsSts.roleClaim"),
                    "no effect: no role mapping has a claim",
                );
            }
        }
    }
}
