//! Reports about the backends in the status of the VirtualMCPServer.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use vmcp_aggregate::settings::Sharing;
use vmcp_aggregate::status::{BackendReport as ServedBackend, CheckError};
use vmcp_api::conversion::AUTH_CONFIG_METADATA;
use vmcp_breaker::health::Health;
use vmcp_breaker::{CircuitHandle, CircuitState, CircuitStatus};
use vmcp_status_reporter::{
    BackendReport, BackendStatus, Cause, Circuit, CircuitBreakerState, Report, ReportSource,
};

use super::ReportedServer;
use crate::parts::{BackendInfo, LeftOutBackend, ServerInfo};

/// State of a server for its reporter.
pub(super) struct Source<S>(Weak<S>);

impl<S> Source<S> {
    pub(super) fn new(server: &Arc<S>) -> Self {
        Self(Arc::downgrade(server))
    }
}

impl<S: ReportedServer> ReportSource for Source<S> {
    fn interval(&self) -> Duration {
        self.0.upgrade().map_or(Duration::MAX, |server| server.info().report_interval)
    }

    fn report(&mut self) -> Option<Report> {
        let server = self.0.upgrade()?;
        if !server.knows_backends() {
            return None;
        }
        report(&server.backends(), &server.info())
    }
}

/// Returns the report. A reload replaces the backends before their descriptions; in between, there is none.
fn report(served: &[ServedBackend], info: &ServerInfo) -> Option<Report> {
    let served_names: BTreeSet<&str> = served.iter().map(|backend| &*backend.name).collect();
    let left_out = info.left_out.iter().map(|backend| &*backend.backend);
    let known: BTreeSet<&str> = served_names.iter().copied().chain(left_out).collect();
    let is_described = served_names.iter().all(|name| info.backends.contains_key(*name));
    if !is_described || !info.backends.keys().all(|name| known.contains(&**name)) {
        return None;
    }
    // Of equal names, the last one counts: the backend that is served.
    let left_out = info.left_out.iter().map(|backend| left_out_backend(backend, info));
    let served = served.iter().map(|backend| served_backend(backend, info));
    Some(Report { backends: left_out.chain(served).collect() })
}

fn served_backend(backend: &ServedBackend, info: &ServerInfo) -> BackendReport {
    let status = status(backend.health());
    let checked = backend.checked.as_ref();
    let report = BackendReport {
        status,
        cause: cause(backend, status),
        last_check: checked.and_then(|checked| checked.last_check),
        consecutive_failures: checked.map_or(0, |checked| checked.consecutive_failures),
        circuit: backend.breaker.as_ref().map(circuit),
        ..unknown_backend(&backend.name)
    };
    described(report, info.backends.get(&backend.name))
}

fn left_out_backend(backend: &LeftOutBackend, info: &ServerInfo) -> BackendReport {
    let LeftOutBackend { backend: name, reason, message } = backend;
    let cause = Cause::LeftOut { reason: reason.name().to_owned(), message: message.clone() };
    let report = BackendReport {
        status: BackendStatus::Unavailable,
        cause: Some(cause),
        ..unknown_backend(name)
    };
    described(report, info.backends.get(name))
}

fn unknown_backend(name: &str) -> BackendReport {
    BackendReport {
        name: name.to_owned(),
        url: String::new(),
        status: BackendStatus::Unknown,
        cause: None,
        auth_type: String::new(),
        auth_config: String::new(),
        last_check: None,
        consecutive_failures: 0,
        circuit: None,
    }
}

/// Adds the description of a backend, if its configuration is known.
fn described(report: BackendReport, info: Option<&BackendInfo>) -> BackendReport {
    let Some(BackendInfo { url, entry: _, auth, metadata }) = info else { return report };
    // The name in resources.
    let auth_type = if *auth == "none" { "unauthenticated" } else { auth };
    let auth_config = metadata.get(AUTH_CONFIG_METADATA).cloned().unwrap_or_default();
    BackendReport { url: url.clone(), auth_type: auth_type.to_owned(), auth_config, ..report }
}

fn status(health: Health) -> BackendStatus {
    match health {
        Health::Ready => BackendStatus::Ready,
        Health::Degraded => BackendStatus::Degraded,
        Health::Unavailable => BackendStatus::Unavailable,
        Health::Unauthenticated => BackendStatus::Unauthenticated,
        Health::Unknown => BackendStatus::Unknown,
    }
}

/// Returns the reason of a health other than `ready`. Texts of errors stay in the log and in `/status`.
fn cause(backend: &ServedBackend, status: BackendStatus) -> Option<Cause> {
    match status {
        BackendStatus::Ready | BackendStatus::Unknown => return None,
        BackendStatus::Unauthenticated if backend.catalog == Sharing::PerCaller => {
            return Some(Cause::UserCredentials);
        }
        BackendStatus::Unauthenticated => return Some(Cause::Authentication),
        BackendStatus::Degraded | BackendStatus::Unavailable => {}
    }
    let checked = backend.checked.as_ref();
    let failed = checked.filter(|checked| {
        checked.consecutive_failures > 0
            || matches!(checked.health, Health::Degraded | Health::Unavailable)
    });
    match failed.and_then(|checked| checked.last_error.as_ref()) {
        Some(CheckError { kind, message: _, at: _ }) => Some(match *kind {
            "timeout" => Cause::Timeout,
            "unreachable" => Cause::Connection,
            "unauthorized" => Cause::Authentication,
            "rate_limited" => Cause::RateLimit,
            "slow" => Cause::Slow,
            // `http_error` and `protocol`.
            _ => Cause::Check,
        }),
        None => backend.failure.as_ref().map(|_| Cause::Lists),
    }
}

fn circuit(breaker: &CircuitHandle) -> Circuit {
    let CircuitStatus { state, failures: _, last_changed } = breaker.status();
    let state = match state {
        CircuitState::Closed => CircuitBreakerState::Closed,
        CircuitState::Open => CircuitBreakerState::Open,
        CircuitState::HalfOpen => CircuitBreakerState::HalfOpen,
    };
    Circuit { state, last_changed }
}

#[cfg(test)]
mod tests;
