//! Tasks in the memory of other replicas (`taskIds` of `subscriptions/listen`).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::sleep;
use vmcp_core::MediaType;
use vmcp_peer::{ForwardError, ReplicaHandle};
use vmcp_wire::{Envelope, Key, Splice, elements, find, parse_json_string, scan};

use super::tasks::{ACKNOWLEDGED, is_final};
use crate::backend::event_reader::EventReader;
use crate::call::Call;
use crate::notify::backend_stream::{MAX_EVENT_BYTES, RETRY_DELAY};
use crate::notify::listeners::Listener;
use crate::replicas::{ForwardKind, ForwardedRequest};
use crate::tasks::{RunTaskId, TASK_CHANGED};

/// Tasks of another replica that a listener follows.
pub(super) struct ReplicaTasks {
    replica: ReplicaHandle,
    /// Ids of the tasks that have not ended, exactly as the client sent them.
    pub(super) literals: Vec<Bytes>,
    /// Notifications of the replica. `None` if it could not be reached.
    events: Option<EventReader>,
}

/// Returns the tasks that other replicas have, and the ids of all other tasks. Tasks that a replica does not follow for the client, or
/// that were lost with it, are omitted.
pub(super) async fn find_tasks(
    call: &Call,
    literals: Vec<Bytes>,
) -> (Vec<ReplicaTasks>, Vec<Bytes>) {
    let (mut found, mut others) = (Vec::<ReplicaTasks>::new(), Vec::new());
    for literal in literals {
        let Some(replica) = replica_of(call, &literal) else {
            others.push(literal);
            continue;
        };
        match found.iter_mut().find(|tasks| tasks.replica == replica) {
            Some(tasks) => tasks.literals.push(literal),
            None => found.push(ReplicaTasks { replica, literals: vec![literal], events: None }),
        }
    }
    join_all(found.iter_mut().map(|tasks| tasks.open(call))).await;
    found.retain(|tasks| !tasks.literals.is_empty());
    (found, others)
}

/// Returns the other replica that has a task in its memory.
fn replica_of(call: &Call, literal: &Bytes) -> Option<ReplicaHandle> {
    if call.is_forwarded {
        return None;
    }
    let id = parse_json_string(literal)?;
    let task = RunTaskId::open(&id, &call.context.seal, call.caller.identity())?;
    call.context.replicas.other(task.replica.as_deref()?)
}

/// Notifies a listener of the tasks of another replica until all have ended or are lost.
pub(super) async fn for_listener(
    call: Arc<Call>,
    listener: Arc<Listener>,
    mut tasks: ReplicaTasks,
) {
    let mut pause = RETRY_DELAY.0;
    while !tasks.literals.is_empty() {
        while let Some(events) = &mut tasks.events {
            let Some(Ok(event)) = events.next().await else { break };
            pause = RETRY_DELAY.0;
            tasks.pass(&listener, &event.data);
            if tasks.literals.is_empty() {
                return;
            }
        }
        sleep(pause).await;
        pause = RETRY_DELAY.1.min(pause * 2);
        tasks.open(&call).await;
    }
}

impl ReplicaTasks {
    /// Opens the replica's notification stream for the tasks, and forgets those that it does not follow.
    async fn open(&mut self, call: &Call) {
        match self.events(call).await {
            Ok(events) => self.events = events,
            Err(error) if error.is_gone() => self.literals.clear(),
            Err(_) => self.events = None,
        }
    }

    async fn events(&mut self, call: &Call) -> Result<Option<EventReader>, ForwardError> {
        let Some(request) = self.request(call) else { return Ok(None) };
        let response = call.context.replicas.forward(ForwardKind::Task, &self.replica, request);
        let response = response.await?;
        if MediaType::of(response.headers()) != MediaType::EventStream {
            return Ok(None);
        }
        let mut events = EventReader::new(response.into_body(), MAX_EVENT_BYTES)
            .charged_while_open(call.account().as_ref());
        let Some(Ok(first)) = events.next().await else { return Ok(None) };
        let Ok(Envelope::Notification { method, params }) = scan(&first.data) else {
            return Ok(None);
        };
        if !method.is(&first.data, ACKNOWLEDGED) {
            return Ok(None);
        }
        let filter = params.span.and_then(|params| find(params.of(&first.data), "notifications"));
        let ids = filter.and_then(|filter| find(filter, "taskIds"));
        let followed: Vec<_> =
            ids.into_iter().flat_map(elements).filter_map(parse_json_string).collect();
        self.literals
            .retain(|literal| parse_json_string(literal).is_some_and(|id| followed.contains(&id)));
        Ok(Some(events))
    }

    /// Returns the client's request, reduced to these tasks.
    fn request(&self, call: &Call) -> Option<ForwardedRequest> {
        let filter = call.message.span(Key::Notifications)?;
        let ids = self.literals.join(&b","[..]);
        let mut splice = Splice::new(&call.message.bytes);
        splice.replace(filter, [b"{\"taskIds\":[", &ids[..], b"]}"].concat());
        let message = splice.finish();
        Some(ForwardedRequest::of_message(message, &call.headers, &call.caller, call.address))
    }

    /// Passes a notification about a task. A task that has ended is not followed any longer.
    fn pass(&mut self, listener: &Listener, message: &Bytes) {
        let Ok(Envelope::Notification { method, params }) = scan(message) else { return };
        let Some(params) = params.span.filter(|_| method.is(message, TASK_CHANGED)) else {
            return;
        };
        listener.push(message);
        let text = |member| find(params.of(message), member).and_then(parse_json_string);
        if text("status").is_some_and(|status| is_final(&status)) {
            let ended = text("taskId");
            self.literals.retain(|literal| parse_json_string(literal) != ended);
        }
    }
}
