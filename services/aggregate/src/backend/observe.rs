//! The one standing relation to each backend: fetch what it offers, hear when that changes, come back
//! when it was away.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::time::{sleep, timeout};
use vmcp_breaker::health::Probe;
use vmcp_core::{Body, BoxError, Caller, Generation};
use vmcp_wire::{Envelope, find, scan};

use super::ask::{Media, media, tell};
use super::check::first_sight;
use super::events::Events;
use super::fetch::{self, Speaker};
use super::handshake::{self, Live};
use super::reach::reach;
use super::request::{listen, post};
use super::{Link, Speaks, Status};
use crate::catalog::{Kind, Offer};
use crate::hub::Hub;
use crate::settings::Transport;

/// The first and the longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long the beginning of a stream is waited for before the first look at what a backend offers.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest event of a notification stream, in bytes.
const LARGEST_EVENT: usize = 4 << 20;

/// Keeps the offer of `link` current for as long as the task lives.
pub(crate) async fn observe(hub: Arc<Hub>, link: Arc<Link>) {
    let mut pause = PAUSE.0;
    loop {
        let mut fetched = false;
        let watching = async {
            if link.shared() {
                watch(&hub, &link, &mut fetched).await
            } else {
                reach(&hub, &link, &mut fetched).await
            }
        };
        let ended = tokio::select! {
            ended = watching => ended,
            () = link.renew.notified() => Ok(()),
        };
        if let Err(error) = ended {
            failed(&link, &error);
        }
        if fetched {
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
fn failed(link: &Link, error: &BoxError) {
    link.meet(|| first_sight(link, error));
    let reason = super::failure::problem(error);
    match link.status() {
        Status::Failed { reason: known, .. } if known == reason => {
            tracing::debug!(backend = link.name(), %error, "still cannot observe the backend");
        }
        _ => tracing::warn!(backend = link.name(), %error, "cannot observe the backend"),
    }
    let detail = Some(error.to_string()).filter(|detail| *detail != reason);
    link.set_status(Status::Failed { reason, detail });
}

/// Fetches, then follows changes until something breaks.
async fn watch(hub: &Arc<Hub>, link: &Arc<Link>, fetched: &mut bool) -> Result<(), BoxError> {
    let who = hub.introduction();
    let (mut speaks, found) = match link.transport {
        Transport::Sse => (Speaks::Stateful, None),
        Transport::StreamableHttp => handshake::probe(link, who.get()).await?,
    };
    // Discovery need not list the older generation for a server to speak it: it is asked.
    let mut met = None;
    if speaks == Speaks::Stateless {
        met = handshake::open(link, who.get()).await.ok();
        if met.is_some() {
            speaks = Speaks::Both;
        }
    }
    link.learn(speaks);
    // Of a server that speaks both, the older generation is the better worn one.
    match speaks.with(Generation::Stateful) {
        Generation::Stateful => {
            let (closing, welcome) = match met {
                Some(met) => met,
                None => handshake::open(link, who.get()).await?,
            };
            let live = closing.live();
            let _standing = Standing::new(link, live);
            follow_session(hub, link, Speaker::Stateful(live, &welcome, None), live, fetched).await
        }
        Generation::Stateless => {
            let speaker = Speaker::Stateless(found.as_ref(), who.get());
            fetch_all(hub, link, speaker).await?;
            *fetched = true;
            follow_listen(hub, link, speaker, found.as_ref()).await
        }
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

async fn follow_session(
    hub: &Arc<Hub>,
    link: &Arc<Link>,
    speaker: Speaker<'_>,
    live: &Live,
    fetched: &mut bool,
) -> Result<(), BoxError> {
    let signal = link.signal(speaker.generation());
    let mut last: Option<Bytes> = None;
    let mut pause = PAUSE.0;
    loop {
        // The stream is opened first, so that no change falls between fetching and listening.
        let mut opening = pin!(link.send(live.sign(listen(link, &Caller::Gateway, last.as_ref()))));
        let opened = timeout(PATIENCE, &mut opening).await;
        fetch_all(hub, link, speaker).await?;
        *fetched = true;
        let opened = if let Ok(opened) = opened {
            opened
        } else {
            let opened = head_of(hub, link, speaker, opening).await?;
            // What has changed since then was not told.
            fetch_all(hub, link, speaker).await?;
            opened
        };
        // A server that answers everything but this has no stream.
        let Ok(response) = opened else {
            signal.next_poll().await;
            continue;
        };
        if !response.status().is_success() || media(response.headers()) != Media::Events {
            signal.next_poll().await;
            continue;
        }
        let mut events = Events::new(response.into_body(), LARGEST_EVENT);
        loop {
            tokio::select! {
                event = events.next() => {
                    let Some(Ok(event)) = event else { break };
                    pause = PAUSE.0;
                    heard(hub, link, speaker, live, &event.data).await?;
                }
                kinds = signal.changed() => refresh(hub, link, speaker, &kinds).await?,
            }
        }
        last = events.last_id().cloned();
        // A stream that ends at once must not be reopened without end in between.
        sleep(pause).await;
        pause = PAUSE.1.min(pause * 2);
    }
}

/// The head of a response that streams. Some servers, and proxies in front of others, send none before the first event:
/// until then, the offer is looked at as if there were no stream.
async fn head_of(
    hub: &Arc<Hub>,
    link: &Arc<Link>,
    speaker: Speaker<'_>,
    mut opening: Pin<&mut impl Future<Output = Result<Response<Body>, BoxError>>>,
) -> Result<Result<Response<Body>, BoxError>, BoxError> {
    let signal = link.signal(speaker.generation());
    loop {
        tokio::select! {
            opened = &mut opening => return Ok(opened),
            () = signal.next_poll() => fetch_all(hub, link, speaker).await?,
        }
    }
}

async fn follow_listen(
    hub: &Arc<Hub>,
    link: &Arc<Link>,
    speaker: Speaker<'_>,
    found: Option<&Bytes>,
) -> Result<(), BoxError> {
    let signal = link.signal(speaker.generation());
    let filter = filter(found);
    if filter.is_empty() {
        loop {
            signal.next_poll().await;
            fetch_all(hub, link, speaker).await?;
        }
    }
    let members = format!("\"notifications\":{{{filter}}},");
    let who = hub.introduction();
    let (mut request, _) = handshake::request(link, "subscriptions/listen", &members, who.get());
    let hold = vmcp_timeout::Hold::new();
    hold.forever();
    request.extensions_mut().insert(hold);
    let opened = head_of(hub, link, speaker, pin!(link.send(request))).await?;
    let streams = |response: &Response<Body>| media(response.headers()) == Media::Events;
    let Some(response) = opened.ok().filter(streams) else {
        // It may be gone altogether.
        fetch_all(hub, link, speaker).await?;
        signal.next_poll().await;
        return Ok(());
    };
    let mut events = Events::new(response.into_body(), LARGEST_EVENT);
    let mut acknowledged = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            kinds = signal.changed() => {
                refresh(hub, link, speaker, &kinds).await?;
                continue;
            }
        };
        let Some(event) = event.transpose()? else { return Ok(()) };
        match kind_of_change(&event.data) {
            Some(kind) => {
                link.other_changed(speaker.generation());
                refresh(hub, link, speaker, &[kind]).await?;
            }
            // What changed before the acknowledgement may not have been told.
            None if !acknowledged => {
                acknowledged = true;
                fetch_all(hub, link, speaker).await?;
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
async fn heard(
    hub: &Arc<Hub>,
    link: &Arc<Link>,
    speaker: Speaker<'_>,
    live: &Live,
    message: &Bytes,
) -> Result<(), BoxError> {
    if let Some(kind) = kind_of_change(message) {
        link.other_changed(speaker.generation());
        return refresh(hub, link, speaker, &[kind]).await;
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

/// What is known of the backend's offer.
fn known(link: &Link) -> Offer {
    link.offer.load().as_deref().cloned().unwrap_or_default()
}

async fn fetch_all(hub: &Arc<Hub>, link: &Arc<Link>, speaker: Speaker<'_>) -> Result<(), BoxError> {
    publish(hub, link, fetch::offer(link, speaker, &known(link)).await?).await;
    Ok(())
}

async fn refresh(
    hub: &Arc<Hub>,
    link: &Arc<Link>,
    speaker: Speaker<'_>,
    changed: &[Kind],
) -> Result<(), BoxError> {
    let mut offer = known(link);
    for kind in Kind::ALL {
        // One notification is about both.
        let listed = if kind == Kind::Templates { Kind::Resources } else { kind };
        if changed.contains(&listed) {
            offer.set(kind, fetch::list(link, speaker, kind, offer.of(kind)).await?);
        }
    }
    publish(hub, link, offer).await;
    Ok(())
}

/// Makes an offer part of the catalog, then says that it is there: who waits for the one sees the
/// other.
async fn publish(hub: &Arc<Hub>, link: &Arc<Link>, offer: Offer) {
    if link.offer.load().as_deref() != Some(&offer) {
        link.offer.store(Some(Arc::new(offer)));
        hub.rebuild().await;
    }
    link.set_status(Status::Ready);
    link.revive(Probe::Good);
}
