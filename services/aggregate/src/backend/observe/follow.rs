//! Following what one generation of a backend offers.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::time::{sleep, timeout};
use vmcp_breaker::health::ProbeResult;
use vmcp_core::{Body, BoxError, Caller, Generation, Media};
use vmcp_wire::{Envelope, find, scan};

use super::{PAUSE, Round};
use crate::backend::ask::tell;
use crate::backend::events::Events;
use crate::backend::fetch::{self, Budget, Speaker};
use crate::backend::handshake::{self, Live};
use crate::backend::request::{listen, post};
use crate::backend::signal::ObserverSignal;
use crate::backend::{Link, Status};
use crate::catalog::{Kind, Offer, Offers, other};
use crate::hub::Hub;

/// The wait for the beginning of a stream before the first look at what a backend offers.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest event of a notification stream, in bytes.
const LARGEST_EVENT: usize = 4 << 20;

/// The observation of one generation of a backend.
#[derive(Clone, Copy)]
pub(super) struct Observation<'a> {
    pub(super) hub: &'a Arc<Hub>,
    pub(super) link: &'a Arc<Link>,
    pub(super) speaker: Speaker<'a>,
    /// Whether the backend speaks no other generation: clients of both are offered what is found.
    pub(super) alone: bool,
    pub(super) round: &'a Round,
}

impl Observation<'_> {
    fn generation(&self) -> Generation {
        self.speaker.generation()
    }

    fn signal(&self) -> &ObserverSignal {
        self.link.signal(self.generation())
    }

    /// The offer as it is known.
    fn known(&self) -> Offer {
        self.link
            .offers
            .load()
            .of(self.generation())
            .map(|offer| (**offer).clone())
            .unwrap_or_default()
    }

    /// The bytes that the backend offers in the other generation.
    fn kept(&self) -> usize {
        let offers = self.link.offers.load();
        let kept = offers.of(other(self.generation())).filter(|_| !self.alone);
        kept.map(|offer| offer.size()).unwrap_or_default()
    }

    async fn fetch_all(&self) -> Result<(), BoxError> {
        let offer = {
            let _turn = self.link.fetching.lock().await;
            let budget = Budget::beside(self.kept());
            fetch::offer(self.link, self.speaker, &self.known(), &budget).await?
        };
        self.publish(offer).await;
        Ok(())
    }

    /// Fetches the kinds of lists that the backend says have changed.
    async fn refresh(&self, changed: &[Kind]) -> Result<(), BoxError> {
        let turn = self.link.fetching.lock().await;
        let mut offer = self.known();
        // One notification is about resources and templates.
        let listed = |kind| if kind == Kind::Templates { Kind::Resources } else { kind };
        let stale = || Kind::ALL.into_iter().filter(|kind| changed.contains(&listed(*kind)));
        let size: usize = stale().map(|kind| offer.of(kind).size()).sum();
        let budget = Budget::beside(self.kept() + offer.size() - size);
        for kind in stale() {
            let before = offer.of(kind).clone();
            let list = fetch::list(self.link, self.speaker, (kind, &before), &budget);
            offer.set(kind, list.await?);
        }
        drop(turn);
        self.publish(offer).await;
        Ok(())
    }

    /// Makes an offer part of the catalog, then says that it is there: what waits for the one sees the
    /// other.
    async fn publish(&self, offer: Offer) {
        let Self { hub, link, alone, round, .. } = *self;
        let known = link.offers.load_full();
        let generation = self.generation();
        let offers =
            if alone { Offers::only(generation, offer) } else { known.with(generation, offer) };
        // Both generations are followed by one task: between these lines no other offer is stored.
        if *known != offers {
            link.offers.store(Arc::new(offers));
            hub.rebuild().await;
        }
        if alone {
            round.finish();
        } else {
            round.note(self.generation());
        }
        if round.is_finished() {
            link.set_status(Status::Ready);
            link.revive(ProbeResult::Healthy);
        }
    }
}

/// Follows the older generation through a session and its stream.
pub(super) async fn follow_session(of: Observation<'_>, live: &Live) -> Result<(), BoxError> {
    let (link, signal) = (of.link, of.signal());
    let mut last: Option<Bytes> = None;
    let mut pause = PAUSE.0;
    loop {
        // The stream is opened first, so that no change falls between fetching and listening.
        let mut opening = pin!(link.send(live.sign(listen(link, &Caller::Gateway, last.as_ref()))));
        let opened = timeout(PATIENCE, &mut opening).await;
        of.fetch_all().await?;
        let opened = if let Ok(opened) = opened {
            opened
        } else {
            let opened = head_of(&of, opening).await?;
            // What has changed since then was not told.
            of.fetch_all().await?;
            opened
        };
        // A server that answers everything but this has no stream.
        let Ok(response) = opened else {
            signal.next_poll().await;
            continue;
        };
        if !response.status().is_success() || Media::of(response.headers()) != Media::Events {
            signal.next_poll().await;
            continue;
        }
        let account = of.link.account(&Caller::Gateway, None);
        let mut events =
            Events::new(response.into_body(), LARGEST_EVENT).counted_while_open(account.as_ref());
        loop {
            tokio::select! {
                event = events.next() => {
                    let Some(Ok(event)) = event else { break };
                    pause = PAUSE.0;
                    heard(&of, live, &event.data).await?;
                }
                kinds = signal.changed() => of.refresh(&kinds).await?,
            }
        }
        // A connection that brought no event leaves it where it was.
        last = events.last_id().cloned().or(last);
        // A stream that ends at once must not be reopened without end in between.
        sleep(pause).await;
        pause = PAUSE.1.min(pause * 2);
    }
}

