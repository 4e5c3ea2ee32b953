//! Observer of one backend: fetches its offer, follows changes and reconnects. If the backend supports both generations, both
//! are observed.

mod follow;
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
use self::signal::POLL_INTERVAL;
use super::error::BackendError;
use super::fetch::CatalogSource;
use super::handshake::{self, BackendSession};
use super::health::check::first_sight;
use super::health::diagnosis;
use super::health::reachability::reach;
use super::{BackendHandle, FetchStatus, SupportedModes, asks_for_credentials};
use crate::call::is_mode_mismatch;
use crate::catalog::ByGeneration;
use crate::gateway_state::GatewayState;
use crate::settings::Transport;

/// Minimum and maximum pause between attempts.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Generations fetched in one round of observation.
#[derive(Debug)]
pub(super) struct ObservationRound(watch::Sender<ByGeneration<bool>>);

impl ObservationRound {
    fn new() -> Self {
        Self(watch::Sender::new(ByGeneration::default()))
    }

    /// Records that one generation was fetched.
    fn note(&self, generation: Generation) {
        self.0.send_modify(|fetched| fetched.set(generation, true));
    }

    /// Records that all supported generations were fetched.
    pub(super) fn finish(&self) {
        self.0.send_modify(|fetched| *fetched = ByGeneration::both(true));
    }

    fn is_finished(&self) -> bool {
        *self.0.borrow() == ByGeneration::both(true)
    }

    /// Waits until one generation has been fetched.
    async fn fetched(&self, generation: Generation) {
        // The sender is owned by `self`, so the channel cannot be closed.
        _ = self.0.subscribe().wait_for(|fetched| *fetched.of(generation)).await;
    }
}

/// Keeps the offer of `link` up to date until the task is aborted.
pub(crate) async fn observe(hub: Arc<GatewayState>, link: Arc<BackendHandle>) {
    let mut pause = RETRY_DELAY.0;
    loop {
        let (round, begun) = (ObservationRound::new(), Instant::now());
        let watching = async {
            if link.shared() {
                watch(&hub, &link, &round).await
            } else {
                reach(&hub, &link, &round).await
            }
        };
        let ended = tokio::select! {
            ended = watching => ended,
            () = link.renew.notified() => Ok(()),
        };
        if let Err(error) = ended {
            failed(&hub, &link, &error).await;
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
            () = link.nudged() => {}
        }
        pause = RETRY_DELAY.1.min(pause * 2);
    }
}

/// Records the failure and logs it once.
async fn failed(hub: &GatewayState, link: &BackendHandle, error: &BoxError) {
    link.meet(|| first_sight(link, error));
    let reason = super::error::problem(error);
    let status = |remedy| {
        let detail = Some(error.to_string()).filter(|detail| *detail != reason);
        let is_unauthorized = asks_for_credentials(error);
        FetchStatus::Failed { reason: reason.clone(), detail, remedy, is_unauthorized }
    };
    let remedy = match link.status() {
        FetchStatus::Failed { reason: known, remedy, .. } if known == reason => {
            tracing::debug!(backend = link.name(), %error, "still cannot observe the backend");
            remedy
        }
        before => {
            if !matches!(before, FetchStatus::Fetching { .. }) {
                // The first attempt ends with the remedy; later attempts do not wait for it.
                link.set_status(status(None));
            }
            let remedy = diagnosis::remedy(hub, link, error).await;
            let (backend, remedy_shown) = (link.name(), remedy.as_deref());
            tracing::warn!(backend, %error, remedy = remedy_shown, "cannot observe the backend");
            remedy
        }
    };
    if !link.is_retired() {
        link.set_status(status(remedy));
    }
}

/// Fetches the offer and follows changes until an error occurs.
async fn watch(
    hub: &Arc<GatewayState>,
    link: &Arc<BackendHandle>,
    round: &ObservationRound,
) -> Result<(), BoxError> {
    let who = hub.introduction();
    let (claimed, found) = match link.transport {
        Transport::Sse => (SupportedModes::Stateful, None),
        Transport::StreamableHttp => handshake::probe(link, who.get()).await?,
    };
    if claimed == SupportedModes::Stateful {
        link.learn(claimed);
    }
    // Discovery may omit or misreport the older generation, so it is always probed.
    let (speaks, met) = match (handshake::open(link, who.get()).await, claimed) {
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
    link.learn(speaks);
    let alone = speaks != SupportedModes::Both;
    let observation = |speaker| Observation { hub, link, speaker, alone, round };
    let stateless = observation(CatalogSource::Stateless(found.as_ref(), who.get()));
    let Some((closing, welcome)) = met else {
        return follow_listen(stateless, found.as_ref()).await;
    };
    let live = closing.live();
    let _standing = PublishedSession::new(link, live);
    let stateful = observation(CatalogSource::Stateful(live, &welcome, None));
    if alone {
        return follow_session(stateful, live).await;
    }
    let stateful = pin!(follow_session(stateful, live));
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
    fn new(link: &'a BackendHandle, live: &Arc<BackendSession>) -> Self {
        link.standing.store(Some(Arc::clone(live)));
        Self(link)
    }
}

impl Drop for PublishedSession<'_> {
    fn drop(&mut self) {
        self.0.standing.store(None);
    }
}
