//! Tasks that subscribe to backends on behalf of one client.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;
use vmcp_core::{BoxError, Caller, Generation, MediaType};
use vmcp_timeout::TimeoutControl;
use vmcp_wire::{Envelope, scan};

use super::Listener;
use crate::backend::event_reader::Events;
use crate::backend::handshake::{self, BackendSession, ClientInfo};
use crate::backend::health::check::has_forgotten;
use crate::backend::request::{listen, post, with_operation};
use crate::backend::rpc::tell;
use crate::backend::{BackendHandle, SupportedModes};
use crate::bridge::relay::Relay;
use crate::catalog::define_literal;
use crate::expiry::wait_for_expiry;
use crate::gateway_state::GatewayState;
use crate::session::{BackendSessionSlot, Session};
use crate::stream::{MessageClass, Stream};

pub(crate) const RETRY_DELAY: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(10));
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

/// Returns the client information of a stateless client's subscription, which requests notifications only.
pub(crate) fn listening(caller: &Caller) -> ClientInfo<'_> {
    let client = br#"{"name":"vmcp","version":"1"}"#;
    ClientInfo { caller, capabilities: b"{}", client, cause: None, address: None }
}

/// Starts the subscription to a backend for a stateful client, if it has an open notification stream or resource subscriptions.
pub(crate) fn follow(
    hub: &Arc<GatewayState>,
    session: &Arc<Session>,
    upstream: &Arc<BackendSessionSlot>,
) {
    let Some(talk) = session.has_talk() else { return };
    let connected = talk.listening().is_some_and(|stream| stream.connected());
    if !connected && upstream.subscriptions().is_empty() || upstream.link.is_retired() {
        return;
    }
    let start = || {
        let hub = Arc::clone(hub);
        let session = Arc::clone(session);
        let upstream = Arc::clone(upstream);
        let stream = talk.standing(|| session.account(&hub));
        tokio::spawn(async move {
            let (owner, link) = (Arc::clone(&session), Arc::clone(&upstream.link));
            let following = async move {
                if upstream.link.speaks() == Some(SupportedModes::Stateless) {
                    for_subscriber(hub, session, upstream, stream).await;
                } else {
                    for_session(hub, session, upstream, stream).await;
                }
            };
            // The owner's next request, which brings a newer token, restarts it.
            tokio::select! {
                () = following => {}
                () = wait_for_expiry(|| owner.caller()) => {}
                () = link.retired() => {}
            }
        })
        .abort_handle()
    };
    upstream.listen_with(start);
}

/// Relays the notification stream of a stateful backend to that of a stateful client.
async fn for_session(
    hub: Arc<GatewayState>,
    session: Arc<Session>,
    upstream: Arc<BackendSessionSlot>,
    stream: Arc<Stream>,
) {
    let mut reading = ResumptionState::default();
    let level = || session.level();
    loop {
        let round = async {
            let caller = session.caller();
            let live = upstream.live(session.introduction(&caller), &level).await?;
            let relay = Relay {
                hub: Arc::clone(&hub),
                session: Arc::clone(&session),
                upstream: Arc::clone(&upstream),
                live: Arc::clone(&live),
                stream: Arc::clone(&stream),
                expected: None,
                hold: None,
                asker: Arc::default(),
                cause: None,
            };
            read(&upstream, &live, &mut reading, |message| {
                let relay = relay.clone();
                async move { _ = relay.pass(message, None).await }
            })
            .await
        };
        if round.await.is_ok_and(|said| said == StreamSupport::Never) {
            return;
        }
        reading.rest().await;
    }
}

/// Support of notification streams by a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamSupport {
    Possible,
    Never,
}

/// State for reopening a notification stream after its end.
struct ResumptionState {
    pause: Duration,
    /// Session of the stream, and the id of the last event.
    last: Option<(Weak<BackendSession>, Bytes)>,
}

impl Default for ResumptionState {
    fn default() -> Self {
        Self { pause: RETRY_DELAY.0, last: None }
    }
}

impl ResumptionState {
    /// Takes the event id for resumption if the session is unchanged. If the backend rejects it, it is not used again.
    fn take_last(&mut self, live: &Arc<BackendSession>) -> Option<Bytes> {
        let (of, last) = self.last.take()?;
        std::ptr::eq(of.as_ptr(), Arc::as_ptr(live)).then_some(last)
    }

    fn set_last(&mut self, live: &Arc<BackendSession>, last: Option<Bytes>) {
        self.last = last.map(|last| (Arc::downgrade(live), last));
    }

    async fn rest(&mut self) {
        sleep(self.pause).await;
        self.pause = RETRY_DELAY.1.min(self.pause * 2);
    }
}

/// Reads one connection of a stateful backend's notification stream to its end, resuming after the last event.
async fn read<F: Future<Output = ()>>(
    upstream: &BackendSessionSlot,
    live: &Arc<BackendSession>,
    reading: &mut ResumptionState,
    mut each: impl FnMut(Bytes) -> F,
) -> Result<StreamSupport, BoxError> {
    let link = &upstream.link;
    let last = reading.take_last(live);
    let response = link.send(live.sign(listen(link, &live.caller(), last.as_ref()))).await?;
    let status = response.status().as_u16();
    match status {
        // Servers without this route respond as if the session were unknown; only a request in the session tells the
        // difference.
        400 | 404 if live.can_end() && has_forgotten(link, live).await? => {
            upstream.gone(live);
            return Ok(StreamSupport::Possible);
        }
        400..=499 if last.is_some() => return Ok(StreamSupport::Possible),
        404 | 405 => return Ok(StreamSupport::Never),
        _ => {}
    }
    if MediaType::of(response.headers()) != MediaType::EventStream {
        return Ok(StreamSupport::Possible);
    }
    reading.pause = RETRY_DELAY.0;
    reading.set_last(live, last);
    let account = link.account(&live.caller(), None);
    let mut events =
        Events::new(response.into_body(), MAX_EVENT_BYTES).counted_while_open(account.as_ref());
    while let Some(event) = events.next().await {
        let event = event?;
        if let Some(last) = events.last_id() {
            reading.set_last(live, Some(last.clone()));
        }
        each(event.data).await;
    }
    Ok(StreamSupport::Possible)
}

