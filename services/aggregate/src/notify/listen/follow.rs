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
use crate::backend::event_reader::EventReader;
use crate::backend::handshake::{self, BackendSession, ClientInfo};
use crate::backend::health::check::is_session_unknown;
use crate::backend::request::{listen, post, with_operation};
use crate::backend::rpc::notify;
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
    gateway: &Arc<GatewayState>,
    session: &Arc<Session>,
    slot: &Arc<BackendSessionSlot>,
) {
    let Some(talk) = session.existing_streams() else { return };
    let connected = talk.listening().is_some_and(|stream| stream.connected());
    if !connected && slot.subscriptions().is_empty() || slot.backend.is_retired() {
        return;
    }
    let start = || {
        let gateway = Arc::clone(gateway);
        let session = Arc::clone(session);
        let slot = Arc::clone(slot);
        let stream = talk.standing(|| session.account(&gateway.budgets));
        tokio::spawn(async move {
            let (owner, backend) = (Arc::clone(&session), Arc::clone(&slot.backend));
            let following = async move {
                if slot.backend.modes() == Some(SupportedModes::Stateless) {
                    for_subscriber(gateway, session, slot, stream).await;
                } else {
                    for_session(gateway, session, slot, stream).await;
                }
            };
            // The owner's next request, which brings a newer token, restarts it.
            tokio::select! {
                () = following => {}
                () = wait_for_expiry(|| owner.caller()) => {}
                () = backend.retired() => {}
            }
        })
        .abort_handle()
    };
    slot.listen_with(start);
}