/// The head of a response that streams. Some servers, and proxies in front of others, send none before the first event:
/// until then, the offer is looked at as if there were no stream.
async fn head_of(
    of: &Observation<'_>,
    mut opening: Pin<&mut impl Future<Output = Result<Response<Body>, BoxError>>>,
) -> Result<Result<Response<Body>, BoxError>, BoxError> {
    let signal = of.signal();
    loop {
        tokio::select! {
            opened = &mut opening => return Ok(opened),
            () = signal.next_poll() => of.fetch_all().await?,
        }
    }
}

/// Follows the newer generation through `subscriptions/listen`, or by asking again and again.
pub(super) async fn follow_listen(
    of: Observation<'_>,
    found: Option<&Bytes>,
) -> Result<(), BoxError> {
    of.fetch_all().await?;
    let (link, signal) = (of.link, of.signal());
    let filter = filter(found);
    if filter.is_empty() {
        loop {
            signal.next_poll().await;
            of.fetch_all().await?;
        }
    }
    let members = format!("\"notifications\":{{{filter}}},");
    let who = of.hub.introduction();
    let (mut request, _) = handshake::request(link, "subscriptions/listen", &members, who.get());
    let hold = vmcp_timeout::TimeoutControl::new();
    hold.disable();
    request.extensions_mut().insert(hold);
    let opened = head_of(&of, pin!(link.send(request))).await?;
    let streams = |response: &Response<Body>| Media::of(response.headers()) == Media::Events;
    let Some(response) = opened.ok().filter(streams) else {
        // It may be gone altogether.
        of.fetch_all().await?;
        signal.next_poll().await;
        return Ok(());
    };
    let account = link.account(&Caller::Gateway, None);
    let mut events =
        Events::new(response.into_body(), LARGEST_EVENT).counted_while_open(account.as_ref());
    let mut acknowledged = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            kinds = signal.changed() => {
                of.refresh(&kinds).await?;
                continue;
            }
        };
        let Some(event) = event.transpose()? else { return Ok(()) };
        match kind_of_change(&event.data) {
            Some(kind) => link.list_changed(kind, of.generation()),
            // What changed before the acknowledgement may not have been told.
            None if !acknowledged => {
                acknowledged = true;
                of.fetch_all().await?;
            }
            None => {}
        }
    }
}

/// The notifications that a stateless backend says it has.
fn filter(found: Option<&Bytes>) -> String {
    let Some(capabilities) = found.and_then(|found| find(found, "capabilities")) else {
        return String::new();
    };
    let changes = |capability| {
        find(capabilities, capability).and_then(|object| find(object, "listChanged"))
            == Some(b"true")
    };
    ["tools", "prompts", "resources"]
        .into_iter()
        .filter(|capability| changes(capability))
        .map(|capability| format!("\"{capability}ListChanged\":true"))
        .collect::<Vec<_>>()
        .join(",")
}

/// A message on the observer's stream of a stateful backend.
async fn heard(of: &Observation<'_>, live: &Live, message: &Bytes) -> Result<(), BoxError> {
    let link = of.link;
    if let Some(kind) = kind_of_change(message) {
        link.list_changed(kind, of.generation());
        return Ok(());
    }
    let Ok(Envelope::Request { id, method, .. }) = scan(message) else { return Ok(()) };
    let id = String::from_utf8_lossy(id.of(message)).into_owned();
    let answer = if method.is(message, "ping") {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
    } else {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"method not found"}}}}"#
        )
    };
    tell(link, live.sign(post(link, &Caller::Gateway, answer.into()))).await
}

/// Which list a notification says has changed.
pub(crate) fn kind_of_change(message: &[u8]) -> Option<Kind> {
    let Ok(Envelope::Notification { method, .. }) = scan(message) else { return None };
    match &*method.read(message) {
        "notifications/tools/list_changed" => Some(Kind::Tools),
        "notifications/prompts/list_changed" => Some(Kind::Prompts),
        "notifications/resources/list_changed" => Some(Kind::Resources),
        _ => None,
    }
}
