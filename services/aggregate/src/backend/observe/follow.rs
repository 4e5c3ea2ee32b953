//! Observation of one generation of a backend.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::time::{sleep, timeout};
use vmcp_breaker::health::ProbeResult;
use vmcp_core::{Body, BoxError, Caller, Generation, MediaType};
use vmcp_wire::{Envelope, find, scan};

use super::signal::ObserverSignal;
use super::{ObservationRound, RETRY_DELAY};
use crate::backend::context::BackendContext;
use crate::backend::event_reader::EventReader;
use crate::backend::fetch::{self, Budget, CatalogSource};
use crate::backend::handshake::{self, BackendSession};
use crate::backend::request::{listen, post};
use crate::backend::rpc::notify;
use crate::backend::{BackendHandle, FetchStatus};
use crate::catalog::{Kind, Offer, Offers, other};

/// Timeout for the response head of a stream before the first fetch.
const STREAM_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum size of an event of a notification stream, in bytes.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Observation of one generation of a backend.
#[derive(Clone, Copy)]
pub(super) struct Observation<'a> {
    pub(super) context: &'a BackendContext,
    pub(super) backend: &'a Arc<BackendHandle>,
    pub(super) source: CatalogSource<'a>,
    /// `true` if the backend supports this generation only; its offer then applies to clients of both.
    pub(super) alone: bool,
    pub(super) round: &'a ObservationRound,
}

impl Observation<'_> {
    fn generation(&self) -> Generation {
        self.source.generation()
    }

    fn signal(&self) -> &ObserverSignal {
        self.backend.signal(self.generation())
    }

    /// Returns the last known offer.
    fn known(&self) -> Offer {
        self.backend
            .offers
            .load()
            .of(self.generation())
            .map_or_else(Offer::default, |offer| (**offer).clone())
    }

    /// Returns the size of the backend's offer in the other generation, in bytes.
    fn kept(&self) -> usize {
        let offers = self.backend.offers.load();
        let kept = offers.of(other(self.generation())).filter(|_| !self.alone);
        kept.map_or(0, |offer| offer.size())
    }

    async fn fetch_all(&self) -> Result<(), BoxError> {
        let offer = {
            let _turn = self.backend.fetching.lock().await;
            let budget = Budget::beside(self.kept());
            fetch::offer(self.backend, self.source, &self.known(), &budget).await?
        };
        self.publish(offer).await;
        Ok(())
    }

    /// Fetches the kinds of lists that the backend reported as changed.
    async fn refresh(&self, changed: &[Kind]) -> Result<(), BoxError> {
        let turn = self.backend.fetching.lock().await;
        let mut offer = self.known();
        // One notification covers both resources and templates.
        let listed = |kind| if kind == Kind::Templates { Kind::Resources } else { kind };
        let stale = || Kind::ALL.into_iter().filter(|kind| changed.contains(&listed(*kind)));
        let size: usize = stale().map(|kind| offer.of(kind).size()).sum();
        let budget = Budget::beside(self.kept() + offer.size() - size);
        for kind in stale() {
            let before = offer.of(kind).clone();
            let list = fetch::list(self.backend, self.source, (kind, &before), &budget);
            offer.set(kind, list.await?);
        }
        drop(turn);
        self.publish(offer).await;
        Ok(())
    }

    /// Adds an offer to the catalog before reporting it as fetched, so waiting requests find it.
    async fn publish(&self, offer: Offer) {
        let Self { context, backend, alone, round, .. } = *self;
        let known = backend.offers.load_full();
        let generation = self.generation();
        let offers =
            if alone { Offers::only(generation, offer) } else { known.with(generation, offer) };
        // One task follows both generations, so no other offer is stored between these lines.
        if *known != offers {
            backend.offers.store(Arc::new(offers));
            context.catalog_changed().await;
        }
        if alone {
            round.finish();
        } else {
            round.set_fetched(self.generation());
        }
        if round.is_finished() {
            backend.set_status(FetchStatus::Ready);
            backend.mark_healthy(ProbeResult::Healthy);
        }
    }
}

