//! Tasks that subscribe to backends on behalf of a stateful client.

use std::sync::Arc;

use vmcp_core::Generation;

use super::relay::Relay;
use crate::backend::SupportedModes;
use crate::call::CallContext;
use crate::expiry::wait_for_expiry;
use crate::notify::backend_stream::{ResumptionState, StreamSupport, read, untagged, updates};
use crate::notify::notification_filter::NotificationFilter;
use crate::session::{BackendSessionSlot, Session};
use crate::stream::{MessageClass, Stream};

/// Starts the subscription to a backend for a stateful client, if it has an open notification stream or resource subscriptions.
pub(crate) fn follow(
    context: &CallContext,
    session: &Arc<Session>,
    slot: &Arc<BackendSessionSlot>,
) {
    let Some(streams) = session.existing_streams() else { return };
    // Of the replicas that share the session, the one with the client's stream follows the backends.
    if session.shared().is_some_and(|shared| !shared.holds_stream()) {
        return;
    }
    let connected = streams.listening().is_some_and(|stream| stream.connected());
    if !connected && slot.subscriptions().is_empty() || slot.backend.is_retired() {
        return;
    }
    let start = || {
        let filter = Arc::clone(&context.notification_filter);
        let session = Arc::clone(session);
        let slot = Arc::clone(slot);
        let stream = streams.standing(|| session.account(&context.budgets));
        tokio::spawn(async move {
            let (owner, backend) = (Arc::clone(&session), Arc::clone(&slot.backend));
            let following = async move {
                if slot.backend.modes() == Some(SupportedModes::Stateless) {
                    for_subscriber(filter, session, slot, stream).await;
                } else {
                    for_session(filter, session, slot, stream).await;
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

/// Starts the subscriptions to all backends of a session whose record was read.
pub(crate) fn follow_all(context: &CallContext, session: &Arc<Session>) {
    for slot in session.backend_slots() {
        follow(context, session, &slot);
    }
}

/// Relays the notification stream of a stateful backend to that of a stateful client.
async fn for_session(
    filter: Arc<NotificationFilter>,
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
                sees_result: false,
                notification_filter: Arc::clone(&filter),
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
                // Without an expected response, a relay only ends with the stream.
                async move { _ = relay.pass(message, None).await }
            })
            .await
        };
        if round.await.is_ok_and(|support| support == StreamSupport::Never) {
            return;
        }
        reading.rest().await;
    }
}

/// Relays updates of subscribed resources from a stateless backend to a stateful client.
async fn for_subscriber(
    filter: Arc<NotificationFilter>,
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
        if filter.may_receive(caller.identity(), backend, Generation::Stateless, &message)
            && let Some(message) = untagged(&message)
        {
            stream.push(message, MessageClass::Coalesced);
        }
    })
    .await;
}
