//! Observer of one backend: fetches its offer, follows changes and reconnects. If the backend supports both generations, both
//! are observed.

mod follow;
mod reachability;
pub(crate) mod signal;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use vmcp_core::{BoxError, Generation, cause_ref};

pub(crate) use self::follow::kind_of_change;
use self::follow::{Observation, follow_listen, follow_session};
use self::reachability::probe_until_failure;
use self::signal::POLL_INTERVAL;
use super::error::BackendError;
use super::fetch::CatalogSource;
use super::handshake::{self, BackendSession};
use super::health::check::first_contact_result;
use super::health::diagnosis;
use super::{BackendHandle, FetchStatus, SupportedModes, is_unauthorized};
use crate::backend::context::BackendContext;
use crate::backend::error::is_mode_mismatch;
use crate::catalog::ByGeneration;
use crate::settings::Transport;

/// Minimum and maximum pause between attempts.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Generations fetched in one round of observation.
#[derive(Debug)]
struct ObservationRound(watch::Sender<ByGeneration<bool>>);

impl ObservationRound {
    fn new() -> Self {
        Self(watch::Sender::new(ByGeneration::default()))
    }

    /// Records that one generation was fetched.
    fn set_fetched(&self, generation: Generation) {
        self.0.send_modify(|fetched| fetched.set(generation, true));
    }

    /// Records that all supported generations were fetched.
    fn finish(&self) {
        self.0.send_modify(|fetched| *fetched = ByGeneration::both(true));
    }

    fn is_finished(&self) -> bool {
        *self.0.borrow() == ByGeneration::both(true)
    }

    /// Waits until one generation has been fetched.
    async fn fetched(&self, generation: Generation) {
        let fetched =
            self.0.subscribe().wait_for(|fetched| *fetched.of(generation)).await.map(drop);
        fetched.expect("the sender is owned by `self`");
    }
}

/// Keeps the offer of `backend` up to date until the task is aborted.
pub(crate) async fn observe(context: BackendContext, backend: Arc<BackendHandle>) {
    let mut pause = RETRY_DELAY.0;
    loop {
        let (round, begun) = (ObservationRound::new(), Instant::now());
        let watching = async {
            if backend.shared() {
                watch(&context, &backend, &round).await
            } else {
                probe_until_failure(&context, &backend, &round).await
            }
        };
        let ended = tokio::select! {
            ended = watching => ended,
            () = backend.reconnect.notified() => Ok(()),
        };
        if let Err(error) = ended {
            failed(&context, &backend, &error).await;
            if let Some(BackendError::Offer(_)) = cause_ref(error.as_ref()) {
                // Each attempt may cost a thousand requests, and no action of a client makes the offer smaller.
                sleep(POLL_INTERVAL).await;
                continue;
            }
        }
        // Rounds that end right after they begin keep the growing pause.
        if round.is_finished() && begun.elapsed() >= RETRY_DELAY.1 {
            pause = RETRY_DELAY.0;
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = backend.refresh_requested() => {}
        }
        pause = RETRY_DELAY.1.min(pause * 2);
    }
}

/// Records the failure and logs it once.
async fn failed(context: &BackendContext, backend: &BackendHandle, error: &BoxError) {
    backend.record_first_contact(|| first_contact_result(backend, error));
    let reason = super::error::problem(error);
    let status = |remedy| {
        let detail = Some(error.to_string()).filter(|detail| *detail != reason);
        let is_unauthorized = is_unauthorized(error);
        FetchStatus::Failed { reason: reason.clone(), detail, remedy, is_unauthorized }
    };
    let remedy = match backend.status() {
        FetchStatus::Failed { reason: known, remedy, .. } if known == reason => {
            tracing::debug!(backend = backend.name(), %error, "failed to observe the backend again");
            remedy
        }
        before => {
            if !matches!(before, FetchStatus::Fetching { .. }) {
                // The first attempt ends with the remedy; later attempts do not wait for it.
                backend.set_status(status(None));
            }
            let remedy = diagnosis::remedy(context, backend, error).await;
            let (backend, remedy_shown) = (backend.name(), remedy.as_deref());
            tracing::warn!(backend, %error, remedy = remedy_shown, "failed to observe the backend");
            remedy
        }
    };
    if !backend.is_retired() {
        backend.set_status(status(remedy));
    }
}

/// Fetches the offer and follows changes until an error occurs.
async fn watch(
    context: &BackendContext,
    backend: &Arc<BackendHandle>,
    round: &ObservationRound,
) -> Result<(), BoxError> {
    let client_info = context.client_info();
    let (claimed, found) = match backend.transport {
        Transport::Sse => (SupportedModes::Stateful, None),
        Transport::StreamableHttp => handshake::probe(backend, client_info.get()).await?,
    };
    if claimed == SupportedModes::Stateful {
        backend.set_modes(claimed);
    }
    // Discovery may omit or misreport the older generation, so it is always probed.
    let (modes, met) = match (handshake::open(backend, client_info.get()).await, claimed) {
        (Ok(met), SupportedModes::Stateful) => (SupportedModes::Stateful, Some(met)),
        (Ok(met), SupportedModes::Stateless | SupportedModes::Both) => {
            (SupportedModes::Both, Some(met))
        }
        (Err(_), SupportedModes::Stateless) => (SupportedModes::Stateless, None),
        (Err(error), SupportedModes::Both) if is_mode_mismatch(&error) => {
            (SupportedModes::Stateless, None)
        }
        (Err(error), SupportedModes::Stateful | SupportedModes::Both) => return Err(error),
    };
    backend.set_modes(modes);
    let alone = modes != SupportedModes::Both;
    let observation = |source| Observation { context, backend, source, alone, round };
    let stateless = observation(CatalogSource::Stateless(found.as_ref(), client_info.get()));
    let Some((closing, welcome)) = met else {
        return follow_listen(stateless, found.as_ref()).await;
    };
    let backend_session = closing.backend_session();
    let _standing = PublishedSession::new(backend, backend_session);
    let stateful = observation(CatalogSource::Stateful(backend_session, &welcome, None));
    if alone {
        return follow_session(stateful, backend_session).await;
    }
    let stateful = pin!(follow_session(stateful, backend_session));
    // The end of this stream does not require a new session.
    let stateless = pin!(async {
        loop {
            follow_listen(stateless, found.as_ref()).await?;
            sleep(RETRY_DELAY.1).await;
        }
    });
    match select(stateful, stateless).await {
        Either::Left((ended, rest)) => {
            fetch_once(rest, round, Generation::Stateless).await;
            ended
        }
        Either::Right((ended, rest)) => {
            fetch_once(rest, round, Generation::Stateful).await;
            ended
        }
    }
}

/// Follows one generation until it has been fetched, so a failure of the other generation does not hide its offer.
async fn fetch_once(
    following: impl Future<Output = Result<(), BoxError>>,
    round: &ObservationRound,
    generation: Generation,
) {
    tokio::select! {
        _ = following => {}
        () = round.fetched(generation) => {}
    }
}

/// Guard that publishes the observer's session; dropping it withdraws the session.
struct PublishedSession<'a>(&'a BackendHandle);

impl<'a> PublishedSession<'a> {
    fn new(backend: &'a BackendHandle, backend_session: &Arc<BackendSession>) -> Self {
        backend.standing.store(Some(Arc::clone(backend_session)));
        Self(backend)
    }
}

impl Drop for PublishedSession<'_> {
    fn drop(&mut self) {
        self.0.standing.store(None);
    }
}
