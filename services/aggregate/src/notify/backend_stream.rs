//! Streams on which backends send notifications, resumed and reopened after their end.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;
use vmcp_core::{BoxError, Caller, MediaType};
use vmcp_timeout::TimeoutControl;
use vmcp_wire::{Envelope, scan};

use crate::backend::BackendHandle;
use crate::backend::event_reader::EventReader;
use crate::backend::handshake::{self, BackendSession, ClientInfo};
use crate::backend::health::check::is_session_unknown;
use crate::backend::request::listen;
use crate::catalog::define_literal;
use crate::session::BackendSessionSlot;

pub(crate) const RETRY_DELAY: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(10));
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

/// Returns the client information of a stateless client's subscription, which requests notifications only.
pub(crate) fn listening(caller: &Caller) -> ClientInfo<'_> {
    let client = br#"{"name":"vmcp","version":"1"}"#;
    ClientInfo { caller, capabilities: b"{}", client, cause: None, address: None }
}

/// Support of notification streams by a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamSupport {
    Possible,
    Never,
}

/// State for reopening a notification stream after its end.
pub(crate) struct ResumptionState {
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

    /// Waits before the stream is opened again.
    pub(crate) async fn rest(&mut self) {
        sleep(self.pause).await;
        self.pause = RETRY_DELAY.1.min(self.pause * 2);
    }
}

/// Reads one connection of a stateful backend's notification stream to its end, resuming after the last event.
pub(crate) async fn read<F: Future<Output = ()>>(
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

/// Reads a stateless backend's `subscriptions/listen` stream and reopens it when it ends.
pub(crate) async fn updates(
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

pub(crate) fn is_update(message: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Notification { method, .. }) if method.is(message, "notifications/resources/updated")
    )
}

/// Returns a notification without the id of a subscription that is unknown to the client.
pub(crate) fn untagged(message: &Bytes) -> Option<Bytes> {
    let Ok(Envelope::Notification { params, .. }) = scan(message) else { return None };
    let Some(meta) = params.get(vmcp_wire::Key::Meta) else { return Some(message.clone()) };
    let mut splice = vmcp_wire::Splice::new(message);
    splice.remove_member(meta, "io.modelcontextprotocol/subscriptionId");
    Some(splice.finish())
}
