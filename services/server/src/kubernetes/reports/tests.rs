use std::time::{Duration, SystemTime};

use vmcp_aggregate::settings::Transport;
use vmcp_aggregate::status::HealthReport;
use vmcp_breaker::{CircuitSettings, Outcome};

use super::*;
use crate::parts::LeftOutReason;

/// Returns a backend that serves, and whose checks succeed.
fn ready(name: &str) -> ServedBackend {
    ServedBackend {
        name: name.to_owned(),
        transport: Transport::StreamableHttp,
        revision: None,
        revisions: Vec::new(),
        offered: true,
        catalog: Sharing::Shared,
        unauthenticated: false,
        failure: None,
        detail: None,
        pending: false,
        breaker: None,
        checked: Some(checked(Health::Ready, 0, None)),
    }
}

fn checked(health: Health, failures: u32, kind: Option<&'static str>) -> HealthReport {
    let at = SystemTime::UNIX_EPOCH;
    HealthReport {
        health,
        consecutive_failures: failures,
        since: at,
        last_check: Some(at),
        next_check: None,
        last_error: kind.map(|kind| CheckError { kind, message: "canary".to_owned(), at }),
        changes: 1,
    }
}

fn failing(health: Health, kind: &'static str) -> ServedBackend {
    let checked = checked(health, 3, Some(kind));
    ServedBackend { checked: Some(checked), ..ready("a") }
}

/// Returns the description of some backends.
fn info(names: &[&str]) -> ServerInfo {
    let describe = |name: &&str| {
        let backend = BackendInfo {
            url: format!("https://{name}.example/mcp"),
            auth: "none",
            ..BackendInfo::default()
        };
        ((*name).to_owned(), backend)
    };
    ServerInfo { backends: names.iter().map(describe).collect(), ..ServerInfo::default() }
}

fn only(backend: ServedBackend) -> BackendReport {
    let mut report = report(&[backend], &info(&["a"])).unwrap();
    assert_eq!(report.backends.len(), 1);
    report.backends.remove(0)
}

#[test]
fn each_health_has_status_and_cause() {
    use BackendStatus::{Degraded, Ready, Unauthenticated, Unavailable, Unknown};
    let fails = |failure: &str| Some(failure.to_owned());
    let cases = [
        (ready("a"), Ready, None),
        (failing(Health::Unavailable, "timeout"), Unavailable, Some(Cause::Timeout)),
        (failing(Health::Unavailable, "unreachable"), Unavailable, Some(Cause::Connection)),
        (failing(Health::Unavailable, "http_error"), Unavailable, Some(Cause::Check)),
        (failing(Health::Unavailable, "protocol"), Unavailable, Some(Cause::Check)),
        (failing(Health::Degraded, "rate_limited"), Degraded, Some(Cause::RateLimit)),
        (failing(Health::Degraded, "slow"), Degraded, Some(Cause::Slow)),
        (
            failing(Health::Unauthenticated, "unauthorized"),
            Unauthenticated,
            Some(Cause::Authentication),
        ),
        (
            ServedBackend { catalog: Sharing::PerCaller, unauthenticated: true, ..ready("a") },
            Unauthenticated,
            Some(Cause::UserCredentials),
        ),
        (ServedBackend { failure: fails("canary"), ..ready("a") }, Degraded, Some(Cause::Lists)),
        (ServedBackend { pending: true, ..ready("a") }, Unknown, None),
    ];
    for (backend, status, cause) in cases {
        let shown = format!("{backend:?}");
        let report = only(backend);
        assert_eq!((report.status, report.cause), (status, cause), "{shown}");
    }
}

#[test]
fn error_before_recovery_is_no_cause() {
    let recovered = checked(Health::Ready, 0, Some("timeout"));
    let report = only(ServedBackend { checked: Some(recovered), ..ready("a") });
    assert_eq!((report.status, report.cause), (BackendStatus::Ready, None));
    assert_eq!(report.last_check, Some(SystemTime::UNIX_EPOCH));
}

#[test]
fn credentials_are_named() {
    let mut info = info(&["a", "b"]);
    let named = info.backends.get_mut("b").unwrap();
    named.auth = "token_exchange";
    named.metadata.insert(AUTH_CONFIG_METADATA.to_owned(), "github".to_owned());
    let report = report(&[ready("a"), ready("b")], &info).unwrap();
    let auth = |one: &BackendReport| (one.auth_type.clone(), one.auth_config.clone());
    assert_eq!(auth(&report.backends[0]), ("unauthenticated".to_owned(), String::new()));
    assert_eq!(auth(&report.backends[1]), ("token_exchange".to_owned(), "github".to_owned()));
    assert_eq!(report.backends[1].url, "https://b.example/mcp");
}

#[test]
fn circuit_is_reported_with_its_change() {
    let settings = CircuitSettings::new(1, Duration::from_mins(1)).unwrap();
    let breaker = CircuitHandle::new(vmcp_core::Backend::new("a"), settings);
    let closed = only(ServedBackend { breaker: Some(breaker.clone()), ..ready("a") });
    let expected = Circuit { state: CircuitBreakerState::Closed, last_changed: None };
    assert_eq!(closed.circuit, Some(expected));
    breaker.record_probe(Outcome::Failure);
    let open = only(ServedBackend { breaker: Some(breaker), ..ready("a") }).circuit.unwrap();
    assert_eq!(open.state, CircuitBreakerState::Open);
    assert!(open.last_changed.is_some());
}

#[test]
fn left_out_backend_is_unavailable_with_reason() {
    let mut info = info(&["a", "b"]);
    let left_out = |backend: &str, reason| LeftOutBackend {
        backend: backend.to_owned(),
        reason,
        message: "secret KEY is not there yet".to_owned(),
    };
    info.left_out.push(left_out("b", LeftOutReason::SecretPending));
    // A member of another kind, which the served one precedes.
    info.left_out.push(left_out("a", LeftOutReason::DuplicateName));
    let report = report(&[ready("a")], &info).unwrap();
    let last = |name: &str| report.backends.iter().rfind(|one| one.name == name).unwrap();
    assert_eq!(last("a").status, BackendStatus::Ready);
    let Some(Cause::LeftOut { reason, message }) = &last("b").cause else {
        panic!("{:?}", last("b"))
    };
    assert_eq!((&**reason, &**message), ("SecretPending", "secret KEY is not there yet"));
    assert_eq!(last("b").status, BackendStatus::Unavailable);
    assert_eq!(last("b").url, "https://b.example/mcp");
}

#[test]
fn half_applied_reload_is_not_reported() {
    // Added and removed, before the descriptions follow.
    assert_eq!(report(&[ready("a"), ready("b")], &info(&["a"])), None);
    assert_eq!(report(&[ready("a")], &info(&["a", "b"])), None);
    assert!(report(&[ready("a")], &info(&["a"])).is_some());
}
