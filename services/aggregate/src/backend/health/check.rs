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

use super::reachability::knock;
use super::state::CheckResult;
use crate::backend::error::{BackendError, problem};
use crate::backend::handshake::{self, BackendSession};
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::ask;
use crate::backend::{BackendHandle, SupportedModes};
use crate::gateway_state::GatewayState;
use crate::settings::{Checks, Transport};

/// Time for which the last offer of an unavailable backend stays in the catalog.
const LAST_GOOD_LIFETIME: Duration = Duration::from_secs(600);

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

/// Checks `link` until the task is aborted.
pub(crate) async fn check(hub: Arc<GatewayState>, link: Arc<BackendHandle>, checks: Checks) {
    let mut next = Instant::now() + checks.first(&link.backend);
    loop {
        link.vitals.expect(next);
        sleep_until(next).await;
        next += checks.interval();
        match once(&hub, &link, &checks).await {
            CheckOutcome::Recorded(sight) => link.see(sight),
            // Prefer a check over a client's call as the trial request of the circuit.
            CheckOutcome::CircuitOpen(wait) => {
                next = next.min(Instant::now() + wait.max(MIN_RECHECK_DELAY));
            }
            CheckOutcome::Inconclusive => {}
        }
        if link.vitals.down_for(LAST_GOOD_LIFETIME) && link.forget() {
            tracing::warn!(backend = link.name(), "what the backend has offered is out of date");
            hub.rebuild().await;
        }
        // After a suspend of the machine, one check is enough.
        next = next.max(Instant::now());
    }
}

async fn once(hub: &Arc<GatewayState>, link: &Arc<BackendHandle>, checks: &Checks) -> CheckOutcome {
    let begun = Instant::now();
    match timeout(checks.timeout(), look(hub, link)).await {
        Ok(Ok(())) if begun.elapsed() > checks.slow() => {
            let wrong = format!("took more than {:?} to answer a check", checks.slow());
            CheckOutcome::Recorded(CheckResult {
                probe: ProbeResult::Slow,
                wrong: Some(("slow", wrong)),
            })
        }
        Ok(Ok(())) => CheckOutcome::Recorded(CheckResult::good()),
        Ok(Err(error)) => judge(link, &error),
        Err(_) => {
            // The breaker does not count aborted requests, so the timeout is recorded explicitly.
            if let Some(breaker) = link.breaker() {
                breaker.record_probe(vmcp_breaker::Outcome::Failure);
            }
            let wrong = ("timeout", "did not answer a check in time".to_owned());
            CheckOutcome::Recorded(CheckResult { probe: ProbeResult::Failed, wrong: Some(wrong) })
        }
    }
}

/// Sends one health check. Closes any session that it opens.
async fn look(hub: &Arc<GatewayState>, link: &Arc<BackendHandle>) -> Result<(), BoxError> {
    if let Some(live) = link.standing.load_full() {
        return ping(link, &live).await;
    }
    if !link.shared() {
        return knock(hub, link).await;
    }
    let who = hub.introduction();
    let speaks = match link.transport {
        Transport::Sse => SupportedModes::Stateful,
        Transport::StreamableHttp => handshake::probe(link, who.get()).await?.0,
    };
    if speaks == SupportedModes::Stateful {
        // Without an existing session, the check has to open one.
        drop(handshake::open(link, who.get()).await?);
    }
    Ok(())
}

/// Sends a ping in an existing session (MCP 2025-11-25, Ping).
async fn ping(link: &Arc<BackendHandle>, live: &BackendSession) -> Result<(), BoxError> {
    let Err(error) = send_ping(link, live).await else { return Ok(()) };
    match cause_ref::<BackendError>(error.as_ref()) {
        // The backend responds but does not know the session.
        Some(BackendError::SessionGone) => {
            link.renew.notify_waiters();
            Ok(())
        }
        // A "method not found" error also proves that the backend responds.
        Some(BackendError::Rpc { .. }) => Ok(()),
        Some(BackendError::Status(status)) if complains(*status) => Ok(()),
        _ => Err(error),
    }
}

/// Returns `true` if the backend has forgotten a session, determined by a ping: other responses mean that it knows the session.
/// Fails if the backend cannot be reached.
pub(crate) async fn has_forgotten(
    link: &Arc<BackendHandle>,
    live: &BackendSession,
) -> Result<bool, BoxError> {
    let Err(error) = send_ping(link, live).await else { return Ok(false) };
    match cause_ref::<BackendError>(error.as_ref()) {
        Some(BackendError::SessionGone) => Ok(true),
        Some(BackendError::Rpc { code, .. }) => Ok(*code != -32601),
        Some(BackendError::Status(status)) if complains(*status) => Ok(true),
        _ => Err(error),
    }
}

async fn send_ping(link: &Arc<BackendHandle>, live: &BackendSession) -> Result<(), BoxError> {
    let id = format!("\"vmcp:{}\"", link.serial());
    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let request = live.sign(post(link, &live.caller(), Bytes::from(message)));
    ask(link, with_operation(request, "ping", None), &id).await.map(drop)
}

/// Returns `true` if the status blames the request itself, not its credentials, its rate or the server.
fn complains(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 407 | 408 | 429)
}

/// Classifies a failure for the health of the backend.
fn judge(link: &BackendHandle, error: &BoxError) -> CheckOutcome {
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
            401 | 403 | 407 if link.shared() => (ProbeResult::Unauthorized, "unauthorized"),
            401 | 403 | 407 => return asks_for_caller(),
            429 => (ProbeResult::Slow, "rate_limited"),
            _ => (ProbeResult::Failed, "http_error"),
        },
        Some(BackendError::Handshake { .. }) if !link.shared() => return asks_for_caller(),
        Some(_) => (ProbeResult::Failed, "protocol"),
    };
    CheckOutcome::Recorded(CheckResult { probe, wrong: Some((kind, problem(error))) })
}

/// Returns the outcome for a backend that responds but requires a caller's credentials.
fn asks_for_caller() -> CheckOutcome {
    CheckOutcome::Recorded(CheckResult { probe: ProbeResult::RequiresUserCredentials, wrong: None })
}

/// Returns the health check result of a failed first contact.
pub(crate) fn first_sight(link: &BackendHandle, error: &BoxError) -> Option<CheckResult> {
    match judge(link, error) {
        CheckOutcome::Recorded(sight) => Some(sight),
        CheckOutcome::CircuitOpen(_) | CheckOutcome::Inconclusive => None,
    }
}