/// Relays updates of subscribed resources from a stateless backend to a stateful client.
async fn for_subscriber(
    hub: Arc<GatewayState>,
    session: Arc<Session>,
    upstream: Arc<BackendSessionSlot>,
    stream: Arc<Stream>,
) {
    let uris: Vec<String> = upstream.subscriptions().iter().map(ToString::to_string).collect();
    if uris.is_empty() {
        return;
    }
    let caller = session.caller();
    let who = session.introduction(&caller);
    updates(&upstream.link, &uris, who, |message| {
        let caller = session.caller();
        let link = &upstream.link;
        if hub.may_hear(caller.identity(), link, Generation::Stateless, &message)
            && let Some(message) = untagged(&message)
        {
            stream.push(message, MessageClass::Coalesced);
        }
    })
    .await;
}

/// Relays updates from one backend of either generation to a stateless client.
pub(crate) async fn for_listener(
    hub: Arc<GatewayState>,
    listener: Arc<Listener>,
    link: Arc<BackendHandle>,
    uris: Vec<String>,
) {
    let tell = |generation: Generation, message: &Bytes| {
        if hub.may_hear(listener.caller.identity(), &link, generation, message) {
            listener.push(message);
        }
    };
    if link.speaks().is_some_and(|speaks| speaks != SupportedModes::Stateful) {
        let who = listening(&listener.caller);
        return updates(&link, &uris, who, |message| tell(Generation::Stateless, &message)).await;
    }
    let upstream = Arc::new(BackendSessionSlot::new(Arc::clone(&link)));
    for uri in &uris {
        upstream.subscribe(uri, true);
    }
    let closing = CloseOnDrop(Arc::clone(&upstream));
    let mut reading = ResumptionState::default();
    loop {
        let round = async {
            let live = upstream.live(listening(&listener.caller), &|| None).await?;
            let refuse = |message: Bytes| refuse(Arc::clone(&link), Arc::clone(&live), message);
            read(&upstream, &live, &mut reading, |message| {
                let updated = is_update(&message);
                if updated {
                    tell(Generation::Stateful, &message);
                }
                let answering = (!updated).then(|| refuse(message));
                async move {
                    if let Some(answering) = answering {
                        answering.await;
                    }
                }
            })
            .await
        };
        if round.await.is_ok_and(|said| said == StreamSupport::Never) {
            break;
        }
        reading.rest().await;
    }
    drop(closing);
}

/// Guard that ends the backend's session with the task.
struct CloseOnDrop(Arc<BackendSessionSlot>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(Vec::new());
    }
}

/// Rejects a server request, because no client can respond to it.
async fn refuse(link: Arc<BackendHandle>, live: Arc<BackendSession>, message: Bytes) {
    let Ok(Envelope::Request { id, method, .. }) = scan(&message) else { return };
    let id = String::from_utf8_lossy(id.of(&message)).into_owned();
    let answer = if method.is(&message, "ping") {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
    } else {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"method not found"}}}}"#
        )
    };
    let request = live.sign(post(&link, &live.caller(), answer.into()));
    _ = tell(&link, with_operation(request, "", None)).await;
}

/// Reads a stateless backend's `subscriptions/listen` stream and reopens it when it ends.
async fn updates(
    link: &BackendHandle,
    uris: &[String],
    who: ClientInfo<'_>,
    mut each: impl FnMut(Bytes),
) {
    let uris: Vec<String> =
        uris.iter().map(|uri| String::from_utf8_lossy(&define_literal(uri)).into_owned()).collect();
    let members = format!("\"notifications\":{{\"resourceSubscriptions\":[{}]}},", uris.join(","));
    let mut pause = RETRY_DELAY.0;
    loop {
        let (mut request, _) = handshake::request(link, "subscriptions/listen", &members, who);
        let hold = TimeoutControl::new();
        hold.disable();
        request.extensions_mut().insert(hold);
        if let Ok(response) = link.send(request).await
            && MediaType::of(response.headers()) == MediaType::EventStream
        {
            let account = link.account(who.caller, who.address);
            let mut events = Events::new(response.into_body(), MAX_EVENT_BYTES)
                .counted_while_open(account.as_ref());
            while let Some(Ok(event)) = events.next().await {
                pause = RETRY_DELAY.0;
                if is_update(&event.data) {
                    each(event.data);
                }
            }
        }
        sleep(pause).await;
        pause = RETRY_DELAY.1.min(pause * 2);
    }
}

fn is_update(message: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Notification { method, .. }) if method.is(message, "notifications/resources/updated")
    )
}

/// Returns a notification without the id of a subscription that is unknown to the client.
fn untagged(message: &Bytes) -> Option<Bytes> {
    let Ok(Envelope::Notification { params, .. }) = scan(message) else { return None };
    let Some(meta) = params.get(vmcp_wire::Key::Meta) else { return Some(message.clone()) };
    let mut splice = vmcp_wire::Splice::new(message);
    splice.remove_member(meta, "io.modelcontextprotocol/subscriptionId");
    Some(splice.finish())
}
