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

use super::ask::ask;
use super::failure::{Failure, problem};
use super::handshake::{self, Live};
use super::reach::knock;
use super::request::{asking, post};
use super::vitals::Sight;
use super::{Link, Speaks};
use crate::hub::Hub;
use crate::settings::{Checks, Transport};

/// Time for which the last offer of an unavailable backend stays in the catalog.
const LAST_GOOD: Duration = Duration::from_secs(600);

/// Minimum time until the next check when the circuit is open.
const SOONEST: Duration = Duration::from_secs(1);

/// Outcome of one check.
enum Outcome {
    Seen(Sight),
    /// The circuit stays open for this duration; no request was sent.
    LeftAlone(Duration),
    /// The failure is not the backend's fault.
    Unclear,
}

/// Checks `link` until the task is aborted.
pub(crate) async fn check(hub: Arc<Hub>, link: Arc<Link>, checks: Checks) {
    let mut next = Instant::now() + checks.first(&link.backend);
    loop {
        link.vitals.expect(next);
        sleep_until(next).await;
        next += checks.interval();
        match once(&hub, &link, &checks).await {
            Outcome::Seen(sight) => link.see(sight),
            // Prefer a check over a client's call as the trial request of the circuit.
            Outcome::LeftAlone(wait) => next = next.min(Instant::now() + wait.max(SOONEST)),
            Outcome::Unclear => {}
        }
        if link.vitals.down_for(LAST_GOOD) && link.forget() {
            tracing::warn!(backend = link.name(), "what the backend has offered is out of date");
            hub.rebuild().await;
        }
        // After a suspend of the machine, one check is enough.
        next = next.max(Instant::now());
    }
}

async fn once(hub: &Arc<Hub>, link: &Arc<Link>, checks: &Checks) -> Outcome {
    let begun = Instant::now();
    match timeout(checks.timeout(), look(hub, link)).await {
        Ok(Ok(())) if begun.elapsed() > checks.slow() => {
            let wrong = format!("took more than {:?} to answer a check", checks.slow());
            Outcome::Seen(Sight { probe: ProbeResult::Slow, wrong: Some(("slow", wrong)) })
        }
        Ok(Ok(())) => Outcome::Seen(Sight::good()),
        Ok(Err(error)) => judge(link, &error),
        Err(_) => {
            // The breaker does not count aborted requests, so the timeout is recorded explicitly.
            if let Some(breaker) = link.breaker() {
                breaker.record_probe(vmcp_breaker::Outcome::Failure);
            }
            let wrong = ("timeout", "did not answer a check in time".to_owned());
            Outcome::Seen(Sight { probe: ProbeResult::Failed, wrong: Some(wrong) })
        }
    }
}

/// Sends one health check. Closes any session that it opens.
async fn look(hub: &Arc<Hub>, link: &Arc<Link>) -> Result<(), BoxError> {
    if let Some(live) = link.standing.load_full() {
        return ping(link, &live).await;
    }
    if !link.shared() {
        return knock(hub, link).await;
    }
    let who = hub.introduction();
    let speaks = match link.transport {
        Transport::Sse => Speaks::Stateful,
        Transport::StreamableHttp => handshake::probe(link, who.get()).await?.0,
    };
    if speaks == Speaks::Stateful {
        // Without an existing session, the check has to open one.
        drop(handshake::open(link, who.get()).await?);
    }
    Ok(())
}

/// Sends a ping in an existing session (MCP 2025-11-25, Ping).
async fn ping(link: &Arc<Link>, live: &Live) -> Result<(), BoxError> {
    let Err(error) = send_ping(link, live).await else { return Ok(()) };
    match cause_ref::<Failure>(error.as_ref()) {
        // The backend responds but does not know the session.
        Some(Failure::SessionGone) => {
            link.renew.notify_waiters();
            Ok(())
        }
        // A "method not found" error also proves that the backend responds.
        Some(Failure::Rpc { .. }) => Ok(()),
        Some(Failure::Status(status)) if complains(*status) => Ok(()),
        _ => Err(error),
    }
}

/// Returns `true` if the backend has forgotten a session, determined by a ping: other responses mean that it knows the session.
/// Fails if the backend cannot be reached.
pub(crate) async fn has_forgotten(link: &Arc<Link>, live: &Live) -> Result<bool, BoxError> {
    let Err(error) = send_ping(link, live).await else { return Ok(false) };
    match cause_ref::<Failure>(error.as_ref()) {
        Some(Failure::SessionGone) => Ok(true),
        Some(Failure::Rpc { code, .. }) => Ok(*code != -32601),
        Some(Failure::Status(status)) if complains(*status) => Ok(true),
        _ => Err(error),
    }
}

async fn send_ping(link: &Arc<Link>, live: &Live) -> Result<(), BoxError> {
    let id = format!("\"vmcp:{}\"", link.serial());
    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let request = live.sign(post(link, &live.caller(), Bytes::from(message)));
    ask(link, asking(request, "ping", None), &id).await.map(drop)
}

/// Returns `true` if the status blames the request itself, not its credentials, its rate or the server.
fn complains(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 407 | 408 | 429)
}

/// Classifies a failure for the health of the backend.
fn judge(link: &Link, error: &BoxError) -> Outcome {
    if let Some(open) = cause_ref::<CircuitOpen>(error.as_ref()) {
        return Outcome::LeftAlone(open.retry_in);
    }
    if cause_ref::<CredentialError>(error.as_ref()).is_some() {
        return Outcome::Unclear;
    }
    let (probe, kind) = match cause_ref::<Failure>(error.as_ref()) {
        None if cause_ref::<Elapsed>(error.as_ref()).is_some() => (ProbeResult::Failed, "timeout"),
        None => (ProbeResult::Failed, "unreachable"),
        Some(Failure::Busy) => return Outcome::Unclear,
        Some(Failure::Status(status)) => match status.as_u16() {
            401 | 403 | 407 if link.shared() => (ProbeResult::Unauthorized, "unauthorized"),
            401 | 403 | 407 => return asks_for_caller(),
            429 => (ProbeResult::Slow, "rate_limited"),
            _ => (ProbeResult::Failed, "http_error"),
        },
        Some(Failure::Handshake { .. }) if !link.shared() => return asks_for_caller(),
        Some(_) => (ProbeResult::Failed, "protocol"),
    };
    Outcome::Seen(Sight { probe, wrong: Some((kind, problem(error))) })
}

/// Returns the outcome for a backend that responds but requires a caller's credentials.
fn asks_for_caller() -> Outcome {
    Outcome::Seen(Sight { probe: ProbeResult::RequiresUserCredentials, wrong: None })
}

/// Returns the health check result of a failed first contact.
pub(super) fn first_sight(link: &Link, error: &BoxError) -> Option<Sight> {
    match judge(link, error) {
        Outcome::Seen(sight) => Some(sight),
        Outcome::LeftAlone(_) | Outcome::Unclear => None,
    }
}
