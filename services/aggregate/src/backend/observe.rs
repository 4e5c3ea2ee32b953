//! The one standing relation to each backend: fetch what it offers, hear when that changes, come back
//! when it was away. Of a backend that speaks both generations, both are followed.

mod follow;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use vmcp_core::{BoxError, Generation, cause};

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

/// The first and the longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The generations that have been fetched in one round of observing.
#[derive(Debug)]
pub(super) struct Round(watch::Sender<ByGeneration<bool>>);

impl Round {
    fn new() -> Self {
        Self(watch::Sender::new(ByGeneration::default()))
    }

    /// Notes that one generation was fetched.
    fn note(&self, generation: Generation) {
        self.0.send_modify(|fetched| fetched.set(generation, true));
    }

    /// Notes that all was fetched that there is.
    pub(super) fn finish(&self) {
        self.0.send_modify(|fetched| *fetched = ByGeneration::both(true));
    }

    fn is_finished(&self) -> bool {
        *self.0.borrow() == ByGeneration::both(true)
    }

    /// Waits until one generation has been fetched.
    async fn fetched(&self, generation: Generation) {
        // The sender is in `self`: it cannot be gone.
        _ = self.0.subscribe().wait_for(|fetched| *fetched.of(generation)).await;
    }
}

/// Keeps the offer of `link` current for as long as the task lives.
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
            if let Some(Failure::Offer(_)) = cause(error.as_ref()) {
                // Each attempt may cost a thousand requests, and nothing that a client does makes the offer smaller.
                sleep(POLL_INTERVAL).await;
                continue;
            }
        }
        // What ends as soon as it has begun must not begin again without a growing pause.
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

/// Notes why it cannot be observed, and says so once.
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
                // The first attempt ends with the remedy; later ones must not wait for it.
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

/// Fetches, then follows changes until something breaks.
async fn watch(hub: &Arc<Hub>, link: &Arc<Link>, round: &Round) -> Result<(), BoxError> {
    let who = hub.introduction();
    let (claimed, found) = match link.transport {
        Transport::Sse => (Speaks::Stateful, None),
        Transport::StreamableHttp => handshake::probe(link, who.get()).await?,
    };
    if claimed == Speaks::Stateful {
        link.learn(claimed);
    }
    // Discovery need not list the older generation for a server to speak it, nor does it have to be right: it is asked.
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
    // That this stream ends is no reason to begin the session again.
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

/// Follows a generation until it has been fetched: that the other one fails must not keep it from being offered.
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

/// The observer's session is known to others while this is there.
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
