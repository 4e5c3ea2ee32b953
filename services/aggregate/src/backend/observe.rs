//! Observer of one backend: fetches its offer, follows changes and reconnects. If the backend supports both generations, both
//! are observed.

mod follow;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use vmcp_core::{BoxError, Generation, cause_ref};

pub(crate) use self::follow::kind_of_change;
use self::follow::{Observation, follow_listen, follow_session};
use super::check::first_sight;
use super::diagnose;
use super::failure::Failure;
use super::fetch::Speaker;
use super::handshake::{self, Live};
use super::reach::reach;
use super::signal::POLL_INTERVAL;
use super::{Link, Speaks, Status, asks_for_credentials};
use crate::call::doubtful;
use crate::catalog::ByGeneration;
use crate::hub::Hub;
use crate::settings::Transport;

/// Minimum and maximum pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Generations fetched in one round of observation.
#[derive(Debug)]
pub(super) struct Round(watch::Sender<ByGeneration<bool>>);

impl Round {
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
pub(crate) async fn observe(hub: Arc<Hub>, link: Arc<Link>) {
    let mut pause = PAUSE.0;
    loop {
        let (round, begun) = (Round::new(), Instant::now());
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
            if let Some(Failure::Offer(_)) = cause_ref(error.as_ref()) {
                // Each attempt may cost a thousand requests, and no action of a client makes the offer smaller.
                sleep(POLL_INTERVAL).await;
                continue;
            }
        }
        // Rounds that end right after they begin keep the growing pause.
        if round.is_finished() && begun.elapsed() >= PAUSE.1 {
            pause = PAUSE.0;
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = link.nudged() => {}
        }
        pause = PAUSE.1.min(pause * 2);
    }
}

/// Records the failure and logs it once.
async fn failed(hub: &Hub, link: &Link, error: &BoxError) {
    link.meet(|| first_sight(link, error));
    let reason = super::failure::problem(error);
    let status = |remedy| {
        let detail = Some(error.to_string()).filter(|detail| *detail != reason);
        let is_unauthorized = asks_for_credentials(error);
        Status::Failed { reason: reason.clone(), detail, remedy, is_unauthorized }
    };
    let remedy = match link.status() {
        Status::Failed { reason: known, remedy, .. } if known == reason => {
            tracing::debug!(backend = link.name(), %error, "still cannot observe the backend");
            remedy
        }
        before => {
            if !matches!(before, Status::Fetching { .. }) {
                // The first attempt ends with the remedy; later attempts do not wait for it.
                link.set_status(status(None));
            }
            let remedy = diagnose::remedy(hub, link, error).await;
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
async fn watch(hub: &Arc<Hub>, link: &Arc<Link>, round: &Round) -> Result<(), BoxError> {
    let who = hub.introduction();
    let (claimed, found) = match link.transport {
        Transport::Sse => (Speaks::Stateful, None),
        Transport::StreamableHttp => handshake::probe(link, who.get()).await?,
    };
    if claimed == Speaks::Stateful {
        link.learn(claimed);
    }
    // Discovery may omit or misreport the older generation, so it is always probed.
    let (speaks, met) = match (handshake::open(link, who.get()).await, claimed) {
        (Ok(met), Speaks::Stateful) => (Speaks::Stateful, Some(met)),
        (Ok(met), Speaks::Stateless | Speaks::Both) => (Speaks::Both, Some(met)),
        (Err(_), Speaks::Stateless) => (Speaks::Stateless, None),
        (Err(error), Speaks::Both) if doubtful(&error) => (Speaks::Stateless, None),
        (Err(error), Speaks::Stateful | Speaks::Both) => return Err(error),
    };
    link.learn(speaks);
    let alone = speaks != Speaks::Both;
    let observation = |speaker| Observation { hub, link, speaker, alone, round };
    let stateless = observation(Speaker::Stateless(found.as_ref(), who.get()));
    let Some((closing, welcome)) = met else {
        return follow_listen(stateless, found.as_ref()).await;
    };
    let live = closing.live();
    let _standing = Standing::new(link, live);
    let stateful = observation(Speaker::Stateful(live, &welcome, None));
    if alone {
        return follow_session(stateful, live).await;
    }
    let stateful = pin!(follow_session(stateful, live));
    // The end of this stream does not require a new session.
    let stateless = pin!(async {
        loop {
            follow_listen(stateless, found.as_ref()).await?;
            sleep(PAUSE.1).await;
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
    round: &Round,
    generation: Generation,
) {
    tokio::select! {
        _ = following => {}
        () = round.fetched(generation) => {}
    }
}

/// Guard that publishes the observer's session; dropping it withdraws the session.
struct Standing<'a>(&'a Link);

impl<'a> Standing<'a> {
    fn new(link: &'a Link, live: &Arc<Live>) -> Self {
        link.standing.store(Some(Arc::clone(live)));
        Self(link)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.standing.store(None);
    }
}
