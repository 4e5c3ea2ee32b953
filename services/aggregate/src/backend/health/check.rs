//! Periodic health checks of a backend.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::time::{Instant, sleep_until, timeout};
use vmcp_breaker::CircuitOpen;
use vmcp_breaker::health::ProbeResult;
use vmcp_core::{BoxError, CredentialError, cause_ref};
use vmcp_timeout::Elapsed;

use super::state::CheckResult;
use crate::backend::context::BackendContext;
use crate::backend::error::{BackendError, problem};
use crate::backend::handshake::{self, BackendSession};
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::send_request;
use crate::backend::{BackendHandle, SupportedModes};
use crate::settings::{Checks, Transport};

/// Time for which the last offer of an unavailable backend stays in the catalog.
const LAST_GOOD_LIFETIME: Duration = Duration::from_mins(10);

/// Minimum time until the next check when the circuit is open.
const MIN_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// Outcome of one check.
enum CheckOutcome {
    Recorded(CheckResult),
    /// The circuit stays open for this duration; no request was sent.
    CircuitOpen(Duration),
    /// The failure is not the backend's fault.
    Inconclusive,
}

/// Checks `backend` until the task is aborted.
pub(crate) async fn check(context: BackendContext, backend: Arc<BackendHandle>, checks: Checks) {
    let mut next = Instant::now() + checks.first(&backend.tag);
    loop {
        backend.health.expect(next);
        sleep_until(next).await;
        next += checks.interval();
        match check_once(&context, &backend, &checks).await {
            CheckOutcome::Recorded(result) => backend.record_check(result),
            // Prefer a check over a client's call as the trial request of the circuit.
            CheckOutcome::CircuitOpen(wait) => {
                next = next.min(Instant::now() + wait.max(MIN_RECHECK_DELAY));
            }
            CheckOutcome::Inconclusive => {}
        }
        if backend.health.is_unavailable_for(LAST_GOOD_LIFETIME) && backend.clear_offers() {
            tracing::warn!(
                backend = backend.name(),
                "removed the last lists of an unavailable backend"
            );
            context.catalog_changed().await;
        }
        // After a suspend of the machine, one check is enough.
        next = next.max(Instant::now());
    }
}

async fn check_once(
    context: &BackendContext,
    backend: &Arc<BackendHandle>,
    checks: &Checks,
) -> CheckOutcome {
    let begun = Instant::now();
    match timeout(checks.timeout(), run_check(context, backend)).await {
        Ok(Ok(())) if begun.elapsed() > checks.slow() => {
            let wrong = format!("took more than {:?} to respond to a health check", checks.slow());
            CheckOutcome::Recorded(CheckResult {
                probe: ProbeResult::Slow,
                wrong: Some(("slow", wrong)),
            })
        }
        Ok(Ok(())) => CheckOutcome::Recorded(CheckResult::good()),
        Ok(Err(error)) => classify(backend, &error),
        Err(_) => {
            // The breaker does not count aborted requests, so the timeout is recorded explicitly.
            if let Some(breaker) = backend.breaker() {
                breaker.record_probe(vmcp_breaker::Outcome::Failure);
            }
            let wrong = ("timeout", "did not respond to a health check in time".to_owned());
            CheckOutcome::Recorded(CheckResult { probe: ProbeResult::Failed, wrong: Some(wrong) })
        }
    }
}

/// Sends one health check. Closes any session that it opens.
async fn run_check(context: &BackendContext, backend: &Arc<BackendHandle>) -> Result<(), BoxError> {
    if let Some(backend_session) = backend.standing.load_full() {
        return ping(backend, &backend_session).await;
    }
    if !backend.shared() {
        return probe_modes(context, backend).await;
    }
    let client_info = context.client_info();
    let modes = match backend.transport {
        Transport::Sse => SupportedModes::Stateful,
        Transport::StreamableHttp => handshake::probe(backend, client_info.get()).await?.0,
    };
    if modes == SupportedModes::Stateful {
        // Without an existing session, the check has to open one.
        drop(handshake::open(backend, client_info.get()).await?);
    }
    Ok(())
}