/// Relays the notification stream of a stateful backend to that of a stateful client.
async fn for_session(
    gateway: Arc<GatewayState>,
    session: Arc<Session>,
    slot: Arc<BackendSessionSlot>,
    stream: Arc<Stream>,
) {
    let mut reading = ResumptionState::default();
    let level = || session.level();
    loop {
        let round = async {
            let caller = session.caller();
            let backend_session =
                slot.backend_session(session.client_info(&caller), &level).await?;
            let relay = Relay {
                gateway: Arc::clone(&gateway),
                session: Arc::clone(&session),
                slot: Arc::clone(&slot),
                backend_session: Arc::clone(&backend_session),
                stream: Arc::clone(&stream),
                expected: None,
                hold: None,
                asker: Arc::default(),
                cause: None,
            };
            read(&slot, &backend_session, &mut reading, |message| {
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
    fn take_last(&mut self, backend_session: &Arc<BackendSession>) -> Option<Bytes> {
        let (of, last) = self.last.take()?;
        std::ptr::eq(of.as_ptr(), Arc::as_ptr(backend_session)).then_some(last)
    }

    fn set_last(&mut self, backend_session: &Arc<BackendSession>, last: Option<Bytes>) {
        self.last = last.map(|last| (Arc::downgrade(backend_session), last));
    }

    async fn rest(&mut self) {
        sleep(self.pause).await;
        self.pause = RETRY_DELAY.1.min(self.pause * 2);
    }
}

/// Reads one connection of a stateful backend's notification stream to its end, resuming after the last event.
async fn read<F: Future<Output = ()>>(
    slot: &BackendSessionSlot,
    backend_session: &Arc<BackendSession>,
    reading: &mut ResumptionState,
    mut each: impl FnMut(Bytes) -> F,
) -> Result<StreamSupport, BoxError> {
    let backend = &slot.backend;
    let last = reading.take_last(backend_session);
    let response = backend
        .send(backend_session.sign(listen(backend, &backend_session.caller(), last.as_ref())))
        .await?;
    let status = response.status().as_u16();
    match status {
        // Servers without this route respond as if the session were unknown; only a request in the session tells the
        // difference.
        400 | 404
            if backend_session.can_end()
                && is_session_unknown(backend, backend_session).await? =>
        {
            slot.gone(backend_session);
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
    reading.set_last(backend_session, last);
    let account = backend.account(&backend_session.caller(), None);
    let mut events = EventReader::new(response.into_body(), MAX_EVENT_BYTES)
        .charged_while_open(account.as_ref());
    while let Some(event) = events.next().await {
        let event = event?;
        if let Some(last) = events.last_id() {
            reading.set_last(backend_session, Some(last.clone()));
        }
        each(event.data).await;
    }
    Ok(StreamSupport::Possible)
}

/// Relays updates of subscribed resources from a stateless backend to a stateful client.
async fn for_subscriber(
    gateway: Arc<GatewayState>,
    session: Arc<Session>,
    slot: Arc<BackendSessionSlot>,
    stream: Arc<Stream>,
) {
    let uris: Vec<String> = slot.subscriptions().iter().map(ToString::to_string).collect();
    if uris.is_empty() {
        return;
    }
    let caller = session.caller();
    let client_info = session.client_info(&caller);
    updates(&slot.backend, &uris, client_info, |message| {
        let caller = session.caller();
        let backend = &slot.backend;
        if gateway.may_receive(caller.identity(), backend, Generation::Stateless, &message)
            && let Some(message) = untagged(&message)
        {
            stream.push(message, MessageClass::Coalesced);
        }
    })
    .await;
}

/// Relays updates from one backend of either generation to a stateless client.
pub(crate) async fn for_listener(
    gateway: Arc<GatewayState>,
    listener: Arc<Listener>,
    backend: Arc<BackendHandle>,
    uris: Vec<String>,
) {
    let forward = |generation: Generation, message: &Bytes| {
        if gateway.may_receive(listener.caller.identity(), &backend, generation, message) {
            listener.push(message);
        }
    };
    if backend.modes().is_some_and(|modes| modes != SupportedModes::Stateful) {
        let client_info = listening(&listener.caller);
        return updates(&backend, &uris, client_info, |message| {
            forward(Generation::Stateless, &message);
        })
        .await;
    }
    let slot = Arc::new(BackendSessionSlot::new(Arc::clone(&backend)));
    for uri in &uris {
        slot.subscribe(uri, true);
    }
    let closing = CloseOnDrop(Arc::clone(&slot));
    let mut reading = ResumptionState::default();
    loop {
        let round = async {
            let backend_session =
                slot.backend_session(listening(&listener.caller), &|| None).await?;
            let refuse = |message: Bytes| {
                refuse(Arc::clone(&backend), Arc::clone(&backend_session), message)
            };
            read(&slot, &backend_session, &mut reading, |message| {
                let updated = is_update(&message);
                if updated {
                    forward(Generation::Stateful, &message);
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
async fn refuse(backend: Arc<BackendHandle>, backend_session: Arc<BackendSession>, message: Bytes) {
    let Ok(Envelope::Request { id, method, .. }) = scan(&message) else { return };
    let id = String::from_utf8_lossy(id.of(&message)).into_owned();
    let answer = if method.is(&message, "ping") {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
    } else {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"method not found"}}}}"#
        )
    };
    let request = backend_session.sign(post(&backend, &backend_session.caller(), answer.into()));
    _ = notify(&backend, with_operation(request, "", None)).await;
}

/// Reads a stateless backend's `subscriptions/listen` stream and reopens it when it ends.
async fn updates(
    backend: &BackendHandle,
    uris: &[String],
    client_info: ClientInfo<'_>,
    mut each: impl FnMut(Bytes),
) {
    let uris: Vec<String> =
        uris.iter().map(|uri| String::from_utf8_lossy(&define_literal(uri)).into_owned()).collect();
    let members = format!("\"notifications\":{{\"resourceSubscriptions\":[{}]}},", uris.join(","));
    let mut pause = RETRY_DELAY.0;
    loop {
        let (mut request, _) =
            handshake::request(backend, "subscriptions/listen", &members, client_info);
        let hold = TimeoutControl::new();
        hold.disable();
        request.extensions_mut().insert(hold);
        if let Ok(response) = backend.send(request).await
            && MediaType::of(response.headers()) == MediaType::EventStream
        {
            let account = backend.account(client_info.caller, client_info.address);
            let mut events = EventReader::new(response.into_body(), MAX_EVENT_BYTES)
                .charged_while_open(account.as_ref());
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
