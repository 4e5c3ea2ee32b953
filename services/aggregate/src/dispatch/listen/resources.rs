//! Updates of resources for stateless clients (`resourceSubscriptions` of `subscriptions/listen`).

use std::sync::Arc;

use bytes::Bytes;
use vmcp_core::Generation;
use vmcp_wire::{Envelope, scan};

use crate::backend::handshake::BackendSession;
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::notify_or_log;
use crate::backend::{BackendHandle, SupportedModes};
use crate::notify::backend_stream::{
    ResumptionState, StreamSupport, is_update, listening, read, updates,
};
use crate::notify::listeners::Listener;
use crate::notify::notification_filter::NotificationFilter;
use crate::session::BackendSessionSlot;

/// Relays updates from one backend of either generation to a stateless client.
pub(crate) async fn for_listener(
    filter: Arc<NotificationFilter>,
    listener: Arc<Listener>,
    backend: Arc<BackendHandle>,
    uris: Vec<String>,
) {
    let forward = |generation: Generation, message: &Bytes| {
        if filter.may_receive(listener.caller.identity(), &backend, generation, message) {
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
        if round.await.is_ok_and(|support| support == StreamSupport::Never) {
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
    let request = with_operation(request, "", None);
    notify_or_log(&backend, request, "failed to reject a server request").await;
}