/// Probes the backend for the supported generations, which do not depend on the caller.
pub(crate) async fn probe_modes(
    context: &BackendContext,
    backend: &Arc<BackendHandle>,
) -> Result<(), BoxError> {
    let client_info = context.client_info();
    match backend.transport {
        Transport::Sse => {
            drop(handshake::open(backend, client_info.get()).await?);
        }
        Transport::StreamableHttp => {
            backend.set_modes(handshake::probe(backend, client_info.get()).await?.0);
        }
    }
    Ok(())
}

/// Sends a ping in an existing session (MCP 2025-11-25, Ping).
async fn ping(
    backend: &Arc<BackendHandle>,
    backend_session: &BackendSession,
) -> Result<(), BoxError> {
    let Err(error) = send_ping(backend, backend_session).await else { return Ok(()) };
    match cause_ref::<BackendError>(error.as_ref()) {
        // The backend responds but does not know the session.
        Some(BackendError::SessionGone) => {
            backend.reconnect.notify_waiters();
            Ok(())
        }
        // A "method not found" error also proves that the backend responds.
        Some(BackendError::Rpc { .. }) => Ok(()),
        Some(BackendError::Status(status)) if is_request_rejected(*status) => Ok(()),
        _ => Err(error),
    }
}

/// Returns `true` if the backend has forgotten a session, determined by a ping: other responses mean that it knows the session.
/// Fails if the backend cannot be reached.
pub(crate) async fn is_session_unknown(
    backend: &Arc<BackendHandle>,
    backend_session: &BackendSession,
) -> Result<bool, BoxError> {
    let Err(error) = send_ping(backend, backend_session).await else { return Ok(false) };
    match cause_ref::<BackendError>(error.as_ref()) {
        Some(BackendError::SessionGone) => Ok(true),
        Some(BackendError::Rpc { code, .. }) => Ok(*code != -32601),
        Some(BackendError::Status(status)) if is_request_rejected(*status) => Ok(true),
        _ => Err(error),
    }
}

async fn send_ping(
    backend: &Arc<BackendHandle>,
    backend_session: &BackendSession,
) -> Result<(), BoxError> {
    let id = backend.request_id();
    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let request =
        backend_session.sign(post(backend, &backend_session.caller(), Bytes::from(message)));
    send_request(backend, with_operation(request, "ping", None), &id).await.map(drop)
}

/// Returns `true` if the status blames the request itself, not its credentials, its rate or the server.
fn is_request_rejected(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 407 | 408 | 429)
}

/// Classifies a failure for the health of the backend.
fn classify(backend: &BackendHandle, error: &BoxError) -> CheckOutcome {
    if let Some(open) = cause_ref::<CircuitOpen>(error.as_ref()) {
        return CheckOutcome::CircuitOpen(open.retry_in);
    }
    if cause_ref::<CredentialError>(error.as_ref()).is_some() {
        return CheckOutcome::Inconclusive;
    }
    let (probe, kind) = match cause_ref::<BackendError>(error.as_ref()) {
        None if cause_ref::<Elapsed>(error.as_ref()).is_some() => (ProbeResult::Failed, "timeout"),
        None => (ProbeResult::Failed, "unreachable"),
        Some(BackendError::Busy) => return CheckOutcome::Inconclusive,
        Some(BackendError::Status(status)) => match status.as_u16() {
            401 | 403 | 407 if backend.shared() => (ProbeResult::Unauthorized, "unauthorized"),
            401 | 403 | 407 => return requires_caller(),
            429 => (ProbeResult::Slow, "rate_limited"),
            _ => (ProbeResult::Failed, "http_error"),
        },
        Some(BackendError::Handshake { .. }) if !backend.shared() => return requires_caller(),
        Some(_) => (ProbeResult::Failed, "protocol"),
    };
    CheckOutcome::Recorded(CheckResult { probe, wrong: Some((kind, problem(error))) })
}

/// Returns the outcome for a backend that responds but requires a caller's credentials.
fn requires_caller() -> CheckOutcome {
    CheckOutcome::Recorded(CheckResult { probe: ProbeResult::RequiresUserCredentials, wrong: None })
}

/// Returns the health check result of a failed first contact.
pub(crate) fn first_contact_result(
    backend: &BackendHandle,
    error: &BoxError,
) -> Option<CheckResult> {
    match classify(backend, error) {
        CheckOutcome::Recorded(result) => Some(result),
        CheckOutcome::CircuitOpen(_) | CheckOutcome::Inconclusive => None,
    }
}