/// Follows the stateful generation through a session and its stream.
pub(super) async fn follow_session(
    of: Observation<'_>,
    backend_session: &BackendSession,
) -> Result<(), BoxError> {
    let (backend, signal) = (of.backend, of.signal());
    let mut last: Option<Bytes> = None;
    let mut pause = RETRY_DELAY.0;
    loop {
        // Open the stream first, so no change between fetching and listening is missed.
        let mut opening = pin!(backend.send(backend_session.sign(listen(
            backend,
            &Caller::Gateway,
            last.as_ref()
        ))));
        let opened = timeout(STREAM_HEAD_TIMEOUT, &mut opening).await;
        of.fetch_all().await?;
        let opened = if let Ok(opened) = opened {
            opened
        } else {
            let opened = head_of(&of, opening).await?;
            // Changes before this point were not notified.
            of.fetch_all().await?;
            opened
        };
        // A server that rejects only this request has no stream.
        let Ok(response) = opened else {
            signal.next_poll().await;
            continue;
        };
        if !response.status().is_success()
            || MediaType::of(response.headers()) != MediaType::EventStream
        {
            signal.next_poll().await;
            continue;
        }
        let account = of.backend.account(&Caller::Gateway, None);
        let mut events = EventReader::new(response.into_body(), MAX_EVENT_BYTES)
            .charged_while_open(account.as_ref());
        loop {
            tokio::select! {
                event = events.next() => {
                    let Some(Ok(event)) = event else { break };
                    pause = RETRY_DELAY.0;
                    heard(&of, backend_session, &event.data).await?;
                }
                kinds = signal.changed() => of.refresh(&kinds).await?,
            }
        }
        // A connection without events keeps the previous resumption id.
        last = events.last_id().cloned().or(last);
        // Pause, so a stream that ends immediately is not reopened in a tight loop.
        sleep(pause).await;
        pause = RETRY_DELAY.1.min(pause * 2);
    }
}

/// Waits for the head of a streaming response. Some servers and proxies delay it until the first event; until then, the offer
/// is polled as if there were no stream.
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

/// Follows the stateless generation through `subscriptions/listen`, or by polling.
pub(super) async fn follow_listen(
    of: Observation<'_>,
    found: Option<&Bytes>,
) -> Result<(), BoxError> {
    of.fetch_all().await?;
    let (backend, signal) = (of.backend, of.signal());
    let filter = filter(found);
    if filter.is_empty() {
        loop {
            signal.next_poll().await;
            of.fetch_all().await?;
        }
    }
    let members = format!("\"notifications\":{{{filter}}},");
    let client_info = of.context.client_info();
    let (mut request, _) =
        handshake::request(backend, "subscriptions/listen", &members, client_info.get());
    let hold = vmcp_timeout::TimeoutControl::new();
    hold.disable();
    request.extensions_mut().insert(hold);
    let opened = head_of(&of, pin!(backend.send(request))).await?;
    let streams =
        |response: &Response<Body>| MediaType::of(response.headers()) == MediaType::EventStream;
    let Some(response) = opened.ok().filter(streams) else {
        // The backend may be unavailable altogether.
        of.fetch_all().await?;
        signal.next_poll().await;
        return Ok(());
    };
    let account = backend.account(&Caller::Gateway, None);
    let mut events = EventReader::new(response.into_body(), MAX_EVENT_BYTES)
        .charged_while_open(account.as_ref());
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
            Some(kind) => backend.list_changed(kind, of.generation()),
            // Changes before the acknowledgement may not have been notified.
            None if !acknowledged => {
                acknowledged = true;
                of.fetch_all().await?;
            }
            None => {}
        }
    }
}

/// Returns the subscription filter for the notifications that a stateless backend declares.
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

/// Handles a message on the observer's stream of a stateful backend.
async fn heard(
    of: &Observation<'_>,
    backend_session: &BackendSession,
    message: &Bytes,
) -> Result<(), BoxError> {
    let backend = of.backend;
    if let Some(kind) = kind_of_change(message) {
        backend.list_changed(kind, of.generation());
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
    notify(backend, backend_session.sign(post(backend, &Caller::Gateway, answer.into()))).await
}

/// Returns the kind of list that a notification reports as changed.
pub(crate) fn kind_of_change(message: &[u8]) -> Option<Kind> {
    let Ok(Envelope::Notification { method, .. }) = scan(message) else { return None };
    match &*method.read(message) {
        "notifications/tools/list_changed" => Some(Kind::Tools),
        "notifications/prompts/list_changed" => Some(Kind::Prompts),
        "notifications/resources/list_changed" => Some(Kind::Resources),
        _ => None,
    }
}
